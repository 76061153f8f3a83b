"""Checks histories with certificates: every view state claims a cut and must be the view at that cut.

    convergent   the last state     = View(base tables after the last transaction)
    weak         each state         = View(base tables after the transactions up to its cut, the state's time)
    strong       cut of a state     ≤ cut of the next
    complete     every transaction is some state's cut

A cut counts whole transactions, so a state that reflects part of a transaction is wrong. The base states at rising cuts
form one sequence. A history that is strong here is therefore strong in both models of `search.py`, and for the view as
a whole instead of record by record. The converse does not hold: a state with a wrong certificate may still be the view
of some base state.

The view is computed at most once per state, while the base rows are moved from cut to cut. Apart from computing the
views, the cost is linear in the size of the history.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from tailrace.errors import BadHistory
from tailrace.verify.equality import alike
from tailrace.verify.history.timelines import TIME, BaseHistory, Change, Definition, Key, Rows, Value, ViewHistory
from tailrace.verify.history.verdict import Level, ViewVerdict, Witness, format_row, format_value, shown_in

PARTS = 8
"""How many parts of one transaction are tried to explain a wrong state."""


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


def check_certified(base: BaseHistory, view: ViewHistory, definition: Definition, tolerance: float) -> ViewVerdict:
    """The level that the certificates of a view's states prove."""
    run = _Run(base, view, definition, tolerance)
    wrong_state = run.first_wrong()  # before `unconverged`, so that the base cursor mostly moves forward
    violations = [
        run.unconverged(),
        wrong_state,
        _cut_that_goes_back(view, run.cuts),
        _skipped_transaction(base, view, run.cuts),
    ]
    witnesses = tuple(w for w in violations if w is not None)
    level = Level(min((w.level for w in witnesses if w.level is not None), default=Level.COMPLETE + 1) - 1)
    return ViewVerdict(view.name, level, level, witnesses, run.looked_at)


class _Run:
    """Compares a view's states with the view computed from the base rows at their cuts."""

    def __init__(self, base: BaseHistory, view: ViewHistory, definition: Definition, tolerance: float) -> None:
        self.looked_at = 0
        self.cuts = list(_cuts(view))
        self._base, self._view, self._definition, self._tolerance = base, view, definition, tolerance
        self._cursor = BaseCursor(base)
        self._expected: Mapping[Any, Value] | None = None
        self._time: int | None = None  # at which `_expected` was computed, and with it what is compared

    def first_wrong(self) -> Witness | None:
        """The first state that is not the view at its cut."""
        for number, actual in enumerate(self._view.contents()):
            cut = self.cuts[number]
            expected = self._expected_at(cut, number)
            if (key := self._differing_key(expected, actual)) is not None:
                row = format_row(expected.get(*key))
                reason = self._explain(cut, actual) or f"the view's definition gives {row} at this cut"
                state = shown_in(self._view, number, actual.get(*key))
                return Witness(Level.WEAK, self._view.name, *key, [state], reason)
        return None

    def unconverged(self) -> Witness | None:
        """The last state, if it is not the view of the last base state."""
        *_, actual = self._view.contents()
        expected = self._expected_at(math.inf, -1)
        if (key := self._differing_key(expected, actual)) is None:
            return None
        state = shown_in(self._view, len(self.cuts) - 1, actual.get(*key))
        last = self._base.changes[-1].transaction if self._base.changes else self.cuts[-1]
        reason = f"the view's definition gives {format_row(expected.get(*key))} after the last transaction ({last})"
        return Witness(Level.CONVERGENT, self._view.name, *key, [state], reason)

    def _expected_at(self, cut: float, number: int) -> Mapping[Any, Value]:
        """The view at a cut and the time of a state. It is computed again only if a base row or the time changed."""
        time = self._view.states[number].time
        if self._expected is None or self._cursor.would_move(cut) or time != self._time:
            self._time = time
            self._expected = self._compute(self._cursor.move_to(cut))
        return self._expected

    def _compute(self, rows: Rows) -> Mapping[Any, Value]:
        self.looked_at += 1
        timed = rows if self._time is None else {**rows, TIME: self._time}
        return self._view.observed(self._definition(timed))

    def _differing_key(self, expected: Mapping[Any, Value], actual: Mapping[Any, Value]) -> tuple[Key] | None:
        """A key with different rows, in a tuple because None is a valid key; None if all rows are equal."""
        if len(expected) == len(actual) and expected == actual:
            return None
        keys = dict.fromkeys([*expected, *actual])
        return next(((k,) for k in keys if not alike(expected.get(k), actual.get(k), self._tolerance)), None)

    def _explain(self, cut: int, actual: Mapping[Any, Value]) -> str | None:
        """Explains a wrong state by a base state near its cut: part of a transaction, or one transaction more or less.

        Returns None if no such base state gives the wrong state.
        """
        self._expected = None
        numbers = [change.transaction for change in self._base.changes]
        last = max((n for n in numbers if n <= cut), default=None)
        following = min((n for n in numbers if n > cut), default=None)
        for number in (n for n in (last, following) if n is not None):
            for part in _parts([c for c in self._base.changes if c.transaction == number]):
                rows = {**self._cursor.move_to(number - 1), **{change.record: change.value for change in part}}
                if self._is_view_of({r: v for r, v in rows.items() if v is not None}, actual):
                    names = ", ".join(format_value(change.record) for change in part)
                    return f"the state reflects only part of transaction {number}: {names}"
        for near_cut in ([] if last is None else [last - 1]) + ([] if following is None else [following]):
            if self._is_view_of(self._cursor.move_to(near_cut), actual):
                return f"the state is the view at cut {near_cut}, not at the cut it claims"
        return None

    def _is_view_of(self, rows: Rows, actual: Mapping[Any, Value]) -> bool:
        return self._differing_key(self._compute(rows), actual) is None


