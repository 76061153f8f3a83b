"""Follows a view while its base tables move from cut to cut.

A follower says which view rows may have changed since the last cut, so that a check compares only those. Any function
from base rows to view rows can be followed: it is computed at each cut and compared with its last result. A definition
that has a cheaper way (`evaluate.py`) offers its own follower.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from tailrace.verify.history.timelines import TIME, BaseHistory, Change, Definition, Rows, Value


class Follower(Protocol):
    """A view at a cut."""

    computed: int
    """How often the view was computed."""

    @property
    def rows(self) -> Mapping[Any, Value]:
        """The view's rows at the cut. The mapping changes with the next move."""

    def move_to(self, cut: float, time: int | None = None) -> Iterable[Any]:
        """Moves to another cut and time (`ViewState.time`). Returns the keys of rows that may be different there."""


@runtime_checkable
class Followed(Protocol):
    """A definition with its own follower."""

    def follow(self, base: BaseHistory) -> Follower: ...


def follow(definition: Definition, base: BaseHistory) -> Follower:
    """A follower of the view over these base tables, before the first cut."""
    return definition.follow(base) if isinstance(definition, Followed) else _FunctionFollower(definition, base)


def at_time(rows: Rows, time: int | None) -> Rows:
    """The base rows, and the time at which the view is computed if it is known."""
    return rows if time is None else {**rows, TIME: time}


class BaseCursor:
    """The base rows at a cut. Moving to another cut costs only the changes in between, in either direction."""

    def __init__(self, base: BaseHistory) -> None:
        self._changes = base.changes
        self._rows = {record: value for record, value in base.initial.items() if value is not None}
        self._replaced: list[Value] = []  # the old value of each applied change, for moving back

    def move_to(self, cut: float) -> Rows:
        """The rows after the transactions up to a cut. The mapping changes with the next move."""
        while self._has_change_before(cut):
            change = self._changes[len(self._replaced)]
            self._replaced.append(self._rows.get(change.record))
            self._set(change, change.value)
        while self._is_past(cut):
            change = self._changes[len(self._replaced) - 1]
            self._set(change, self._replaced.pop())
        return MappingProxyType(self._rows)

    def would_move(self, cut: float) -> bool:
        """Whether moving to a cut applies or reverts any change."""
        return self._has_change_before(cut) or self._is_past(cut)

    def _has_change_before(self, cut: float) -> bool:
        applied = len(self._replaced)
        return applied < len(self._changes) and self._changes[applied].transaction <= cut

    def _is_past(self, cut: float) -> bool:
        return bool(self._replaced) and self._changes[len(self._replaced) - 1].transaction > cut

    def _set(self, change: Change, value: Value) -> None:
        if value is None:
            self._rows.pop(change.record, None)
        else:
            self._rows[change.record] = value


class _FunctionFollower:
    """Computes the whole view at each cut where a base row is different."""

    def __init__(self, definition: Definition, base: BaseHistory) -> None:
        self._definition, self._cursor = definition, BaseCursor(base)
        self.rows: Mapping[Any, Value] = {}
        self.computed = 0
        self._time: int | None = None

    def move_to(self, cut: float, time: int | None = None) -> Iterable[Any]:
        if self.computed and not self._cursor.would_move(cut) and time == self._time:
            return ()
        self._time = time
        before, self.rows = self.rows, self._definition(at_time(self._cursor.move_to(cut), time))
        self.computed += 1
        return {**before, **self.rows}.keys()
