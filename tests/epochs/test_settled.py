"""Answers that differ when recomputed (double sums, ties): everything derived from them uses the stored answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tailrace as tr
from tailrace.delta import SHARD, WEIGHT
from tailrace.rules.affected import LIVE, Outputs
from tailrace.rules.arranged import Arranged
from tailrace.rules.before import Before
from tailrace.rules.sink import REPORT, Sink
from tailrace.spark import stages
from tailrace.spark.fragments import Fragment
from tailrace.store.base import Cut, Write
from tailrace.store.lmdb import settings
from tailrace.store.lmdb.store import KEY_LIMIT, LmdbStore
from tailrace.task.assignment import Assignment
from tailrace.task.program import Fed, Keep, Program, Settle
from tailrace.types import Column

COLUMNS = (Column("g", "int"), Column("x", "double"))
ANSWERS, VIEW, OTHER = 1, 2, 3
HERE, THERE = 0, 1  # shards
NOTHING = Cut(0, (0,))


@dataclass(frozen=True)
class Overtaken:
    """Wraps a rule; runs other tasks after the rule has read its state and before it writes, as if they overtook it."""

    rule: Outputs
    others: list[Callable[[], None]]

    @property
    def output(self) -> pa.Schema:
        return self.rule.output

    def step(self, deltas: Sequence[pa.Table], before: Before) -> tuple[pa.Table | None, list[Write]]:
        result = self.rule.step(deltas, before)
        while self.others:
            self.others.pop()()
        return result


class Tasks:
    """Runs tasks that store the answers of groups and maintain a view over them."""

    def __init__(self, path: Path) -> None:
        settings.create(path, settings.Settings(map_size=1 << 28))
        self.store, self.epoch = LmdbStore(path), 1

    def run(self, answers: dict[int, float], view: int = VIEW, others: Sequence[Callable[[], None]] = ()) -> None:
        """Runs a task that computed `answers`. Group n is in shard n; all view rows are in one shard."""
        rule = Overtaken(Outputs(Arranged(ANSWERS, COLUMNS, (0,), (0,), KEY_LIMIT)), list(others))
        fed = pa.table(
            [list(answers), list(answers.values()), [True] * len(answers), list(answers)],
            schema=pa.schema([("_0", pa.int32()), ("_1", pa.float64()), (LIVE, pa.bool_()), (SHARD, pa.int32())]),
        )
        delta = pa.schema([("_0", pa.int32()), ("_1", pa.float64()), (WEIGHT, pa.int64())])
        operators = (
            (Fed(0), ()),
            (Settle(rule, (fed.schema,), ((),), self.store.shards), (0,)),
            (Keep(Sink(view, COLUMNS, None, KEY_LIMIT), (delta,), ((),), self.store.shards), (1,)),
        )
        program = Program(operators, (2,), (tuple(fed.column_names),), REPORT)
        work = Assignment(self.epoch, self.epoch - 1, NOTHING, NOTHING)
        list(program.run(self.store, work, (0,), fed.to_batches()))

    def stored_values(self, state: int) -> list[Any]:
        """The values of a state in all shards after the epoch."""
        values = []
        for number in range(self.store.shards):
            with self.store.shard(number).at(self.epoch) as snapshot:
                values += [value for run in snapshot.scan(state) for _, value in run]
        return sorted(values)


@pytest.fixture
def tasks(tmp_path: Path) -> Iterator[Tasks]:
    tasks = Tasks(tmp_path / "s")
    yield tasks
    tasks.store.close()


def test_a_repeated_task_keeps_the_stored_answers(tasks: Tasks) -> None:
    tasks.run({HERE: 0.3, THERE: 1.0})
    tasks.epoch = 2
    tasks.run({HERE: 0.3, THERE: 2.0})
    before = tasks.stored_values(ANSWERS), tasks.stored_values(VIEW)
    tasks.run({HERE: 0.1 + 0.2, THERE: 2.0})
    assert (tasks.stored_values(ANSWERS), tasks.stored_values(VIEW)) == before


def test_when_two_tasks_share_a_state_the_second_uses_the_answers_of_the_first(tasks: Tasks) -> None:
    tasks.run({HERE: 0.3, THERE: 0.6}, VIEW, [lambda: tasks.run({HERE: 0.1 + 0.2, THERE: 0.6}, OTHER)])
    assert tasks.stored_values(VIEW) == tasks.stored_values(OTHER)
    tasks.epoch = 2
    tasks.run({HERE: 5.0, THERE: 0.6}, VIEW, [lambda: tasks.run({HERE: 5.0, THERE: 0.7}, OTHER)])
    assert tasks.stored_values(VIEW) == tasks.stored_values(OTHER)


def test_views_share_one_instance_of_an_operator_with_state(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if one view sums the operator's output, which needs no netting, and another view shows it."""
    kept: list[Keep] = []

    def link(roots: Sequence[Fragment]) -> Any:
        program, feeds = original(roots)
        kept.extend(operator for operator, _ in program.operators if isinstance(operator, Keep))
        return program, feeds

    original = stages.link
    with tr.open(tmp_path / "s", create=True, spark=spark, map_size=1 << 28) as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, g INT, n INT)")
        pairs = "SELECT l.id AS i, r.id AS j, l.n AS n FROM t l JOIN t r ON l.g = r.g"
        db.sql(
            f"CREATE MATERIALIZED VIEW v AS {pairs}; CREATE MATERIALIZED VIEW w AS SELECT SUM(n) AS s FROM ({pairs})"
        )
        db.table("t").put_many([{"id": i, "g": i % 2, "n": i} for i in range(5)])
        monkeypatch.setattr(stages, "link", link)
        db.refresh()
    assert len(kept) == 4, "a join, an aggregate, two views"
