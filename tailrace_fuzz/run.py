"""Plays scenarios: the same tables in Tailrace and in Spark, with views compared after every epoch."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.errors import Unsupported
from tailrace_fuzz.data import Epoch
from tailrace_fuzz.model import UNCOMPILED, Model, differences, fix_time, interpreted
from tailrace_fuzz.places import Place, embedded
from tailrace_fuzz.scenarios import Scenario, View
from tailrace_fuzz.times import time_of_epoch


@dataclass(frozen=True)
class Finding:
    """A bug. `kind`: `rows` or `types` differ from Spark's, `verify` or `epoch` failed, or the name of an error."""

    view: View
    kind: str
    epoch: int
    detail: str


@dataclass
class Outcome:
    """The result of playing scenarios."""

    findings: list[Finding] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    invalid: list[tuple[View, str]] = field(default_factory=list)
    maintained: int = 0
    skipped: int = 0  # views that read a view that was not created
    compared: int = 0
    filled: int = 0  # comparisons with a non-empty answer
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, other: Outcome) -> None:
        self.findings += other.findings
        self.invalid += other.invalid
        self.refused += other.refused
        for name, seconds in other.seconds.items():
            self.seconds[name] += seconds
        self.maintained += other.maintained
        self.skipped += other.skipped
        self.compared += other.compared
        self.filled += other.filled


class Oracle:
    """Spark's answers over the expected contents of the tables."""

    def __init__(self, spark: SparkSession, model: Model) -> None:
        self._spark, self._model = interpreted(spark), model
        self.time = 0

    def _query(self, view: View) -> DataFrame:
        return self._spark.sql(fix_time(view.sql, self.time))

    def update(self, tables: Iterable[str], views: Iterable[View]) -> None:
        """Registers the changed tables, and the views that other views read."""
        self._model.show(self._spark, tables)
        for view in views:
            self._query(view).createOrReplaceTempView(view.name)

    def refusal(self, view: View) -> str | None:
        """The error if Spark does not accept a query, else None."""
        try:
            self._query(view).createOrReplaceTempView(view.name)
        except PySparkException as error:
            return str(error).split("\n", 1)[0]
        return None

    def failure(self, view: View) -> str | None:
        """The error if Spark fails to run a query, else None."""
        try:
            self._query(view).toArrow()
        except (PySparkException, Py4JError) as error:
            return str(error).split("\n", 2)[1 if "calling o" in str(error) else 0]
        return None

    def answers(self, views: Sequence[View]) -> list[pa.Table]:
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda view: self._query(view).toArrow(), views))


