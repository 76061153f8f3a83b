"""Histories: what happened to the base records, what a view showed, and which base states there were.

    B ≤ B'   iff   no base record's version in B' is earlier than its version in B

A base record's versions are its timeline. Changes of one record stay in their order; those of different records
may be seen in any. So a base state is one version of each record, whichever: the base states between the first and
the last are all combinations of versions, and most pairs of them are not ordered.

A view record is compared as a value; a record that is not there has the value None. Nothing here knows SQL, Spark or
Tailrace: a view is any function from base rows to view rows, and the histories may come from any system.
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
"""A row, in any form that compares with ==; None is no row."""
Rows: TypeAlias = Mapping[Record, Value]
Definition: TypeAlias = Callable[[Rows], Mapping[Any, Value]]
"""A view: from the base rows that are there to the view rows, by key."""
Matters: TypeAlias = Callable[[Key, Record, Sequence[Value]], bool]
"""Whether a view record, by its key, can depend on a base record with these versions."""


@dataclass(frozen=True)
class Change:
    """A new version of one record. Changes of one transaction happen together; its number says when."""

    transaction: int
    record: Record
    value: Value = None


@dataclass(frozen=True)
class BaseHistory:
    """The rows there were first, and all changes since, by rising transaction."""

    initial: Rows
    changes: Sequence[Change]

    def __post_init__(self) -> None:
        for before, after in zip(self.changes, self.changes[1:], strict=False):
            if after.transaction < before.transaction:
                reason = f"transaction {after.transaction} comes after transaction {before.transaction}"
                raise BadHistory(name="the base tables", reason=reason)

    @cached_property
    def timelines(self) -> Mapping[Record, tuple[Value, ...]]:
        """The versions of each record that changed, from the first; the others have just the one in `initial`."""
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
        """All base states from the first to the last, both included: every combination of versions."""
        for versions in product(*(range(len(values)) for values in self.timelines.values())):
            yield BaseState(self, versions)

    def at(self, cut: int) -> BaseState:
        """The base state after all transactions up to a number."""
        seen = dict.fromkeys(self.timelines, 0)
        for change in self.changes:
            if change.transaction <= cut:
                seen[change.record] += 1
        return BaseState(self, tuple(seen.values()))


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
        """The rows that are there."""
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
    """What changed in a view since its state before (None: the row went), or, if `whole`, all that it shows.

    The cut is the state's certificate: the number of the last transaction that it reflects. States of several
    views with one `epoch` were published together.
    """

    changes: Mapping[Any, Value]
    cut: int | None = None
    epoch: int | None = None
    whole: bool = False


@dataclass(frozen=True)
class ViewHistory:
    """All states that a view had, from its first. If only some of its records were observed, `keys` names them."""

    name: str
    states: Sequence[ViewState]
    keys: frozenset[Key] | None = None

    def __post_init__(self) -> None:
        if not self.states:
            raise BadHistory(name=self.name, reason="there are no states of it; record at least its first")

    def observed(self, rows: Mapping[Any, Value]) -> dict[Any, Value]:
        """Of a view's rows, those that the history is about."""
        kept = self.keys
        return {k: v for k, v in rows.items() if v is not None and (kept is None or k in kept)}

    def contents(self) -> Iterator[Mapping[Any, Value]]:
        """What the view shows in each state. The mapping changes as the iteration goes on."""
        shown: dict[Any, Value] = {}
        for state in self.states:
            if state.whole:
                shown.clear()
            shown.update(state.changes)
            for key in [k for k, v in state.changes.items() if v is None]:
                del shown[key]
            yield MappingProxyType(shown)

    def timelines(self, tolerance: float = 0.0) -> dict[Any, list[tuple[int, Value]]]:
        """Of each record that was ever there: its successive values, each with the number of the state it came with."""
        lines: dict[Any, list[tuple[int, Value]]] = {}
        for number, shown in enumerate(self.contents()):
            state = self.states[number]
            for key in {**lines, **shown} if state.whole else state.changes:
                line = lines.setdefault(key, [(0, None)] if number else [])
                value = shown.get(key)
                if not line or not alike(line[-1][1], value, tolerance):
                    line.append((number, value))
        return lines
