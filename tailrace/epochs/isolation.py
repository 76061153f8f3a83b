"""Finds the views that make a job fail, so that a view that fails, fails alone.

    run(all) fails  ─►  run(all), once more, carefully  ─►  run(first half), run(second half)  ─►  ...  ─►  one view

Work is idempotent: a view that was run before, in a group that failed, is simply run again. So the number of jobs is
about the logarithm of the number of views for each view that fails. Nothing of this runs while no job fails.

A failure that no view is to blame for stops the epoch instead: the disk is full, the job was cancelled, or Spark
cannot run even an empty job. So do lost executors, after several attempts: a view whose tasks end executors is found by
the processes that run the epoch again (`Epochs._take_over`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tailrace.errors import Closed, EpochFailed, ReadOnly, StoreFull
from tailrace.spark.failures import is_hopeless, is_lost, is_outside

ATTEMPTS = 3  # jobs that may lose executors before the epoch fails; in each, Spark runs a task up to four times
V = TypeVar("V")


@dataclass(frozen=True)
class Isolated(Generic[V]):
    """What an isolated run did: the view rows written, and the views that failed, each with its error."""

    rows: int = 0
    failed: list[tuple[V, EpochFailed]] = field(default_factory=list)


def run_isolated(
    views: Sequence[V], run: Callable[[Sequence[V], bool], int], can_run: Callable[[], bool]
) -> Isolated[V]:
    """Runs views together and, if that fails, in smaller and smaller groups.

    `run` gets the views and whether to run carefully: as if for the first time, and with all changes of a row netted.
    `can_run` says whether Spark can run a job at all. If not, the error of the job is raised.
    """
    if not views:
        return Isolated()
    try:
        return Isolated(run(views, False))
    except EpochFailed as error:
        if not is_lost(error):
            _raise_if_outside(error)
        if not can_run():
            raise
        return _divide(views, error, run) if is_hopeless(error) else _run_group(views, run)


def _run_group(
    views: Sequence[V], run: Callable[[Sequence[V], bool], int], attempts: int = ATTEMPTS - 1
) -> Isolated[V]:
    try:
        return Isolated(run(views, True))
    except EpochFailed as error:
        if is_lost(error) and attempts > 1:
            return _run_group(views, run, attempts - 1)
        _raise_if_outside(error)
        return _divide(views, error, run)


def _divide(views: Sequence[V], error: EpochFailed, run: Callable[[Sequence[V], bool], int]) -> Isolated[V]:
    if len(views) == 1:
        return Isolated(0, [(views[0], error)])
    parts = [_run_group(part, run) for part in halves(views)]
    return Isolated(sum(p.rows for p in parts), [failed for p in parts for failed in p.failed])


def halves(views: Sequence[V]) -> list[Sequence[V]]:
    """Two halves; nothing of a single view."""
    half = len(views) // 2
    return [views[:half], views[half:]] if half else []


def _raise_if_outside(error: EpochFailed) -> None:
    """Raises the error if no view is to blame for it."""
    if is_outside(error) or isinstance(error.cause, StoreFull | ReadOnly | Closed):
        raise error