class Player:
    """Plays one scenario in an empty database."""

    def __init__(self, spark: SparkSession, db: tr.Database, scenario: Scenario) -> None:
        self._scenario, self.outcome, self._db = scenario, Outcome(), db
        for name, value in UNCOMPILED.items():
            self._db.spark.conf.set(name, value)
        for table in scenario.tables:
            self._db.sql(table.ddl)
        self._model = Model(self._db)
        self._oracle = Oracle(spark, self._model)
        self._views: list[View] = []
        self._wrong: set[int] = set()
        self.epoch = 0
        inside(self._db).epochs.clock = lambda: time_of_epoch(self.epoch)
        self._oracle.time = time_of_epoch(0)

    def play(self) -> Outcome:
        self._write(self._scenario.fill)
        self._oracle.update(self._model.tables, [])
        late = self._scenario.late
        self._create([v for v in self._scenario.views if v.number not in late])
        self._compare()
        for number, epoch in enumerate(self._scenario.epochs, start=1):
            self.epoch = number
            self._oracle.time = time_of_epoch(number)
            self._run(epoch)
            if number == len(self._scenario.epochs) // 2:
                self._create([v for v in self._scenario.views if v.number in late])
            self._compare()
        self._verify()
        return self.outcome

    def _write(self, epoch: Epoch) -> None:
        inside(self._db).epochs.jobs.small = -1 if epoch.spread else 50_000
        for operation in epoch.operations:
            key = self._db.table(operation.table).key
            keys = [tuple(row[k] for k in key) for row in operation.rows]
            if operation.kind == "put":
                self._model.put(operation.table, [dict(row) for row in operation.rows])
            elif operation.kind == "delete":
                self._model.delete(operation.table, [k if len(k) > 1 else k[0] for k in keys])
            elif keys[0] in self._model.tables[operation.table]:
                self._model.update(operation.table, dict(operation.rows[0]))

    def _create(self, views: Sequence[View]) -> None:
        began = time.monotonic()
        for view in views:
            if set(view.uses) - {v.number for v in self._views}:
                self.outcome.skipped += 1
                continue
            refusal = self._oracle.refusal(view)
            if refusal is not None:
                self.outcome.invalid.append((view, refusal))
                continue
            try:
                self._db.sql(f"CREATE MATERIALIZED VIEW {view.name} AS {view.sql}")
            except Unsupported as error:
                if error.construct == "this query":
                    self._add_finding(view, "types", str(error))
                else:
                    self.outcome.refused[error.construct] += 1
            except Exception as error:
                failure = self._oracle.failure(view)
                if failure is None:
                    self._add_finding(view, type(error).__name__, str(error))
                else:
                    self.outcome.invalid.append((view, failure))
            else:
                self._views.append(view)
        self.outcome.maintained = len(self._views)
        self.outcome.seconds["create"] += time.monotonic() - began

    def _run(self, epoch: Epoch) -> None:
        self._write(epoch)
        began = time.monotonic()
        self._db.refresh()
        self.outcome.seconds["refresh"] += time.monotonic() - began
        read = {number for view in self._scenario.views for number in view.uses}
        self._oracle.update({o.table for o in epoch.operations}, [v for v in self._views if v.number in read])

    def _compare(self) -> None:
        views = [v for v in self._views if v.number not in self._wrong]
        began = time.monotonic()
        answers = self._oracle.answers(views)
        self.outcome.seconds["oracle"] += time.monotonic() - began
        for view, expected in zip(views, answers, strict=True):
            missing, extra = differences(self._db.view(view.name).scan(), expected, view.loose)
            self.outcome.compared += 1
            self.outcome.filled += expected.num_rows > 0
            if missing or extra:
                self._add_finding(view, "rows", f"missing {_format_rows(missing)}\nextra   {_format_rows(extra)}")

    def _verify(self) -> None:
        """Runs `db.verify` on one view, which must report no difference either."""
        exact = [v for v in self._views if v.number not in self._wrong and not v.loose]
        if exact and not any(u in self._wrong for u in exact[-1].uses):
            report = self._db.verify(exact[-1].name)
            if not report.ok:
                self._add_finding(exact[-1], "verify", str(report))

    def _add_finding(self, view: View, kind: str, detail: str) -> None:
        self._wrong.add(view.number)
        self.outcome.findings.append(Finding(view, kind, self.epoch, detail))


def play(spark: SparkSession, scenario: Scenario, place: Place = embedded) -> Outcome:
    """Plays a scenario in a database of `place`.

    If an epoch fails as a whole, each view is played alone to find the one that fails.
    """
    with place(spark) as db:
        player = Player(spark, db, scenario)
        try:
            return player.play()
        except Exception as error:
            failed, seen = error, player.outcome
    numbers = [v.number for v in scenario.views]
    if len(numbers) == 1:
        seen.findings.append(Finding(scenario.views[0], type(failed).__name__, player.epoch, str(failed)))
        return seen
    outcome = Outcome()
    for number in numbers:
        outcome.add(_play_alone(spark, scenario, number, place))
    if not outcome.findings:
        last = scenario.views[-1]
        outcome.findings.append(
            Finding(last, type(failed).__name__, player.epoch, f"fails only with all views together: {failed}")
        )
    return outcome


def _play_alone(spark: SparkSession, scenario: Scenario, number: int, place: Place) -> Outcome:
    smaller = scenario.only([number])
    if len(smaller.views) == len(scenario.views):
        view = smaller.views[-1]
        return Outcome(findings=[Finding(view, "epoch", 0, "fails with the views it reads")])
    return play(spark, smaller, place)


def _format_rows(rows: Counter[object]) -> str:
    shown = [f"{count} × {row}" if count > 1 else str(row) for row, count in list(rows.items())[:5]]
    return "; ".join(shown) + (f" and {len(rows) - 5} more" if len(rows) > 5 else "") or "nothing"
