"""Which views a failed job is blamed on, by the kind of failure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.epochs.isolation import ATTEMPTS, run_isolated
from tailrace.errors import EpochFailed, StoreElsewhere, StoreUnavailable


def failed(*, lost: bool = False, cause: tr.errors.TailraceError | None = None) -> EpochFailed:
    return EpochFailed(epoch=1, reason="", cause=cause, cancelled=False, lost=lost)


class Jobs:
    """Jobs that fail as given, one after another, and then succeed, unless they have the view `bad`."""

    def __init__(self, *failures: EpochFailed) -> None:
        self._failures: Iterator[EpochFailed] = iter(failures)
        self.runs: list[str] = []

    def run(self, views: Sequence[str], careful: bool) -> int:
        self.runs.append("".join(views))
        if (failure := next(self._failures, None)) is not None:
            raise failure
        if "b" in views:
            raise failed()
        return len(views)


def test_lost_executors_divide_no_group() -> None:
    jobs = Jobs(*[failed(lost=True)] * (ATTEMPTS - 1))
    outcome = run_isolated("xyz", jobs.run, lambda: True)
    assert (outcome.rows, outcome.failed) == (3, [])
    assert jobs.runs == ["xyz"] * ATTEMPTS


def test_executors_that_are_lost_again_and_again_stop_the_epoch() -> None:
    for views in ("x", "xyz"):
        jobs = Jobs(*[failed(lost=True)] * ATTEMPTS)
        with pytest.raises(EpochFailed) as error:
            run_isolated(views, jobs.run, lambda: True)
        assert error.value.lost
        assert jobs.runs == [views] * ATTEMPTS


def test_no_view_is_to_blame_if_spark_can_run_nothing() -> None:
    jobs = Jobs()
    with pytest.raises(EpochFailed):
        run_isolated("xb", jobs.run, lambda: False)
    assert jobs.runs == ["xb"]


def test_a_store_that_does_not_answer_is_no_views_fault() -> None:
    away = failed(cause=StoreUnavailable(url="hbase://h:1", reason="gone"))
    jobs = Jobs(away)
    with pytest.raises(EpochFailed) as error:
        run_isolated("xy", jobs.run, lambda: True)
    assert (error.value, jobs.runs) == (away, ["xy"])


def test_a_failing_view_is_found_while_executors_are_lost() -> None:
    jobs = Jobs(failed(), failed(), failed(lost=True))
    outcome = run_isolated("abxy", jobs.run, lambda: True)
    assert (outcome.rows, [view for view, _ in outcome.failed]) == (3, ["b"])
    assert jobs.runs == ["abxy", "abxy", "ab", "ab", "a", "b", "xy"]


def test_an_embedded_store_refuses_tasks_on_other_machines(tmp_path: Path, spark: SparkSession) -> None:
    """The machine has another kernel in this test: that is how a task knows where it runs."""
    with tr.open(tmp_path / "s", create=True, spark=spark) as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
        db.table("t").put({"id": 1})
        store = inside(db).store
        here = store.ref
        store.ref = replace(here, machine="another")
        with pytest.raises(EpochFailed, match="embedded store of another machine") as error:
            db.refresh()
        assert isinstance(error.value.cause, StoreElsewhere)
        store.ref = here
        inside(db).epochs.jobs.frames.clear()  # their tasks have the other reference
        assert db.status().views[0]["failed"] is None
        db.refresh()
        assert db.view("v").scan().to_pylist() == [{"n": 1}]