def _cuts(view: ViewHistory) -> Iterator[int]:
    for number, state in enumerate(view.states):
        if state.cut is None:
            raise BadHistory(name=view.name, reason=f"state {number} has no cut; check with certificates=False")
        yield state.cut


def _parts(changes: Sequence[Change]) -> list[Sequence[Change]]:
    """Some proper prefixes and suffixes of a transaction's changes."""
    places = range(1, len(changes))[: PARTS // 2]
    return [part for at in places for part in (changes[:at], changes[at:])]


def _cut_that_goes_back(view: ViewHistory, cuts: Sequence[int]) -> Witness | None:
    for number, (before, after) in enumerate(pairwise(cuts)):
        if after < before:
            states = [shown_in(view, number), shown_in(view, number + 1)]
            return Witness(Level.STRONG, view.name, None, states, f"the cut goes back from {before} to {after}", True)
    return None


def _skipped_transaction(base: BaseHistory, view: ViewHistory, cuts: Sequence[int]) -> Witness | None:
    shown_cuts = set(cuts)
    for change in base.changes:
        if change.transaction not in shown_cuts:
            reason = f"no state shows the view right after transaction {change.transaction}"
            return Witness(Level.COMPLETE, view.name, None, [], reason, True)
    return None


def check_snapshots(views: Sequence[ViewHistory]) -> tuple[bool | None, Witness | None]:
    """Whether views published in one epoch have the same cut, and a witness for the earliest epoch where they differ.

    The first value is None if no two views were published together.
    """
    cuts: dict[int, tuple[str, int | None]] = {}
    mismatches: dict[int, Witness] = {}
    compared = False
    for view in views:
        for number, state in enumerate(view.states):
            if state.epoch is None:
                continue
            name, cut = cuts.setdefault(state.epoch, (view.name, state.cut))
            compared = compared or name != view.name
            if cut != state.cut and state.epoch not in mismatches:
                reason = f"in epoch {state.epoch}, view {name} is at cut {cut} but view {view.name} is at {state.cut}"
                mismatches[state.epoch] = Witness(None, view.name, None, [shown_in(view, number)], reason, True)
    return (not mismatches if compared or mismatches else None), (mismatches[min(mismatches)] if mismatches else None)
