"""What the papers measured, beside our own experiments of the same kind.

Only what their texts say: most of their plots have no numbers in the text, and none is read off a picture. Where
a text gives the latency of one operation, the throughput of a number of view servers is by the paper's own equation
(servers / latency), and such a line is called computed. "The Lord of the Rings" has protocols and proofs, but no
measurements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tailrace_bench.results import Line, Paper, Point, Result, Spread, Whose
from tailrace_bench.units import OPERATIONS, TIME, VIEW_UPDATES, Unit

WDP = "View Maintenance in Web Data Platforms"
VMS = "VMS, a view maintenance system for key-value stores"
DYNAMIC = "Dynamic Scalable View Maintenance in KV-stores"

ALL = ""  # a number that holds for the whole axis
SMALL = "50 view servers of 1 core, HBase on 32 region servers"
LARGE = "100, 200 and 400 view servers of 1 core, HBase on 32 region servers"
BY_EQUATION = "the most it can do by the paper's own equation: view servers / latency of one operation"


@dataclass(frozen=True)
class Published:
    """A paper's figure, the numbers its text gives, and what other papers or figures add."""

    paper: Paper
    unit: Unit | None = None  # of the lines
    lines: tuple[Line, ...] = ()
    also: tuple[str, ...] = ()


def _line(name: str, note: str, *points: tuple[float | str, float, float]) -> Line:
    """A published range at each x; its middle is drawn, and how often it was measured is not told."""
    found = tuple(Point(x, Spread((least + most) / 2, least, most, 0)) for x, least, most in points)
    return Line(name, Whose.PAPER, found, note)


PEAK = _line(
    "VMS, peak",
    "view servers: up to 400; at how many view tables is not in the text; a view update is a read and a write of HBase",
    (ALL, 1.1e6, 1.1e6),
)

