"""The data model of a check: the history of base records, the base states it allows, and the history of a view.

    B ≤ B'   iff   no base record's version in B' is earlier than its version in B

A base record's versions are its timeline. Changes of one record keep their order; changes of different records may
be observed in any order. A base state is therefore any combination of one version per record. Most pairs of base
states are not ordered.

A view record is compared as a value; an absent record has the value None. Nothing here depends on SQL, Spark or
Tailrace: a view is any function from base rows to view rows, and histories may come from any system.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from types import MappingProxyType
from typing import Any, TypeAlias

from tailrace.errors import BadHistory
from tailrace.verify.equality import alike

Key: TypeAlias = Hashable
Record: TypeAlias = tuple[str, Key]
"""A base record: its table and its key."""
Value: TypeAlias = Any
"""A row in any form that supports ==; None is an absent row."""
Rows: TypeAlias = Mapping[Record, Value]
Definition: TypeAlias = Callable[[Rows], Mapping[Any, Value]]
"""A view: a function from the present base rows to the view rows by key."""
TIME: Record = ("", "time")
"""Not a record of a table: its value is the time (`ViewState.time`) at which the view is computed, if that is known."""
Matters: TypeAlias = Callable[[Key, Record, Sequence[Value]], bool]
"""Whether the view record with this key can depend on a base record with these versions."""


@dataclass(frozen=True)
class Change:
    """A new version of one record. Changes with the same transaction number happen together."""

    transaction: int
    record: Record
    value: Value = None


@dataclass(frozen=True)
class BaseHistory:
    """The initial rows, and all later changes in the order of their transactions."""

    initial: Rows
    changes: Sequence[Change]

    def __post_init__(self) -> None:
        for before, after in zip(self.changes, self.changes[1:], strict=False):
            if after.transaction < before.transaction:
                order = f"transaction {after.transaction} is listed after transaction {before.transaction}"
                raise BadHistory(name="the base tables", reason=f"{order}; sort the changes by transaction")

    @cached_property
    def timelines(self) -> Mapping[Record, tuple[Value, ...]]:
        """The versions of each record that changed, oldest first. Other records have only the one in `initial`."""
        versions: dict[Record, list[Value]] = {}
        for change in self.changes:
            versions.setdefault(change.record, [self.initial.get(change.record)]).append(change.value)
        return MappingProxyType({record: tuple(values) for record, values in versions.items()})

    @cached_property
    def first(self) -> BaseState:
        return BaseState(self, (0,) * len(self.timelines))

    @cached_property
    def last(self) -> BaseState:
        return BaseState(self, tuple(len(values) - 1 for values in self.timelines.values()))

    def states(self) -> Iterator[BaseState]:
        """All base states, including the first and the last: every combination of versions."""
        for versions in product(*(range(len(values)) for values in self.timelines.values())):
            yield BaseState(self, versions)

    def at(self, cut: int) -> BaseState:
        """The base state after all transactions up to a cut."""
        versions = dict.fromkeys(self.timelines, 0)
        for change in self.changes:
            if change.transaction <= cut:
                versions[change.record] += 1
        return BaseState(self, tuple(versions.values()))


@dataclass(frozen=True)
class BaseState:
    """One version of each record, numbered from 0, in the order of the history's timelines."""

    history: BaseHistory = field(repr=False, compare=False)
    versions: tuple[int, ...]

    def __le__(self, other: BaseState) -> bool:
        return all(mine <= its for mine, its in zip(self.versions, other.versions, strict=True))

    def __ge__(self, other: BaseState) -> bool:
        return other <= self

    @property
    def rows(self) -> Rows:
        """The rows that are present."""
        rows = {record: value for record, value in self.history.initial.items() if value is not None}
        timelines = self.history.timelines.items()
        for (record, values), version in zip(timelines, self.versions, strict=True):
            if values[version] is None:
                rows.pop(record, None)
            else:
                rows[record] = values[version]
        return rows


@dataclass(frozen=True)
class ViewState:
    """What changed in a view since its previous state (None: the row was deleted), or, if `whole`, all of its rows.

    The cut is the state's certificate: the number of the last transaction that it reflects. States of several views
    with the same `epoch` were published together. `time` is what `now()` was in the state, for a view that reads it.
    """

    changes: Mapping[Any, Value]
    cut: int | None = None
    epoch: int | None = None
    whole: bool = False
    time: int | None = None


@dataclass(frozen=True)
class ViewHistory:
    """All states of a view, first to last. If only some of its records were observed, `keys` names them."""

    name: str
    states: Sequence[ViewState]
    keys: frozenset[Key] | None = None

    def __post_init__(self) -> None:
        if not self.states:
            raise BadHistory(name=self.name, reason="no states; record at least the first one")

    def observed(self, rows: Mapping[Any, Value]) -> dict[Any, Value]:
        """The view rows that the history covers."""
        return {k: v for k, v in rows.items() if v is not None and (self.keys is None or k in self.keys)}

    def contents(self) -> Iterator[Mapping[Any, Value]]:
        """The view's rows in each state. All steps yield the same mapping, changed in place."""
        shown: dict[Any, Value] = {}
        for state in self.states:
            if state.whole:
                shown.clear()
            shown.update(state.changes)
            for key in [k for k, v in state.changes.items() if v is None]:
                del shown[key]
            yield MappingProxyType(shown)

    def timelines(self, tolerance: float = 0.0) -> dict[Any, list[tuple[int, Value]]]:
        """The successive values of each record that was ever present, each with the number of its first state."""
        lines: dict[Any, list[tuple[int, Value]]] = {}
        for number, shown in enumerate(self.contents()):
            state = self.states[number]
            for key in {**lines, **shown} if state.whole else state.changes:
                line = lines.setdefault(key, [(0, None)] if number else [])
                value = shown.get(key)
                if not line or not alike(line[-1][1], value, tolerance):
                    line.append((number, value))
        return lines
