"""The checker of histories with certificates: every view state names the cut that it claims to be the view of.

    convergent   the last state     = View(base tables after the last transaction)
    weak         each state         = View(base tables after the transactions up to its cut)
    strong       cut of a state     ≤ cut of the next
    complete     every transaction is some state's cut

A cut is a number of transactions, so no right state holds a part of one. The base states at rising cuts are one
sequence, so a history that is strong here is strong in every sense of `search.py`, and of the view as a whole
rather than of each record. The converse does not hold: what is judged is the certificates, and a state with a wrong one
may yet be the view of some base state.

The base rows are walked along with the states, and the view is computed once per state: the cost is that of
computing the views, and linear in the size of the history otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from tailrace.errors import BadHistory
from tailrace.verify.equality import alike
from tailrace.verify.history.timelines import BaseHistory, Change, Definition, Key, Rows, Value, ViewHistory
from tailrace.verify.history.verdict import Level, ViewVerdict, Witness, named, shown, shown_in

PARTS = 8
"""Of how many parts of a transaction it is tried whether they explain a wrong state."""


class Walk:
    """The base rows after any number of changes; a step costs what lies between."""

    def __init__(self, base: BaseHistory) -> None:
        self._changes = base.changes
        self._rows = {record: value for record, value in base.initial.items() if value is not None}
        self._before: list[Value] = []

    def to(self, cut: float) -> Rows:
        """The rows after the transactions up to a cut. They change with the next step."""
        while self._ahead(cut):
            change = self._changes[len(self._before)]
            self._before.append(self._rows.get(change.record))
            self._set(change, change.value)
        while self._behind(cut):
            change = self._changes[len(self._before) - 1]
            self._set(change, self._before.pop())
        return MappingProxyType(self._rows)

    def moves(self, cut: float) -> bool:
        """Whether the rows at a cut are others than now."""
        return self._ahead(cut) or self._behind(cut)

    def _ahead(self, cut: float) -> bool:
        done = len(self._before)
        return done < len(self._changes) and self._changes[done].transaction <= cut

    def _behind(self, cut: float) -> bool:
        return bool(self._before) and self._changes[len(self._before) - 1].transaction > cut

    def _set(self, change: Change, value: Value) -> None:
        if value is None:
            self._rows.pop(change.record, None)
        else:
            self._rows[change.record] = value


def check_certified(base: BaseHistory, view: ViewHistory, definition: Definition, tolerance: float) -> ViewVerdict:
    """The level that the certificates of a view's states prove."""
    run = _Run(base, view, definition, tolerance)
    wrong = run.first_wrong()
    found = [run.unconverged(), wrong, _going_back(view, run.cuts), _left_out(base, view, run.cuts)]
    witnesses = tuple(w for w in found if w is not None)
    level = Level(min((w.level for w in witnesses if w.level is not None), default=Level.COMPLETE + 1) - 1)
    return ViewVerdict(view.name, level, level, witnesses, run.looked_at)


