"""Finding the views that make a job fail: with what the error tells in three jobs, without it by halves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from tailrace.epochs.isolation import run_isolated
from tailrace.errors import EpochFailed, RowFailed, StoreFull


@dataclass(frozen=True)
class View:
    state: int


VIEWS = [View(n) for n in range(10)]
Jobs = list[tuple[list[int], bool]]


def job(bad: set[int], jobs: Jobs, tell: Callable[[set[int]], EpochFailed]) -> Callable[[Sequence[View], bool], int]:
    """A job that fails if one of the bad views is in it, with the error that `tell` makes of those."""

    def run(views: Sequence[View], careful: bool) -> int:
        states = [v.state for v in views]
        jobs.append((states, careful))
        if failing := bad & set(states):
            raise tell(failing)
        return len(states)

    return run


def of_operator(failing: set[int]) -> EpochFailed:
    cause = RowFailed(message="poison", views=sorted(failing))
    return EpochFailed(epoch=1, reason="poison", cause=cause, cancelled=False, suspects=sorted(failing))


def of_nobody(failing: set[int]) -> EpochFailed:
    return EpochFailed(epoch=1, reason="a worker was lost", cause=None, cancelled=False, suspects=[])


def test_an_error_that_names_its_views_needs_three_jobs() -> None:
    jobs: Jobs = []
    outcome = run_isolated(VIEWS, job({4, 7}, jobs, of_operator), lambda: True)
    assert [view.state for view, _ in outcome.failed] == [4, 7]
    assert outcome.rows == 8
    others = [n for n in range(10) if n not in (4, 7)]
    assert jobs == [(list(range(10)), False), (others, False), ([4, 7], True)]


def test_several_failures_are_found_one_after_another() -> None:
    jobs: Jobs = []
    outcome = run_isolated(VIEWS, job({2, 5, 6}, jobs, lambda bad: of_operator({min(bad)})), lambda: True)
    assert {view.state for view, _ in outcome.failed} == {2, 5, 6}
    assert outcome.rows == 7
    assert len(jobs) == 7


@pytest.mark.parametrize("suspects", [[1, 4, 7, 8], [0, 1, 2], list(range(10))])
def test_a_wrong_suspicion_costs_only_time(suspects: list[int]) -> None:
    def tell(failing: set[int]) -> EpochFailed:
        return EpochFailed(epoch=1, reason="map with a NULL key", cause=None, cancelled=False, suspects=suspects)

    jobs: Jobs = []
    outcome = run_isolated(VIEWS, job({4, 8}, jobs, tell), lambda: True)
    assert {view.state for view, _ in outcome.failed} == {4, 8}
    assert outcome.rows == 8


def test_without_a_hint_halves_find_the_view() -> None:
    jobs: Jobs = []
    outcome = run_isolated(VIEWS, job({9}, jobs, of_nobody), lambda: True)
    assert [view.state for view, _ in outcome.failed] == [9]
    assert all(careful for _, careful in jobs[1:])
    assert len(jobs) <= 10


def test_no_view_fails_without_a_careful_run() -> None:
    """The first run may see a row that was repaired within the epoch; a careful run nets the changes."""

    def run(views: Sequence[View], careful: bool) -> int:
        if not careful:
            raise of_operator({3})
        return len(views)

    assert run_isolated([View(3)], run, lambda: True).failed == []


def test_a_failure_outside_stops_everything() -> None:
    def full(failing: set[int]) -> EpochFailed:
        cause = StoreFull(path="p", full="disk", used=1, limit=1)
        return EpochFailed(epoch=1, reason="full", cause=cause, cancelled=False, suspects=sorted(failing))

    with pytest.raises(EpochFailed):
        run_isolated(VIEWS, job({4}, [], full), lambda: True)
    with pytest.raises(EpochFailed):
        run_isolated(VIEWS, job({4}, [], of_nobody), lambda: False)
