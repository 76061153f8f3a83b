"""Finds the views that make a job fail, so that a view that fails, fails alone.

    run(all) fails  ─►  the error tells the suspects  ─►  run(the others); run(suspects), carefully
                    ─►  it tells nothing              ─►  run(all), carefully  ─►  run(first half), run(second half) ...

Most errors tell: a task names the views that need the failing operator, and an error of a Spark expression leaves only
the views for which Spark computes something. A view is left out only after it has failed carefully: alone, or with
views that need the same operator. A wrong suspicion therefore costs time, and nothing else. Work is idempotent: a
view that was run before, in a group that failed, is simply run again. Nothing of this runs while no job fails.

A failure that no view is to blame for stops the epoch instead: the disk is full, the store does not answer, the job was
cancelled, or Spark cannot run even an empty job. So do lost executors, after several attempts: a view whose tasks end
executors is found by the processes that run the epoch again (`Epochs._take_over`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from tailrace.errors import Closed, EpochFailed, ReadOnly, StoreFull
from tailrace.spark.failures import failing_views, is_lost, is_outside

ATTEMPTS = 3  # jobs that may lose executors before the epoch fails; in each, Spark runs a task up to four times


class Stored(Protocol):
    @property
    def state(self) -> int: ...


V = TypeVar("V", bound=Stored)
T = TypeVar("T")


@dataclass(frozen=True)
class Isolated(Generic[V]):
    """What an isolated run did: the view rows written, and the views that failed, each with its error."""

    rows: int = 0
    failed: list[tuple[V, EpochFailed]] = field(default_factory=list)

    def __add__(self, other: Isolated[V]) -> Isolated[V]:
        return Isolated(self.rows + other.rows, [*self.failed, *other.failed])


def run_isolated(
    views: Sequence[V], run: Callable[[Sequence[V], bool], int], can_run: Callable[[], bool]
) -> Isolated[V]:
    """Runs views together and, if that fails, those that may be to blame apart from the others.

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
        suspects = _among(views, error.data.get("suspects", ()))
        if not suspects and not can_run():  # a suspected expression proves that Spark runs tasks
            raise
        if not suspects:
            return _run_group(views, run)
        return run_isolated(_without(views, suspects), run, can_run) + _run_group(suspects, run)


def _run_group(
    views: Sequence[V], run: Callable[[Sequence[V], bool], int], attempts: int = ATTEMPTS - 1
) -> Isolated[V]:
    """Runs views carefully and, if that fails, in smaller and smaller groups."""
    try:
        return Isolated(run(views, True))
    except EpochFailed as error:
        if is_lost(error) and attempts > 1:
            return _run_group(views, run, attempts - 1)
        _raise_if_outside(error)
        failed = views if len(views) == 1 else _among(views, failing_views(error.cause))  # they need the same operator
        outcome = Isolated(0, [(view, error) for view in failed])
        for part in [_without(views, failed)] if failed else halves(views):
            outcome += _run_group(part, run) if part else Isolated()
        return outcome


def _among(views: Sequence[V], states: Collection[int]) -> list[V]:
    return [v for v in views if v.state in states] if states else []


def _without(views: Sequence[V], some: Sequence[V]) -> Sequence[V]:
    left_out = {v.state for v in some} if len(some) < len(views) else None
    return [] if left_out is None else [v for v in views if v.state not in left_out]


def halves(views: Sequence[T]) -> list[Sequence[T]]:
    """Two halves; nothing of a single view."""
    half = len(views) // 2
    return [views[:half], views[half:]] if half else []


def _raise_if_outside(error: EpochFailed) -> None:
    """Raises the error if no view is to blame for it."""
    if is_outside(error) or isinstance(error.cause, StoreFull | ReadOnly | Closed):
        raise error
