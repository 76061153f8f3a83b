"""Figures published in papers, to show next to our experiments of the same kind.

Only numbers from the papers' texts are used; none is read off a plot, and most plots have no numbers in the text.
A line called "computed" is a throughput derived from the latency of one operation by the paper's own equation
(view servers / latency). "The Lord of the Rings" has protocols and proofs, but no measurements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tailrace_bench.results import Line, Paper, Point, Result, Spread, Whose
from tailrace_bench.units import OPERATIONS, TIME, VIEW_UPDATES, Unit

WDP = "View Maintenance in Web Data Platforms"
VMS = "VMS, a view maintenance system for key-value stores"
DYNAMIC = "Dynamic Scalable View Maintenance in KV-stores"

ALL = ""  # the x of a number that applies to the whole axis
SMALL = "50 view servers of 1 core, HBase on 32 region servers"
LARGE = "100, 200 and 400 view servers of 1 core, HBase on 32 region servers"
BY_EQUATION = "upper bound by the paper's own equation: view servers / latency of one operation"


@dataclass(frozen=True)
class Published:
    """A paper's figure, the numbers that its text gives, and notes from other papers (`also`)."""

    paper: Paper
    unit: Unit | None = None  # of the lines
    lines: tuple[Line, ...] = ()
    also: tuple[str, ...] = ()


def _published_line(name: str, note: str, *points: tuple[float | str, float, float]) -> Line:
    """A published range at each x. The plot shows its middle. `runs` is 0, as the papers do not give it."""
    ranges = tuple(Point(x, Spread((least + most) / 2, least, most, 0)) for x, least, most in points)
    return Line(name, Whose.PAPER, ranges, note)


PEAK = _published_line(
    "VMS, peak",
    "up to 400 view servers; the text does not say at how many view tables; a view update is one read and one write "
    "of HBase",
    (ALL, 1.1e6, 1.1e6),
)

BASE_WRITES = Paper(
    VMS,
    "Figure 14",
    "2M rows inserted while 5 to 50 view servers work; 32 region servers. Up to 25 view servers do not slow the "
    "clients down; more slow them down by about 7%.",
)

