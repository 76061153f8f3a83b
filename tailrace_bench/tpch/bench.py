"""TPC-H: epochs that change 0.1% of the orders, compared with Spark's recomputation of the same queries.

    alone        each query as the only view of the store: create it, time epochs, time recomputations, drop it
    together     all queries as views of one store: time epochs, and rounds that recompute all of them

An epoch inserts new orders (RF1) and deletes as many (RF2), with their lineitems. Later epochs reverse the earlier
ones, so at the end the tables equal the Parquet files that Spark recomputes from. The first rounds of both sides are
warm-up. Everything runs in one Spark, and figures of one ratio are measured directly after each other.
Views are compared with Spark's answers at the end, and with all views together also in the middle of the changes.
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
from tailrace_bench.harness import WrongView
from tailrace_bench.measure import summarize, time_call
from tailrace_bench.results import Line, Point, Result, Spread, Whose
from tailrace_bench.size import Size
from tailrace_bench.tpch.changes import Changes
from tailrace_bench.tpch.data import generate, load
from tailrace_bench.tpch.fresh import Orders
from tailrace_bench.tpch.oracle import Oracle, difference
from tailrace_bench.tpch.queries import Query, queries

Figures = dict[str, Any]
CHANGED_SHARE = 0.001  # of the orders, per epoch
WARMUP_ROUNDS = 2  # not counted
MEASURED_ROUNDS = 3  # recomputations that count
CHANGED_TABLES = frozenset({"orders", "lineitem"})


class EpochTiming(NamedTuple):
    """One epoch, and the seconds of the writes before it (`writing`)."""

    seconds: float
    writing: float
    operations: int
    view_rows: int


@dataclass(frozen=True)
class Epochs:
    """Consecutive epochs. The first WARMUP_ROUNDS do not count."""

    timings: list[EpochTiming]

    def __add__(self, later: Epochs) -> Epochs:
        return Epochs(self.timings + later.timings)

    def figures(self) -> Figures:
        counted = self.timings[WARMUP_ROUNDS:]
        return {
            "epoch_seconds": summarize([t.seconds for t in counted]),
            "write_seconds": summarize([t.writing for t in counted]),
            "operations": round(statistics.median(t.operations for t in counted)),
            "view_rows": [t.view_rows for t in counted],
        }


def tpch(size: Size) -> Result:
    """All 22 queries at one scale factor, each alone and all together."""
    with _loaded(size.tpch_scale) as (db, files, directory, loaded):
        bench = Bench(db, files, directory, size.tpch_scale)
        alone = {query.name: figures for query in bench.queries if (figures := bench.alone(query))}
        figures = {
            "rows": loaded[1],
            "load_seconds": round(loaded[0], 2),
            "orders_per_epoch": 2 * bench.half,
            "warm_rounds": WARMUP_ROUNDS,
            "spark": bench.settings(),
            "queries": alone,
            "medians": _medians(alone),
            "together": bench.together(alone),
            "refused": bench.refused,
            "wrong": bench.wrong,
        }
    _print_table(figures)
    if bench.wrong:
        raise WrongView("; ".join(f"{name}: {reason}" for name, reason in bench.wrong.items()))
    return _result(size.tpch_scale, figures)


def _result(scale: float, figures: Figures) -> Result:
    """Lines over the queries whose tables change, and over all queries together."""
    shown = {name: query for name, query in figures["queries"].items() if query["touched"]}
    shown["together"] = figures["together"]

    def points(what: str) -> tuple[Point, ...]:
        return tuple(Point(name, Spread(**query[what])) for name, query in shown.items())

    return Result(
        name="tpch",
        title="TPC-H",
        question=f"How long does an epoch take that changes {CHANGED_SHARE:.1%} of the orders at scale {scale:g}, and "
        "how long does Spark take to recompute the same query from Parquet files?",
        x="query",
        y="seconds",
        lines=(
            Line("Tailrace", Whose.TAILRACE, points("epoch_seconds"), "one durable epoch"),
            Line("Spark", Whose.PEER, points("recompute_seconds"), "recomputation, until the rows are in the client"),
        ),
        notes=(
            f"Recomputation takes {figures['medians']['ratio']} times as long as an epoch, median over the queries.",
            f"One epoch of all queries takes {figures['together']['of_alone']} of the sum of the epochs of each alone.",
            *(f"Refused: {name}: {reason}" for name, reason in figures["refused"].items()),
        ),
        log_y=True,
    )


@contextmanager
def _loaded(scale: float) -> Iterator[tuple[tr.Database, dict[str, Path], Path, tuple[float, int]]]:
    """A durable store with the tables, their files, a scratch directory, and (seconds, rows) of loading."""
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-", ignore_cleanup_errors=True) as scratch:
        directory = Path(scratch)
        files = generate(scale, directory / "data")
        with tr.open(directory / "store", create=True) as db:
            loaded = time_call(lambda: load(db, files))
            db.refresh()
            yield db, files, directory, loaded


class Bench:
    """The steps of the benchmark. `refused`: queries that cannot be views. `wrong`: views that differ from Spark."""

    def __init__(self, db: tr.Database, files: dict[str, Path], directory: Path, scale: float) -> None:
        self._db, self._files, self.queries = db, files, queries(scale)
        self._changes = Changes(db, files)
        self.half = max(1, round(self._changes.orders * CHANGED_SHARE / 2))
        self._oracle = Oracle(db.spark, directory)
        self._oracle.read(files)
        self.refused: dict[str, str] = {}
        self.wrong: dict[str, str] = {}

    def settings(self) -> Figures:
        """Spark's settings, and those of the session that recomputes."""
        known = {name: self._db.spark.conf.get(name) for name in ("spark.master", "spark.driver.memory")}
        return {**known, "recomputing": self._oracle.settings}

    def alone(self, query: Query) -> Figures | None:
        """Figures of a query as the only view; None if it was refused."""
        _log(f"  {query.name} alone")
        building = self._create(query)
        if building is None:
            return None
        changes, reversals = self._changes_and_reversals()
        epoch = self._epochs(changes + reversals).figures()
        touched = bool(query.tables & CHANGED_TABLES)
        recomputation = self._time_recomputation([query])
        rows = self._db.view(query.name).scan().num_rows
        self._db.drop(query.name)
        return {
            "tables": sorted(query.tables),
            "needs": query.needs,
            "touched": touched,
            "rows": rows,
            "build_seconds": round(building, 3),
            **epoch,
            "recompute_seconds": recomputation,
            "ratio": round(recomputation["median"] / epoch["epoch_seconds"]["median"], 2) if touched else None,
        }

    def together(self, alone: dict[str, Figures]) -> Figures:
        """Figures of all queries that can be views, in one store and one epoch."""
        _log("  all together")
        queries = [query for query in self.queries if query.name in alone]
        building = sum(self._create(query) or 0.0 for query in queries)
        changes, reversals = self._changes_and_reversals()
        first_epochs = self._epochs(changes)
        self._oracle.snapshot(self._db, sorted(CHANGED_TABLES))
        for query in queries:
            self._compare(query, self._oracle.answer(query))
        self._oracle.read(self._files)
        epoch = (first_epochs + self._epochs(reversals)).figures()
        recomputation = self._time_recomputation(queries)
        summed = sum(alone[query.name]["epoch_seconds"]["median"] for query in queries)
        return {
            "views": len(queries),
            "build_seconds": round(building, 3),
            **epoch,
            "recompute_seconds": recomputation,
            "ratio": round(recomputation["median"] / epoch["epoch_seconds"]["median"], 2),
            "alone_seconds": round(summed, 4),
            "of_alone": round(epoch["epoch_seconds"]["median"] / summed, 3),
        }

    def _create(self, query: Query) -> float | None:
        """Creates the view. Returns the seconds of its build, or None if it was refused."""
        try:
            return time_call(lambda: query.create(self._db))[0]
        except TailraceError as error:
            self.refused[query.name] = str(error)
            _log(f"    refused: {error}")
            return None

    def _time_recomputation(self, queries: Sequence[Query]) -> Figures:
        """Seconds in which Spark answers all of these queries. The first answers are compared with the views."""
        rounds = []
        for number in range(WARMUP_ROUNDS + MEASURED_ROUNDS):
            seconds = 0.0
            for query in queries:
                query_seconds, answer = time_call(partial(self._oracle.answer, query))
                seconds += query_seconds
                if number == 0:
                    self._compare(query, answer)
            rounds.append(seconds)
        return summarize(rounds[WARMUP_ROUNDS:])

    def _compare(self, query: Query, answer: pa.Table) -> None:
        mismatch = difference(query, self._db.view(query.name).scan(), answer)
        if mismatch:
            self.wrong[query.name] = mismatch
            _log(f"    wrong: {mismatch}")

    # epochs

    def _changes_and_reversals(self) -> tuple[list[Callable[[], int]], list[Callable[[], int]]]:
        """Changes of the orders, and their reversals, after which the tables are as before."""
        times = WARMUP_ROUNDS + 1
        fresh = [self._changes.fresh(self.half) for _ in range(times)]
        pairs = list(zip(fresh, self._changes.picks(self.half, times), strict=True))
        return [self._swap(new, old) for new, old in pairs], [self._swap(old, new) for new, old in pairs]

    def _swap(self, inserted: Orders, deleted: Orders) -> Callable[[], int]:
        return lambda: self._changes.insert(inserted) + self._changes.delete(deleted)

    def _epochs(self, changes: Sequence[Callable[[], int]]) -> Epochs:
        """Times an epoch after each of these changes."""
        timings = []
        for change in changes:
            writing, operations = time_call(change)
            seconds, epoch = time_call(self._db.refresh)
            timings.append(EpochTiming(seconds, writing, operations, epoch.view_rows))
        return Epochs(timings)


