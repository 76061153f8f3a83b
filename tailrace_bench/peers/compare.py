"""Results that show Tailrace beside its peers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tailrace_bench.peers import ours
from tailrace_bench.peers.figures import DUCKDB, PEERS, SPARK, Figure, run
from tailrace_bench.peers.operations import BLOCK, KEYS, generate
from tailrace_bench.peers.tasks import expected, write_task
from tailrace_bench.results import Line, Point, Result, Spread, Target, Whose
from tailrace_bench.size import Size

ENDS = {
    "view": "ends with a readable view",
    "changes": "ends with a file of changes",
    "nothing": "ends with nothing: changes are thrown away",
}
KEPT = ("view", "changes")
COUNT = {Size.QUICK: 100_000, Size.FULL: 2_000_000}  # operations; of the join a tenth
WHY_JOIN = (
    "the view has four times as many rows as there are operations. Deephaven and DuckDB hold it in memory, unsorted; "
    "ours is sorted, durable and has an undo record, and to write its rows straight into LMDB, which is the limit, "
    "takes about as long as either of them takes in all"
)
NOTES = {
    "Tailrace": "a durable, readable keyed view; from the log to the committed epoch",
    "Spark, recomputing": "a Parquet file, computed anew from another; applying operations to that one is not counted",
    "DuckDB, recomputing": "a table in memory, computed anew after the operations are applied to another",
    "Deephaven": "a keyed table in memory, not durable",
    "Pathway": "a CSV file of changes; state in memory",
}


def _measured(size: Size, name: str) -> tuple[list[Figure], list[str]]:
    """Figures of one view on all systems, and what must be said about them."""
    full = size is Size.FULL
    count = COUNT[size] // 10 if name == "join" else COUNT[size]
    cycles = (10_000, 100_000) if full else (10_000,)
    operations = generate(count)
    figures: list[Figure] = []
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as scratch:
        task = write_task(Path(scratch), operations, [(name, count, cycles)], repeats=2, thorough=full)
        (view,) = task.views
        answer = expected(operations, view)
        for peer in PEERS:
            found, said = run(peer, task.directory, name, answer)
            figures += found
            notes += said
        figures += ours.measure(task, view, answer)
    return figures, notes


def peers_sum(size: Size) -> Result:
    return _result(size, "sum", "SUM and COUNT by group, beside peers", wanted=1)


def peers_extremes(size: Size) -> Result:
    return _result(size, "extremes", "MIN and MAX by group, beside peers", wanted=1)


def peers_filter(size: Size) -> Result:
    return _result(size, "filter", "A filter, beside peers", wanted=2, against=KEPT)


def peers_join(size: Size) -> Result:
    return _result(size, "join", "A join with ten matches per row, beside peers", wanted=1, against=KEPT, why=WHY_JOIN)


def _result(
    size: Size, view: str, title: str, wanted: float, against: Sequence[str] = tuple(ENDS), why: str = ""
) -> Result:
    figures, said = _measured(size, view)
    mine = [figure for figure in figures if figure.how == ours.HOW]
    others = [figure for figure in figures if figure.how != ours.HOW]
    count = mine[0].operations
    return Result(
        name=f"peers_{view}",
        title=title,
        question=f"How many operations per second: {count:,} on {KEYS:,} keys, 5% deletes, 10,000 groups?",
        x="operations per cycle",
        y="operations/s",
        lines=(*_lines(mine, Whose.TAILRACE), *_lines(others, Whose.PEER)),
        targets=tuple(_targets(mine, others, wanted, against, why)),
        notes=(*_ratios(mine, others), *said),
        log_y=True,
    )


def _lines(figures: Iterable[Figure], whose: Whose) -> Iterator[Line]:
    by_name: dict[str, list[Figure]] = {}
    for figure in figures:
        by_name.setdefault(figure.how, []).append(figure)
    for name, points in by_name.items():
        ordered = sorted(points, key=lambda figure: figure.cycle)
        note = f"{ENDS[points[0].ends]}: {NOTES[name]}" if name in NOTES else _flink_note(points[0])
        yield Line(name, whose, tuple(Point(_cycle(figure), figure.rate) for figure in ordered), note)


def _flink_note(figure: Figure) -> str:
    kept = "; state in memory, object reuse, a cycle is a mini-batch; seconds are the job's net run time"
    checked = "; its answer is that of the same query to a file" if figure.ends == "nothing" else ""
    return ENDS[figure.ends] + kept + checked


def _cycle(figure: Figure) -> str:
    if figure.cycle == figure.operations and figure.how == ours.HOW:
        return "all"
    return f"{figure.cycle // 1_000}k" if figure.cycle >= 1_000 else "each"


def _fastest(figures: Iterable[Figure]) -> Figure:
    return max(figures, key=lambda figure: figure.rate.median)


def _targets(
    mine: list[Figure], others: list[Figure], wanted: float, against: Sequence[str], why: str = ""
) -> Iterator[Target]:
    rivals = [figure for figure in others if figure.ends in against]
    if rivals:
        best = _fastest(rivals)
        which = "every peer" if len(against) == len(ENDS) else "every peer that ends with a readable view or file"
        absent = [peer.title for peer in PEERS if not any(figure.how.startswith(peer.title) for figure in rivals)]
        without = f"; there is no figure of {', '.join(absent)}" if absent else ""
        yield Target(
            f"times as fast as {which} (the fastest is {best.how}, cycles of {_cycle(best)}{without})",
            wanted,
            _fastest(mine).rate.median / best.rate.median,
            why=why,
        )


def _ratios(mine: list[Figure], others: list[Figure]) -> Iterator[str]:
    """Each system's best against Tailrace's best, and at the same cycle where both have one."""
    for how in dict.fromkeys(figure.how for figure in others):
        theirs = [figure for figure in others if figure.how == how]
        ratio = _fastest(mine).rate.median / _fastest(theirs).rate.median
        same = [
            f"{a.rate.median / b.rate.median:.2f} at cycles of {_cycle(a)}"
            for a in sorted(mine, key=lambda figure: figure.cycle)
            for b in theirs
            if a.cycle == b.cycle
        ]
        at_same = ", ".join(same) or "no cycle in common"
        yield f"Tailrace is {ratio:.2f} times as fast as {how}, each at its best ({at_same})"


def peers_size(size: Size) -> Result:
    """One refresh after 10k operations, by size of the table."""
    sizes = [10_000, 100_000, 1_000_000] + ([10_000_000] if size is Size.FULL else [])
    rounds = 5 if size is Size.FULL else 3
    points: dict[str, list[Point]] = {}
    notes: list[str] = []
    for rows in sizes:
        operations = generate(rounds * BLOCK, keys=rows, rows=rows)
        with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as scratch:
            task = write_task(Path(scratch), operations, [("sum", rounds * BLOCK, [BLOCK])], repeats=3, thorough=False)
            (view,) = task.views
            answer = expected(operations, view)
            for peer in (SPARK, DUCKDB):
                figures, said = run(peer, task.directory, view.name, answer)
                notes += said
                for figure in figures:
                    points.setdefault(figure.how, []).append(Point(rows, figure.seconds_per_cycle))
            seconds = ours.refreshes(task, view, answer)
            points.setdefault(ours.HOW, []).append(Point(rows, Spread.of(seconds)))
    order = sorted(points, key=lambda how: how != ours.HOW)
    return Result(
        name="peers_size",
        title="Refreshing a view or computing it anew, by size of the table",
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
