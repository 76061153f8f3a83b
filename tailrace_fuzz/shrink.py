"""Shrinks a failing scenario: fewer views, epochs, operations and rows, and a shorter query."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_fuzz.cuts import cuts
from tailrace_fuzz.data import Epoch, Operation
from tailrace_fuzz.places import Place
from tailrace_fuzz.run import Finding, play
from tailrace_fuzz.scenarios import Scenario, View

T = TypeVar("T")


class Shrinker:
    """Tries smaller scenarios until none fails in the same way or the time is up."""

    def __init__(self, spark: SparkSession, finding: Finding, seconds: float, place: Place) -> None:
        self._spark, self._finding, self._place = spark, finding, place
        self._until = time.monotonic() + seconds
        self.trials = 0

    def shrink(self, scenario: Scenario) -> Scenario:
        best = self._first_failing(scenario, [scenario.only([self._finding.view.number])])
        best = self._without_late_views(best)
        for _ in range(3):
            before = best
            best = self._fewer_writes(best)
            best = self._shorter_query(best)
            if best == before:
                break
        used = [t for t in best.tables if any(f" {t.name} " in f"{v.sql} " for v in best.views)]
        return self._first_failing(best, [_with_tables(best, [t.name for t in used])])

    def _first_failing(self, best: Scenario, candidates: Sequence[Scenario]) -> Scenario:
        return next((c for c in candidates if self._fails(c)), best)

    def _fails(self, scenario: Scenario) -> bool:
        if time.monotonic() > self._until:
            return False
        self.trials += 1
        try:
            outcome = play(self._spark, scenario, self._place)
        except Exception:  # the smaller scenario cannot be played at all
            return False
        number = self._finding.view.number
        return any(f.kind == self._finding.kind and f.view.number == number for f in outcome.findings)

    def _without_late_views(self, best: Scenario) -> Scenario:
        return self._first_failing(best, [replace(best, late=frozenset())])

    # Writes

    def _fewer_writes(self, best: Scenario) -> Scenario:
        best = self._drop_runs(best, lambda s: s.epochs, lambda s, e: replace(s, epochs=tuple(e)))
        best = self._first_failing(best, [replace(best, fill=Epoch((), spread=False))])
        best = self._first_failing(best, [_without_spread(best)])
        for index in range(-1, len(best.epochs)):
            best = self._drop_runs(best, partial(_writes, index), partial(_with_writes, index))
        return best

    def _drop_runs(
        self, best: Scenario, parts: Callable[[Scenario], Sequence[T]], rebuild: Callable[[Scenario, list[T]], Scenario]
    ) -> Scenario:
        """Drops runs of consecutive parts while the scenario still fails, long runs first."""
        size = len(parts(best))
        while size:
            start = 0
            while start < len(parts(best)):
                current = list(parts(best))
                candidate = rebuild(best, current[:start] + current[start + size :])
                if self._fails(candidate):
                    best = candidate
                else:
                    start += size
            size //= 2
        return best

    # The query

    def _shorter_query(self, best: Scenario) -> Scenario:
        while True:
            shorter = next((c for c in self._shorter_candidates(best) if self._fails(c)), None)
            if shorter is None:
                return best
            best = shorter

    def _shorter_candidates(self, best: Scenario) -> Iterator[Scenario]:
        *others, view = best.views
        for sql in cuts(view.sql):
            loose = frozenset(range(100))  # all columns: their grades are unknown after the cut
            shorter_view = View(view.number, sql, loose, tuple(u for u in view.uses if f" v{u} " in f"{sql} "))
            if self._finding.kind == "SqlError" or self._spark_accepts(best, sql):
                yield replace(best, views=(*(o for o in others), shorter_view))

    def _spark_accepts(self, scenario: Scenario, sql: str) -> bool:
        """Whether Spark accepts a query over empty tables."""
        for table in scenario.tables:
            nulls = ", ".join(f"CAST(NULL AS {f.type}) AS {f.name}" for f in table.fields)
            self._spark.sql(f"SELECT {nulls} WHERE FALSE").createOrReplaceTempView(table.name)
        try:
            for view in scenario.views[:-1]:
                self._spark.sql(view.sql).createOrReplaceTempView(view.name)
            self._spark.sql(sql)
        except PySparkException:
            return False
        return True


def _without_spread(scenario: Scenario) -> Scenario:
    return replace(scenario, epochs=tuple(replace(e, spread=False) for e in scenario.epochs))


def _epoch(scenario: Scenario, index: int) -> Epoch:
    return scenario.fill if index < 0 else scenario.epochs[index]


def _writes(index: int, scenario: Scenario) -> list[tuple[int, Operation]]:
    """Every row as a separate write, with the number of its operation."""
    return [
        (number, replace(operation, rows=(row,)))
        for number, operation in enumerate(_epoch(scenario, index).operations)
        for row in operation.rows
    ]


def _with_writes(index: int, scenario: Scenario, writes: Sequence[tuple[int, Operation]]) -> Scenario:
    merged: dict[int, Operation] = {}
    for number, write in writes:
        before = merged.get(number)
        merged[number] = write if before is None else replace(before, rows=before.rows + write.rows)
    epoch = replace(_epoch(scenario, index), operations=tuple(merged.values()))
    if index < 0:
        return replace(scenario, fill=epoch)
    return replace(scenario, epochs=(*scenario.epochs[:index], epoch, *scenario.epochs[index + 1 :]))


def _with_tables(scenario: Scenario, names: Sequence[str]) -> Scenario:
    def kept(epoch: Epoch) -> Epoch:
        return replace(epoch, operations=tuple(o for o in epoch.operations if o.table in names))

    return replace(
        scenario,
        tables=tuple(t for t in scenario.tables if t.name in names),
        fill=kept(scenario.fill),
        epochs=tuple(map(kept, scenario.epochs)),
    )