PUBLISHED: dict[str, Published] = {
    "sums": Published(
        Paper(
            WDP,
            "Fig. 2 and 3; Fig. 5 and 6 with update signatures",
            "SUM view over 1M rows, uniform updates; 20 storage servers on MySQL, 10 log servers, view managers on "
            "20 machines. Throughput grows with the number of view managers until contention for view rows reaches "
            "about 750, then falls; with more groups this happens later. Signatures that keep a sum correct after "
            "failures cost about 9%. "
            "The text gives no throughput for uniform updates.",
        ),
    ),
    "extremes": Published(
        Paper(
            WDP,
            "Fig. 4; Fig. 7 with reference counters",
            "MIN view over 1M rows; 20 storage servers on MySQL, view managers on 20 machines. Uniform and normal "
            "values rarely affect the minimum and cost little. With Zipfian values a new minimum is often read from "
            "the base table, and adding view managers soon stops helping; a counter of the minimum's occurrences fixes "
            "that, at a lower rate than the other two. Fewer than 24 contentions/s. The text gives no throughput.",
        ),
        also=(
            f"{DYNAMIC}, Fig. 6 (10 region servers, 10 to 50 view managers, 1M operations): COUNT and SUM are "
            "about equally fast, an index is slower, MIN and MAX are slower than the index. No numbers in the text.",
        ),
    ),
    "projection": Published(
        Paper(
            VMS,
            "Figure 7",
            f"2M operations on 1k, 10k and 100k row keys, and 1.5M TPC-H orders; {SMALL}. Each view server does 902 "
            "to 1,026 operations/s regardless of their number; 1k row keys are 12% slower than 100k.",
        ),
        OPERATIONS,
        (
            _published_line("VMS, 1 view server", "from the text, over all four workloads", (ALL, 902, 1026)),
            _published_line(
                "VMS, 50 view servers, computed",
                "50 times one server; the text calls the scaling nearly perfect",
                (ALL, 50 * 902, 50 * 1026),
            ),
        ),
    ),
    "selection": Published(
        Paper(
            VMS,
            "Figure 8",
            f"2M operations, 20%, 50% and 80% selected, and TPC-H orders at 50%; {SMALL}. Scales linearly. Selecting "
            "20% is 46% faster than selecting 80%; TPC-H at 50% is 9.6% slower than synthetic rows at 50%. One "
            "operation takes 0.8 to 1.5 ms.",
        ),
        OPERATIONS,
        (_published_line("VMS, 50 view servers, computed", BY_EQUATION, (ALL, 50 / 1.5e-3, 50 / 0.8e-3)),),
        (
            f"{DYNAMIC}, Fig. 5 (10 region servers, 10 to 50 view managers, 40 clients, 1M operations; 10%, 50% and "
            "90% selected): the fastest kind of view; at 10% the clients are the limit. No numbers in the text.",
        ),
    ),
    "aggregation": Published(
        Paper(
            VMS,
            "Figure 9",
            f"SUM, MIN, MAX, AVG and COUNT at once, base rows to groups from 10k:1k to TPC-H's 1M:150k; {SMALL}. "
            "Scales linearly except for 1M:1k, where the values kept for each group become the bottleneck. One "
            "function instead of five makes a difference of less than 1%. One operation takes 2.5 to 3.5 ms.",
        ),
        OPERATIONS,
        (_published_line("VMS, 50 view servers, computed", BY_EQUATION, (ALL, 50 / 3.5e-3, 50 / 2.5e-3)),),
    ),
    "join": Published(
        Paper(
            VMS,
            "Figure 10",
            "1M operations on each of two tables with 1k, 10k and 100k join keys, and TPC-H orders with customer; "
            f"{SMALL}. Scales linearly, about as fast as aggregation; 1k join keys are 13% slower than 100k. One "
            "operation takes 2.5 to 3.5 ms, whatever it joins with.",
        ),
        OPERATIONS,
        (_published_line("VMS, 50 view servers, computed", BY_EQUATION, (ALL, 50 / 3.5e-3, 50 / 2.5e-3)),),
        (
            f"{DYNAMIC}, Fig. 7 (10 region servers, 10 to 50 view managers): the slowest kind of view, and faster "
            "with more view managers. No numbers in the text.",
        ),
    ),
    "multiquery": Published(
        Paper(
            VMS,
            "Figure 11",
            "100 selections with different ranges, as 200 view tables, 2M records; the text names 10 and 20 base "
            "tables; up to 200 view servers of 1 core. Scales linearly; doubling the base tables "
            "halves the views per table and doubles the rate of base operations. The text gives no throughput.",
        ),
    ),
    "viewtables": Published(
        Paper(
            VMS,
            "Figure 12 (its text says 11)",
            f"Up to 12,800 view tables; {LARGE}. Peak of 1.1M view updates/s; at 12,800 view tables a third "
            "of the peak. Best with at most 4 view tables per view server.",
        ),
        VIEW_UPDATES,
        (
            PEAK,
            _published_line(
                "VMS, 12,800 view tables, computed",
                "a third of the peak, as the text says",
                (12_800, 1.1e6 / 3, 1.1e6 / 3),
            ),
        ),
    ),
    "selections": Published(
        Paper(
            VMS,
            "Figure 12 (its text says 11)",
            f"Many queries at once, up to 12,800 view tables; {LARGE}. Peak of 1.1M view updates/s.",
        ),
        VIEW_UPDATES,
        (PEAK,),
    ),
    "scans": Published(
        Paper(
            VMS,
            "Figure 13",
            "Three ways to get a count: a client scans the table, HBase's region servers scan it in parallel, or the "
            "client reads a view that 40 view servers maintain. The client scan grows with the table and is the "
            "slowest; the server scan takes 5 s at 1M rows; reading the view takes less than 1 ms up to 10M rows "
            "(the abstract says less than 5 ms).",
        ),
        TIME,
        (
            _published_line("HBase, server scan", "32 region servers", (1_000_000, 5.0, 5.0)),
            _published_line("VMS, view, upper bound", "from the text", (10_000_000, 1e-3, 1e-3)),
        ),
        (f"{DYNAMIC}, Fig. 8: the same three ways and the same numbers, with 10 region servers.",),
    ),
    "peers_size": Published(
        Paper(
            VMS,
            "Figure 13",
            "A count recomputed on request by 32 region servers that scan their parts in parallel: 5 s at 1M rows, "
            "growing with the table.",
        ),
        TIME,
        (_published_line("HBase, server scan", "32 region servers", (1_000_000, 5.0, 5.0)),),
    ),
    "writes": Published(
        BASE_WRITES,
        also=(
            f"{DYNAMIC}, Fig. 11 (10 region servers, 1M rows inserted; 20, 30 and 40 view managers): maintenance "
            "makes the inserts take about 40% longer; ten more view managers add about 2%.",
        ),
    ),
    "freshness": Published(
        Paper(
            VMS,
            "Figure 15",
            "Time from an operation in the log to all its views, without queueing: 0.85 ms for projection, 0.8 to "
            "1.5 ms for selection, 2.5 to 3.5 ms for aggregation and join. With queueing, by the paper's equation: "
            "100k operations queued at 25 view servers cause 5 s of staleness, at 200 view servers less than 1 s.",
        ),
        TIME,
        (
            _published_line("VMS, 25 view servers, 100k queued", "staleness by the paper's equation", (ALL, 5.0, 5.0)),
            _published_line("VMS, aggregation, nothing queued", "latency of one operation", (ALL, 2.5e-3, 3.5e-3)),
        ),
    ),
    "hbase_writes": Published(BASE_WRITES),
    "hbase_steps": Published(
        Paper(
            VMS,
            "Figure 7",
            f"2M operations on a projection; {SMALL}. Each view server does 902 to 1,026 operations/s.",
        ),
        OPERATIONS,
        (_published_line("VMS, 1 view server", "from the text, a projection", (ALL, 902, 1026)),),
    ),
    "hbase_freshness": Published(
        Paper(
            VMS,
            "Figure 15",
            "Time from an operation in the log to all its views, without queueing: 2.5 to 3.5 ms for aggregation. With "
            "queueing, by the paper's equation: 100k operations queued at 25 view servers cause 5 s of staleness.",
        ),
        TIME,
        (_published_line("VMS, 25 view servers, 100k queued", "staleness by the paper's equation", (ALL, 5.0, 5.0)),),
    ),
    "hbase_reads": Published(
        Paper(
            VMS,
            "Figure 13",
            "The region servers of HBase scan a table of 1M rows in 5 s; reading a view takes less than 1 ms up to 10M "
            "rows (the abstract says less than 5 ms).",
        ),
        TIME,
        (
            _published_line("HBase, server scan of 1M rows", "32 region servers", (ALL, 5.0, 5.0)),
            _published_line("VMS, view, upper bound", "from the abstract", (ALL, 5e-3, 5e-3)),
        ),
    ),
    "skew": Published(
        Paper(
            WDP,
            "Fig. 8",
            "SUM view over 1M rows on 20 storage servers. Uniform updates scale nearly linearly with the view "
            "managers; strongly Zipfian ones, where the busiest storage server gets 9 times the load of the idlest, "
            "level off at about 1,500 updates/s.",
        ),
        OPERATIONS,
        (
            _published_line(
                "WDP, Zipf", "the rate at which it levels off: about 1,500, from the text", (ALL, 1500, 1500)
            ),
        ),
        (
            f"{DYNAMIC}, Fig. 10 (10 region servers): with uniform keys the time to fill table and views does not "
            "depend on the number of view managers; with Zipfian keys it is much longer and shrinks with more view "
            "managers.",
        ),
    ),
}


def add_published(result: Result) -> Result:
    """Adds the paper's finding, its notes and, if the units match, its lines. Safe to apply twice."""
    published = PUBLISHED.get(result.name)
    if published is None:
        return result
    ours = tuple(line for line in result.lines if line.whose is not Whose.PAPER)
    factor = published.unit.factor_to(result.y) if published.unit else None
    theirs = tuple(_scale_line(line, factor) for line in published.lines) if factor else ()
    also = tuple(note for note in published.also if note not in result.notes)
    return replace(result, paper=published.paper, lines=ours + theirs, notes=result.notes + also)


def _scale_line(line: Line, factor: float) -> Line:
    points = (
        Point(p.x, Spread(p.y.median * factor, p.y.least * factor, p.y.most * factor, p.y.runs)) for p in line.points
    )
    return replace(line, points=tuple(points))