def _medians(alone: dict[str, Figures]) -> Figures:
    """Medians over the queries whose tables change: epoch seconds, recomputation seconds, and their ratio."""
    touched = [query for query in alone.values() if query["touched"]]
    return {
        "queries": len(touched),
        "epoch_seconds": round(statistics.median(query["epoch_seconds"]["median"] for query in touched), 4),
        "recompute_seconds": round(statistics.median(query["recompute_seconds"]["median"] for query in touched), 4),
        "ratio": round(statistics.median(query["ratio"] for query in touched), 2),
    }


def _log(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _print_table(figures: Figures) -> None:
    """Prints the figures as a table to stderr."""
    names = ["query", "needs", "build s", "epoch s", "rows changed", "recompute s", "ratio"]
    shown = {**figures["queries"], "together": {"needs": "", "touched": True, **figures["together"]}}
    rows = [
        (
            name,
            query["needs"] if query["touched"] else "no change",
            f"{query['build_seconds']:.2f}",
            f"{query['epoch_seconds']['median']:.3f}",
            f"{round(statistics.median(query['view_rows'])):,}",
            f"{query['recompute_seconds']['median']:.3f}",
            f"{query['ratio']:.1f}" if query["touched"] else "",
        )
        for name, query in shown.items()
    ]
    right = [False, False, True, True, True, True, True]
    terminal.console(stderr=True).print(terminal.grid(names, rows, right))
    _log(f"median ratio: {figures['medians']['ratio']}; together / sum of alone: {figures['together']['of_alone']}")
    for kind in ("refused", "wrong"):
        for name, reason in figures[kind].items():
            _log(f"{kind}: {name}: {reason}")
