"""The `peers_*` benchmarks: Tailrace compared with other systems."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tailrace_bench.peers import ours
from tailrace_bench.peers.figures import DUCKDB, PEERS, SPARK, Figure, run
from tailrace_bench.peers.operations import BLOCK, KEYS, generate
from tailrace_bench.peers.tasks import expected_answer, write_task
from tailrace_bench.results import Line, Point, Result, Spread, Target, Whose
from tailrace_bench.size import Size

ENDS = {
    "view": "ends with a readable view",
    "changes": "ends with a file of changes",
    "nothing": "ends with nothing: changes are discarded",
}
WITH_OUTPUT = ("view", "changes")
VIEW_TITLES = {"sum": "SUM and COUNT", "extremes": "MIN and MAX", "filter": "filter", "join": "join"}
COUNT = {Size.QUICK: 100_000, Size.FULL: 2_000_000}  # operations; a tenth of them for the join
WHY_JOIN = (
    "the view has four times as many rows as there are operations. Deephaven and DuckDB keep it in memory, unsorted; "
    "Tailrace keeps it sorted and durable, with undo records. Writing its rows directly to LMDB, which is the limit, "
    "takes about as long as the whole run of either of them"
)
NOTES = {
    "Tailrace": "a durable keyed view, timed from the log to the committed epoch",
    "Spark (recomputing)": "a Parquet file, recomputed from another; applying operations to the input is not timed",
    "DuckDB (recomputing)": "a table in memory, recomputed after the operations are applied to another table",
    "Deephaven": "a keyed table in memory, not durable",
    "Pathway": "a CSV file of changes; state in memory",
}


def _measure_view(size: Size, name: str) -> tuple[list[Figure], list[str]]:
    """Figures of one view on all systems, and notes about peers that are absent, late, failed or wrong."""
    full = size is Size.FULL
    count = COUNT[size] // 10 if name == "join" else COUNT[size]
    cycles = (10_000, 100_000) if full else (10_000,)
    operations = generate(count)
    figures: list[Figure] = []
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as scratch:
        task = write_task(Path(scratch), operations, [(name, count, cycles)], repeats=2, thorough=full)
        (view,) = task.views
        answer = expected_answer(operations, view)
        for peer in PEERS:
            reported, problems = run(peer, task.directory, name, answer)
            figures += reported
            notes += problems
        figures += ours.measure(task, view, answer)
    return figures, notes


def peers_sum(size: Size) -> Result:
    return _result(size, "sum", "SUM and COUNT by group, compared with peers", wanted=1)


def peers_extremes(size: Size) -> Result:
    return _result(size, "extremes", "MIN and MAX by group, compared with peers", wanted=1)


def peers_filter(size: Size) -> Result:
    return _result(size, "filter", "A filter, compared with peers", wanted=2, against=WITH_OUTPUT)


def peers_join(size: Size) -> Result:
    return _result(
        size,
        "join",
        "A join with ten matches per row, compared with peers",
        wanted=1,
        against=WITH_OUTPUT,
        why=WHY_JOIN,
    )


def _result(
    size: Size, view: str, title: str, wanted: float, against: Sequence[str] = tuple(ENDS), why: str = ""
) -> Result:
    figures, problems = _measure_view(size, view)
    our_figures = [figure for figure in figures if figure.how == ours.HOW]
    peer_figures = [figure for figure in figures if figure.how != ours.HOW]
    count = our_figures[0].operations
    return Result(
        name=f"peers_{view}",
        title=title,
        question=f"How many operations per second? {count:,} operations on {KEYS:,} keys, 5% deletes, 10,000 groups.",
        x="operations per cycle",
        y="operations/s",
        lines=(*_lines(our_figures, Whose.TAILRACE), *_lines(peer_figures, Whose.PEER)),
        targets=tuple(_targets(our_figures, peer_figures, wanted, against, why)),
        notes=(*_ratios(our_figures, peer_figures), *problems),
        log_y=True,
    )


def _lines(figures: Iterable[Figure], whose: Whose) -> Iterator[Line]:
    by_name: dict[str, list[Figure]] = {}
    for figure in figures:
        by_name.setdefault(figure.how, []).append(figure)
    for name, points in by_name.items():
        ordered = sorted(points, key=lambda figure: figure.cycle)
        note = f"{ENDS[points[0].ends]}: {NOTES[name]}" if name in NOTES else _flink_note(points[0])
        yield Line(name, whose, tuple(Point(_cycle_name(figure), figure.rate) for figure in ordered), note)


def _flink_note(figure: Figure) -> str:
    kept = "; state in memory, object reuse, a cycle is a mini-batch; seconds are the job's net run time"
    checked = "; its answer is taken from the same query written to a file" if figure.ends == "nothing" else ""
    return ENDS[figure.ends] + kept + checked


def _cycle_name(figure: Figure) -> str:
    if figure.cycle == figure.operations and figure.how == ours.HOW:
        return "all"
    return f"{figure.cycle // 1_000}k" if figure.cycle >= 1_000 else "1"


def _find_fastest(figures: Iterable[Figure]) -> Figure:
    return max(figures, key=lambda figure: figure.rate.median)


def _targets(
    our_figures: list[Figure], peer_figures: list[Figure], wanted: float, against: Sequence[str], why: str = ""
) -> Iterator[Target]:
    rivals = [figure for figure in peer_figures if figure.ends in against]
    if rivals:
        best = _find_fastest(rivals)
        which = "the fastest peer" if len(against) == len(ENDS) else "the fastest peer that ends with a view or a file"
        absent = [peer.title for peer in PEERS if not any(figure.how.startswith(peer.title) for figure in rivals)]
        without = f"; no figures for {', '.join(absent)}" if absent else ""
        yield Target(
            f"{VIEW_TITLES[best.view]}: multiple of the rate of {which}, "
            f"{best.how} at cycles of {_cycle_name(best)}{without}",
            wanted,
            _find_fastest(our_figures).rate.median / best.rate.median,
            why=why,
        )


def _ratios(our_figures: list[Figure], peer_figures: list[Figure]) -> Iterator[str]:
    """Tailrace's best rate as a multiple of each system's best, and of its rate at the same cycle size."""
    for how in dict.fromkeys(figure.how for figure in peer_figures):
        theirs = [figure for figure in peer_figures if figure.how == how]
        best_ratio = _find_fastest(our_figures).rate.median / _find_fastest(theirs).rate.median
        same = [
            f"{a.rate.median / b.rate.median:.2f} at cycles of {_cycle_name(a)}"
            for a in sorted(our_figures, key=lambda figure: figure.cycle)
            for b in theirs
            if a.cycle == b.cycle
        ]
        at_same = ", ".join(same) or "no cycle size in common"
        yield f"Tailrace is {best_ratio:.2f} times as fast as {how}, each at its best cycle size ({at_same})"


def peers_size(size: Size) -> Result:
    """Time of one refresh after 10k operations, by the size of the table."""
    sizes = [10_000, 100_000, 1_000_000] + ([10_000_000] if size is Size.FULL else [])
    rounds = 5 if size is Size.FULL else 3
    points: dict[str, list[Point]] = {}
    notes: list[str] = []
    for rows in sizes:
        operations = generate(rounds * BLOCK, keys=rows, rows=rows)
        with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as scratch:
            task = write_task(Path(scratch), operations, [("sum", rounds * BLOCK, [BLOCK])], repeats=3, thorough=False)
            (view,) = task.views
            answer = expected_answer(operations, view)
            for peer in (SPARK, DUCKDB):
                figures, problems = run(peer, task.directory, view.name, answer)
                notes += problems
                for figure in figures:
                    points.setdefault(figure.how, []).append(Point(rows, figure.seconds_per_cycle))
            seconds = ours.time_refreshes(task, view, answer)
            points.setdefault(ours.HOW, []).append(Point(rows, Spread.of(seconds)))
    order = sorted(points, key=lambda how: how != ours.HOW)
    return Result(
        name="peers_size",
        title="Refreshing a view versus recomputing it, by table size",
        question="How long until SUM and COUNT by group are current after 10,000 operations?",
        x="rows in the table",
        y="seconds",
        lines=tuple(
            Line(how, Whose.TAILRACE if how == ours.HOW else Whose.PEER, tuple(points[how]), NOTES[how])
            for how in order
        ),
        notes=tuple(dict.fromkeys(notes)),
        log_x=True,
        log_y=True,
    )
