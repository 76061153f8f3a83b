"""TPC-H: the epoch that follows a change of 0.1% of all orders, beside Spark's recomputation of the same texts.

    alone        each query as the only view of the store: create it, epochs, recomputations, drop it
    together     all of them as views of one store: epochs, and rounds in which all are recomputed

Half of the orders of an epoch are new (RF1), half are deleted (RF2), with their lineitems. Later epochs undo what
earlier ones did, so that in the end the tables hold again what is in the Parquet files that Spark recomputes
from. Both sides are warm: the first rounds do not count. All is done in one run of one Spark, and what is set
in relation is measured right after one another.
Views are compared with Spark's answers in the end, and when all are together also while the tables are changed.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

import tailrace as tr
from tailrace import terminal
from tailrace.errors import TailraceError
from tailrace_bench.harness import Wrong
from tailrace_bench.measure import spread, timed
from tailrace_bench.results import Line, Point, Result, Spread, Whose
from tailrace_bench.size import Size
from tailrace_bench.tpch.changes import Changes
from tailrace_bench.tpch.data import generate, load
from tailrace_bench.tpch.fresh import Orders
from tailrace_bench.tpch.oracle import Oracle, difference
from tailrace_bench.tpch.queries import Query, queries

Figures = dict[str, Any]
SHARE = 0.001  # of the orders, changed in an epoch
WARM = 2  # rounds that do not count
ROUNDS = 3  # recomputations that do
CHANGED = frozenset({"orders", "lineitem"})


class Measured(NamedTuple):
    """An epoch, and the writing before it."""

    seconds: float
    writing: float
    operations: int
    view_rows: int


@dataclass(frozen=True)
class Epochs:
    """Epochs one after another, the first ones to get warm."""

    measured: list[Measured]

    def __add__(self, later: Epochs) -> Epochs:
        return Epochs(self.measured + later.measured)

    def figures(self) -> Figures:
        counted = self.measured[WARM:]
        return {
            "epoch_seconds": spread([m.seconds for m in counted]),
            "write_seconds": spread([m.writing for m in counted]),
            "operations": round(statistics.median(m.operations for m in counted)),
            "view_rows": [m.view_rows for m in counted],
        }


def tpch(size: Size) -> Result:
    """All 22 queries at a scale factor, each alone and all together."""
    with _loaded(size.scale) as (db, files, place, loaded):
        bench = Bench(db, files, place, size.scale)
        alone = {query.name: figures for query in bench.queries if (figures := bench.alone(query))}
        figures = {
            "rows": loaded[1],
            "load_seconds": round(loaded[0], 2),
            "orders_per_epoch": 2 * bench.half,
            "warm_rounds": WARM,
            "spark": bench.settings(),
            "queries": alone,
            "medians": _medians(alone),
            "together": bench.together(alone),
            "refused": bench.refused,
            "wrong": bench.wrong,
        }
    _show(figures)
    if bench.wrong:
        raise Wrong("; ".join(f"{name}: {reason}" for name, reason in bench.wrong.items()))
    return _result(size.scale, figures)


def _result(scale: float, figures: Figures) -> Result:
    """The figures as lines over the queries, those that changes concern, and all together."""
    listed = {name: found for name, found in figures["queries"].items() if found["touched"]}
    listed["together"] = figures["together"]

    def points(what: str) -> tuple[Point, ...]:
        return tuple(Point(name, Spread(**found[what])) for name, found in listed.items())

    return Result(
        name="tpch",
        title="TPC-H",
        question=f"How long is an epoch that changes {SHARE:.1%} of the orders at scale {scale:g}, and how long does "
        "Spark take to recompute the same query from Parquet files?",
        x="query",
        y="seconds",
        lines=(
            Line("Tailrace", Whose.TAILRACE, points("epoch_seconds"), "an epoch, durable"),
            Line("Spark", Whose.PEER, points("recompute_seconds"), "recomputation; ends with rows in the client"),
        ),
        notes=(
            f"Recomputing takes {figures['medians']['ratio']} times as long, in the median over queries.",
            f"All together take {figures['together']['of_alone']} of the sum of each alone.",
            *(f"Refused: {name}: {reason}" for name, reason in figures["refused"].items()),
        ),
        log_y=True,
    )


@contextmanager
def _loaded(scale: float) -> Iterator[tuple[tr.Database, dict[str, Path], Path, tuple[float, int]]]:
    """A durable store with the tables, the files they came from, room for more files, and what loading took."""
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-", ignore_cleanup_errors=True) as made:
        place = Path(made)
        files = generate(scale, place / "data")
        with tr.open(place / "store") as db:
            loaded = timed(lambda: load(db, files))
            db.refresh()
            yield db, files, place, loaded


class Bench:
    """The steps. `refused` are queries that could not be made views, `wrong` those that were not right."""

    def __init__(self, db: tr.Database, files: dict[str, Path], place: Path, scale: float) -> None:
        self._db, self._files, self.queries = db, files, queries(scale)
        self._changes = Changes(db, files)
        self.half = max(1, round(self._changes.orders * SHARE / 2))
        self._oracle = Oracle(db.spark, place)
        self._oracle.read(files)
        self.refused: dict[str, str] = {}
        self.wrong: dict[str, str] = {}

    def settings(self) -> Figures:
        """What Spark runs with, and what else it recomputes with."""
        known = {name: self._db.spark.conf.get(name) for name in ("spark.master", "spark.driver.memory")}
        return {**known, "recomputing": self._oracle.settings}

    def alone(self, query: Query) -> Figures | None:
        """A query as the only view; None if it was refused."""
        _say(f"  {query.name} alone")
        building = self._create(query)
        if building is None:
            return None
        there, back = self._there_and_back()
        epoch = self._epochs(there + back).figures()
        touched = bool(query.tables & CHANGED)
        again = self._recomputed([query])
        rows = self._db.view(query.name).scan().num_rows
        self._db.drop(query.name)
        return {
            "tables": sorted(query.tables),
            "needs": query.needs,
            "touched": touched,
            "rows": rows,
            "build_seconds": round(building, 3),
            **epoch,
            "recompute_seconds": again,
            "ratio": round(again["median"] / epoch["epoch_seconds"]["median"], 2) if touched else None,
        }

    def together(self, alone: dict[str, Figures]) -> Figures:
        """All queries that could be views, in one store, in one epoch."""
        _say("  all together")
        asked = [query for query in self.queries if query.name in alone]
        building = sum(self._create(query) or 0.0 for query in asked)
        there, back = self._there_and_back()
        measured = self._epochs(there)
        self._oracle.snapshot(self._db, sorted(CHANGED))
        for query in asked:
            self._compare(query, self._oracle.answer(query))
        self._oracle.read(self._files)
        epoch = (measured + self._epochs(back)).figures()
        again = self._recomputed(asked)
        summed = sum(alone[query.name]["epoch_seconds"]["median"] for query in asked)
        return {
            "views": len(asked),
            "build_seconds": round(building, 3),
            **epoch,
            "recompute_seconds": again,
            "ratio": round(again["median"] / epoch["epoch_seconds"]["median"], 2),
            "alone_seconds": round(summed, 4),
            "of_alone": round(epoch["epoch_seconds"]["median"] / summed, 3),
        }

    def _create(self, query: Query) -> float | None:
        """Seconds in which the view was built; None if it was refused."""
        try:
            return timed(lambda: query.create(self._db))[0]
        except TailraceError as error:
            self.refused[query.name] = str(error)
            _say(f"    refused: {error}")
            return None

    def _recomputed(self, asked: Sequence[Query]) -> Figures:
        """Seconds in which Spark answers all of these; the first answers are compared with the views."""
        rounds = []
        for number in range(WARM + ROUNDS):
            seconds = 0.0
            for query in asked:
                taken, answer = timed(partial(self._oracle.answer, query))
                seconds += taken
                if number == 0:
                    self._compare(query, answer)
            rounds.append(seconds)
        return spread(rounds[WARM:])

    def _compare(self, query: Query, answer: pa.Table) -> None:
        found = difference(query, self._db.view(query.name).scan(), answer)
        if found:
            self.wrong[query.name] = found
            _say(f"    wrong: {found}")

    # epochs

    def _there_and_back(self) -> tuple[list[Callable[[], int]], list[Callable[[], int]]]:
        """As many changes as there are warm rounds, and one; and their opposites: the tables are then as before."""
        times = WARM + 1
        fresh = [self._changes.fresh(self.half) for _ in range(times)]
        pairs = list(zip(fresh, self._changes.picks(self.half, times), strict=True))
        return [self._swapped(new, old) for new, old in pairs], [self._swapped(old, new) for new, old in pairs]

    def _swapped(self, come: Orders, go: Orders) -> Callable[[], int]:
        return lambda: self._changes.insert(come) + self._changes.delete(go)

    def _epochs(self, changes: Sequence[Callable[[], int]]) -> Epochs:
        """An epoch after each of these changes."""
        measured = []
        for change in changes:
            writing, operations = timed(change)
            seconds, epoch = timed(self._db.refresh)
            measured.append(Measured(seconds, writing, operations, epoch.view_rows))
        return Epochs(measured)


def _medians(alone: dict[str, Figures]) -> Figures:
    """Over the queries that the changes concern: seconds of epoch and recomputation, and their ratio."""
    concerned = [found for found in alone.values() if found["touched"]]
    return {
        "queries": len(concerned),
        "epoch_seconds": round(statistics.median(found["epoch_seconds"]["median"] for found in concerned), 4),
        "recompute_seconds": round(statistics.median(found["recompute_seconds"]["median"] for found in concerned), 4),
        "ratio": round(statistics.median(found["ratio"] for found in concerned), 2),
    }


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _show(figures: Figures) -> None:
    """The figures as a table, on stderr."""
    names = ["query", "needs", "build s", "epoch s", "rows changed", "recompute s", "ratio"]
    listed = {**figures["queries"], "together": {"needs": "", "touched": True, **figures["together"]}}
    rows = [
        (
            name,
            found["needs"] if found["touched"] else "no change",
            f"{found['build_seconds']:.2f}",
            f"{found['epoch_seconds']['median']:.3f}",
            f"{round(statistics.median(found['view_rows'])):,}",
            f"{found['recompute_seconds']['median']:.3f}",
            f"{found['ratio']:.1f}" if found["touched"] else "",
        )
        for name, found in listed.items()
    ]
    right = [False, False, True, True, True, True, True]
    terminal.console(stderr=True).print(terminal.grid(names, rows, right))
    _say(f"median ratio: {figures['medians']['ratio']}; together / sum of alone: {figures['together']['of_alone']}")
    for kind in ("refused", "wrong"):
        for name, reason in figures[kind].items():
            _say(f"{kind}: {name}: {reason}")