class _Run:
    """One pass over a view's states, beside the base rows at their cuts."""

    def __init__(self, base: BaseHistory, view: ViewHistory, definition: Definition, tolerance: float) -> None:
        self.looked_at = 0
        self.cuts = list(_cuts(view))
        self._base, self._view, self._definition, self._tolerance = base, view, definition, tolerance
        self._walk = Walk(base)
        self._right: Mapping[Any, Value] | None = None

    def first_wrong(self) -> Witness | None:
        """The first state that is not the view at its cut."""
        for number, now in enumerate(self._view.contents()):
            cut = self.cuts[number]
            right = self._at(cut)
            if (key := self._difference(right, now)) is not None:
                why = self._explained(cut, now) or f"at this cut the view's definition gives {shown(right.get(*key))}"
                return Witness(Level.WEAK, self._view.name, *key, [shown_in(self._view, number, now.get(*key))], why)
        return None

    def unconverged(self) -> Witness | None:
        """The last state, if it is not the view of the last base state."""
        *_, now = self._view.contents()
        right = self._at(math.inf)
        if (key := self._difference(right, now)) is None:
            return None
        state = shown_in(self._view, len(self.cuts) - 1, now.get(*key))
        last = self._base.changes[-1].transaction if self._base.changes else self.cuts[-1]
        why = f"after the last transaction ({last}) the view's definition gives {shown(right.get(*key))}"
        return Witness(Level.CONVERGENT, self._view.name, *key, [state], why)

    def _at(self, cut: float) -> Mapping[Any, Value]:
        """The view at a cut; as it was if nothing has changed since the cut before."""
        if self._right is None or self._walk.moves(cut):
            self._right = self._compute(self._walk.to(cut))
        return self._right

    def _compute(self, rows: Rows) -> Mapping[Any, Value]:
        self.looked_at += 1
        return self._view.observed(self._definition(rows))

    def _difference(self, right: Mapping[Any, Value], now: Mapping[Any, Value]) -> tuple[Key] | None:
        """A key with different rows; in a tuple, as None is a key too."""
        if len(right) == len(now) and right == now:
            return None
        keys = dict.fromkeys([*right, *now])
        return next(((k,) for k in keys if not alike(right.get(k), now.get(k), self._tolerance)), None)

    def _explained(self, cut: int, now: Mapping[Any, Value]) -> str | None:
        """What a wrong state is the view of, if it is near: a part of a transaction, or a transaction more or less."""
        self._right = None
        numbers = [change.transaction for change in self._base.changes]
        last = max((n for n in numbers if n <= cut), default=None)
        following = min((n for n in numbers if n > cut), default=None)
        for number in (n for n in (last, following) if n is not None):
            for part in _parts([c for c in self._base.changes if c.transaction == number]):
                rows = {**self._walk.to(number - 1), **{change.record: change.value for change in part}}
                if self._is_view_of({r: v for r, v in rows.items() if v is not None}, now):
                    names = ", ".join(named(change.record) for change in part)
                    return f"it holds a part of transaction {number} only: {names}"
        for other in ([] if last is None else [last - 1]) + ([] if following is None else [following]):
            if self._is_view_of(self._walk.to(other), now):
                return f"it is the view at cut {other}, and not at the one that it names"
        return None

    def _is_view_of(self, rows: Rows, now: Mapping[Any, Value]) -> bool:
        return self._difference(self._compute(rows), now) is None


def _cuts(view: ViewHistory) -> Iterator[int]:
    for number, state in enumerate(view.states):
        if state.cut is None:
            raise BadHistory(name=view.name, reason=f"state {number} names no cut; check it without certificates")
        yield state.cut


def _parts(changes: Sequence[Change]) -> list[Sequence[Change]]:
    """Some parts of a transaction that are not all of it: from its start, and to its end."""
    places = range(1, len(changes))[: PARTS // 2]
    return [part for at in places for part in (changes[:at], changes[at:])]


def _going_back(view: ViewHistory, cuts: Sequence[int]) -> Witness | None:
    for number, (before, after) in enumerate(pairwise(cuts)):
        if after < before:
            states = [shown_in(view, number), shown_in(view, number + 1)]
            return Witness(Level.STRONG, view.name, None, states, f"cut {after} comes after cut {before}", True)
    return None


def _left_out(base: BaseHistory, view: ViewHistory, cuts: Sequence[int]) -> Witness | None:
    seen = set(cuts)
    for change in base.changes:
        if change.transaction not in seen:
            reason = f"no state is the view at transaction {change.transaction}"
            return Witness(Level.COMPLETE, view.name, None, [], reason, True)
    return None


def one_cut(views: Sequence[ViewHistory]) -> tuple[bool | None, Witness | None]:
    """Whether views that were published together name one cut, and the earliest epoch in which they do not.

    None if no two views were published together.
    """
    cuts: dict[int, tuple[str, int | None]] = {}
    wrong: dict[int, Witness] = {}
    compared = False
    for view in views:
        for number, state in enumerate(view.states):
            if state.epoch is None:
                continue
            name, cut = cuts.setdefault(state.epoch, (view.name, state.cut))
            compared = compared or name != view.name
            if cut != state.cut and state.epoch not in wrong:
                reason = f"in epoch {state.epoch} view {name} is at cut {cut}, and view {view.name} at cut {state.cut}"
                wrong[state.epoch] = Witness(None, view.name, None, [shown_in(view, number)], reason, True)
    return (not wrong if compared or wrong else None), (wrong[min(wrong)] if wrong else None)