PUBLISHED: dict[str, Published] = {
    "sums": Published(
        Paper(
            WDP,
            "Fig. 2 and 3; Fig. 5 and 6 with update signatures",
            "SUM view over 1M rows, uniform updates; 20 storage servers on MySQL, 10 log servers, view managers on "
            "20 machines. Throughput grows with the view managers until contention for view rows reaches about 750, "
            "then falls; the more groups, the later. Signatures that keep a sum right after failures cost about 9%. "
            "The text gives no throughput for uniform updates.",
        ),
    ),
    "extremes": Published(
        Paper(
            WDP,
            "Fig. 4; Fig. 7 with reference counters",
            "MIN view over 1M rows; 20 storage servers on MySQL, view managers on 20 machines. Uniform and normal "
            "values rarely touch the minimum, and cost little. With Zipfian values a new minimum is often read from "
            "the base table, and more view managers soon stop helping; a counter of the minimum's occurrences mends "
            "that, at a lower rate than the other two. Fewer than 24 contentions/s. The text gives no throughput.",
        ),
        also=(
            f"{DYNAMIC}, Fig. 6 (10 region servers, 10 to 50 view managers, 1M operations): COUNT and SUM are about "
            "as fast as each other, an index slower, MIN and MAX slower than the index. No numbers in the text.",
        ),
    ),
    "projection": Published(
        Paper(
            VMS,
            "Figure 7",
            f"2M operations on 1k, 10k and 100k row keys, and 1.5M TPC-H orders; {SMALL}. Each view server does 902 "
            "to 1,026 operations/s however many there are; 1k row keys are 12% slower than 100k.",
        ),
        OPERATIONS,
        (
            _line("VMS, 1 view server", "from the text, over all four workloads", (ALL, 902, 1026)),
            _line(
                "VMS, 50 view servers, computed",
                "50 times that of one server, as the text calls the scaling nearly perfect",
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
        (_line("VMS, 50 view servers, computed", BY_EQUATION, (ALL, 50 / 1.5e-3, 50 / 0.8e-3)),),
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
            "Scales linearly but for 1M:1k, where the values kept for each group become the bottleneck. One function "
            "instead of five makes less than 1% of difference. One operation takes 2.5 to 3.5 ms.",
        ),
        OPERATIONS,
        (_line("VMS, 50 view servers, computed", BY_EQUATION, (ALL, 50 / 3.5e-3, 50 / 2.5e-3)),),
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
        (_line("VMS, 50 view servers, computed", BY_EQUATION, (ALL, 50 / 3.5e-3, 50 / 2.5e-3)),),
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
            "tables; up to 200 view servers of 1 core. Scales linearly; twice the base tables, which halves the "
            "views of each, doubles the rate of base operations. The text gives no throughput.",
        ),
    ),
    "viewtables": Published(
        Paper(
            VMS,
            "Figure 12 (its text says 11)",
            f"Up to 12,800 view tables; {LARGE}. Peak of 1.1M view updates/s; at 12,800 view tables a third of what "
            "it was. Best with no more than 4 view tables to a view server.",
        ),
        VIEW_UPDATES,
        (
            PEAK,
            _line(
                "VMS, 12,800 view tables, computed",
                "a third of the peak, as the text has it",
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
            "A count, by a client that scans the table, by HBase's region servers that scan it in parallel, and read "
            "from a view that 40 view servers keep. The client's scan grows with the table and is the slowest; the "
            "servers' takes 5 s at 1M rows; the view is read in less than 1 ms up to 10M rows (the abstract says "
            "less than 5 ms).",
        ),
        TIME,
        (
            _line("HBase, server scan", "32 region servers", (1_000_000, 5.0, 5.0)),
            _line("VMS, view, less than", "an upper bound from the text", (10_000_000, 1e-3, 1e-3)),
        ),
        (f"{DYNAMIC}, Fig. 8: the same three ways and the same numbers, with 10 region servers.",),
    ),
    "peers_size": Published(
        Paper(
            VMS,
            "Figure 13",
            "A count recomputed on request by 32 region servers that scan their parts in parallel: 5 s at 1M rows, "
            "and growing with the table.",
        ),
        TIME,
        (_line("HBase, server scan", "32 region servers", (1_000_000, 5.0, 5.0)),),
    ),
    "writes": Published(
        Paper(
            VMS,
            "Figure 14",
            "2M rows inserted while 5 to 50 view servers work; 32 region servers. Clients are not slowed by up to 25 "
            "view servers, and by about 7% with more.",
        ),
        also=(
            f"{DYNAMIC}, Fig. 11 (10 region servers, 1M rows inserted; 20, 30 and 40 view managers): maintenance "
            "makes it take about 40% longer, ten more view managers about 2%.",
        ),
    ),
    "freshness": Published(
        Paper(
            VMS,
            "Figure 15",
            "From an operation in the log to all its views, without waiting in queues: 0.85 ms for projection, 0.8 "
            "to 1.5 ms for selection, 2.5 to 3.5 ms for aggregation and join. With queues, by its equation: 100k "
            "operations queued at 25 view servers are 5 s of staleness, at 200 less than 1 s.",
        ),
        TIME,
        (
            _line("VMS, 25 view servers, 100k queued", "staleness by the paper's equation", (ALL, 5.0, 5.0)),
            _line("VMS, aggregation, nothing queued", "latency of one operation", (ALL, 2.5e-3, 3.5e-3)),
        ),
    ),
    "skew": Published(
        Paper(
            WDP,
            "Fig. 8",
            "SUM view over 1M rows on 20 storage servers. Uniform updates scale nearly linearly with the view "
            "managers; strongly Zipfian ones, where the busiest storage server gets 9 times what the idlest does, "
            "level off at about 1,500 updates/s.",
        ),
        OPERATIONS,
        (_line("WDP, Zipf", "where it levels off: about 1,500, from the text", (ALL, 1500, 1500)),),
        (
            f"{DYNAMIC}, Fig. 10 (10 region servers): with uniform keys the time to fill table and views does not "
            "depend on the number of view managers; with Zipfian keys it is much longer, and shrinks with more of "
            "them.",
        ),
    ),
}


def beside(result: Result) -> Result:
    """The result with the paper's figure and, where it measured the same in the same unit, the paper's lines."""
    published = PUBLISHED.get(result.name)
    if published is None:
        return result
    ours = tuple(line for line in result.lines if line.whose is not Whose.PAPER)
    factor = published.unit.factor(result.y) if published.unit else None
    theirs = tuple(_scaled(line, factor) for line in published.lines) if factor else ()
    also = tuple(note for note in published.also if note not in result.notes)
    return replace(result, paper=published.paper, lines=ours + theirs, notes=result.notes + also)


def _scaled(line: Line, factor: float) -> Line:
    points = (
        Point(p.x, Spread(p.y.median * factor, p.y.least * factor, p.y.most * factor, p.y.runs)) for p in line.points
    )
    return replace(line, points=tuple(points))
