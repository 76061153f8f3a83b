"""TPC-H: the epoch that follows a change of 0.1% of all orders, beside Spark's recomputation of the same texts.

    recomputed   every text by Spark over Parquet files of the tables, in rounds over all of them
    alone        each query as the only view of the store: create, epochs, compare with Spark's answer, drop
    together     all of them as views of one store, in one epoch; compared with Spark over the changed tables

Half of the orders of an epoch are new (RF1), half are deleted (RF2), with their lineitems. A query's epochs are
undone by its later ones, so that each query starts from the same tables, those in the files. Both sides are
warm: the first rounds do not count. All is done in one run of one Spark.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import tailrace as tr
from tailrace.commands import output
from tailrace.errors import TailraceError
from tailrace_bench.measure import spread, timed
from tailrace_bench.tpch.changes import Changes
from tailrace_bench.tpch.data import generate, load
from tailrace_bench.tpch.fresh import Orders
from tailrace_bench.tpch.oracle import Oracle, difference
from tailrace_bench.tpch.queries import Query, queries

Figures = dict[str, Any]
SHARE = 0.001  # of the orders, changed in an epoch
WARM = 2  # rounds that do not count
ROUNDS = 3  # that do
CHANGED = frozenset({"orders", "lineitem"})


@dataclass
class Epochs:
    """What was measured of a run of epochs."""

    seconds: list[float] = field(default_factory=list)
    writing: list[float] = field(default_factory=list)
    operations: list[int] = field(default_factory=list)
    view_rows: list[int] = field(default_factory=list)

    def figures(self) -> Figures:
        return {
            "epoch_seconds": spread(self.seconds[WARM:]),
            "write_seconds": spread(self.writing[WARM:]),
            "operations": round(statistics.median(self.operations[WARM:])),
            "view_rows": self.view_rows[WARM:],
        }


def tpch(scale: float) -> Figures:
    """All 22 queries at a scale factor, each alone and all together."""
    with _loaded(scale) as (db, files, place, loaded):
        bench = Bench(db, files, place, scale)
        recomputed = bench.recomputed()
        alone = bench.alone(recomputed)
        figures = {
            "rows": loaded[1],
            "load_seconds": round(loaded[0], 2),
            "orders_per_epoch": 2 * bench.half,
            "warm_rounds": WARM,
            "spark": bench.settings(),
            "queries": alone,
            "medians": _medians(alone),
            "together": bench.together(recomputed, alone),
            "refused": bench.refused,
            "wrong": bench.wrong,
        }
    _show(figures)
    return figures


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
        self._db, self._queries = db, queries(scale)
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

    def recomputed(self) -> dict[str, list[float]]:
        """Seconds in which Spark answers each query, in each round."""
        seconds: dict[str, list[float]] = {query.name: [] for query in self._queries}
        for number in range(WARM + ROUNDS):
            _say(f"  recomputing, round {number + 1}")
            for query in self._queries:
                seconds[query.name].append(timed(partial(self._oracle.answer, query))[0])
        return {name: taken[WARM:] for name, taken in seconds.items()}

    def alone(self, recomputed: dict[str, list[float]]) -> dict[str, Figures]:
        """Each query as the only view."""
        figures = {}
        for query in self._queries:
            _say(f"  {query.name} alone")
            building = self._create(query)
            if building is None:
                continue
            measured = self._epochs(self._there_and_back())
            found = self._db.view(query.name).scan()
            self._compare(query)
            self._db.drop(query.name)
            epoch = measured.figures()
            figures[query.name] = {
                "tables": sorted(query.tables),
                "needs": query.needs,
                "touched": bool(query.tables & CHANGED),
                "rows": found.num_rows,
                "build_seconds": round(building, 3),
                **epoch,
                "recompute_seconds": (again := spread(recomputed[query.name])),
                "ratio": round(again["median"] / epoch["epoch_seconds"]["median"], 2),
            }
        return figures

    def together(self, recomputed: dict[str, list[float]], alone: dict[str, Figures]) -> Figures:
        """All queries that could be views, in one store, in one epoch."""
        _say("  all together")
        asked = [query for query in self._queries if query.name in alone]
        building = sum(self._create(query) or 0.0 for query in asked)
        epoch = self._epochs([self._changed() for _ in range(WARM + ROUNDS)]).figures()
        self._oracle.snapshot(self._db, sorted(CHANGED))
        for query in asked:
            self._compare(query)
        rounds = [sum(recomputed[q.name][number] for q in asked) for number in range(ROUNDS)]
        summed = sum(alone[q.name]["epoch_seconds"]["median"] for q in asked)
        return {
            "views": len(asked),
            "build_seconds": round(building, 3),
            **epoch,
            "recompute_seconds": (again := spread(rounds)),
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

    def _compare(self, query: Query) -> None:
        found = difference(query, self._db.view(query.name).scan(), self._oracle.answer(query))
        if found:
            self.wrong[query.name] = found
            _say(f"    wrong: {found}")

    # epochs

    def _changed(self) -> Callable[[], int]:
        return lambda: self._changes.rf1(self.half) + self._changes.rf2(self.half)

    def _there_and_back(self) -> list[Callable[[], int]]:
        """As many changes as there are warm rounds, and one, then their opposites: the tables are as before."""
        times = WARM + 1
        fresh = [self._changes.fresh(self.half) for _ in range(times)]
        pairs = list(zip(fresh, self._changes.picks(self.half, times), strict=True))
        return [self._swapped(new, old) for new, old in pairs] + [self._swapped(old, new) for new, old in pairs]

    def _swapped(self, come: Orders, go: Orders) -> Callable[[], int]:
        return lambda: self._changes.insert(come) + self._changes.delete(go)

    def _epochs(self, changes: list[Callable[[], int]]) -> Epochs:
        """An epoch after each of these changes."""
        measured = Epochs()
        for change in changes:
            writing, operations = timed(change)
            seconds, epoch = timed(self._db.refresh)
            measured.writing.append(writing)
            measured.operations.append(operations)
            measured.seconds.append(seconds)
            measured.view_rows.append(epoch.view_rows)
        return measured


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
            f"{found['ratio']:.1f}",
        )
        for name, found in listed.items()
    ]
    right = [False, False, True, True, True, True, True]
    output.console(stderr=True).print(output.grid(names, rows, right))
    _say(f"median ratio: {figures['medians']['ratio']}; together / sum of alone: {figures['together']['of_alone']}")
    for kind in ("refused", "wrong"):
        for name, reason in figures[kind].items():
            _say(f"{kind}: {name}: {reason}")
