"""The checker of histories without certificates: it searches for base states that explain each view record's states.

First the base states in the order in which the changes were made are tried: they explain what a right engine shows.
Only records that they do not explain are searched for on, over all combinations of the base records' versions, or
of those that matter for the record if the caller says which (`Matters`). Without that hint every base record that ever
changed counts, and the number of combinations grows with each. At the bound the answer is a range of levels.

That a level is reached needs some base states only; that it is missed needs all that matter. Both answers are exact.
`records.py` has the definitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import product
from typing import Any

from tailrace.errors import BadHistory
from tailrace.verify.equality import alike
from tailrace.verify.history.reasons import place
from tailrace.verify.history.record_levels import Model, RecordHistory
from tailrace.verify.history.space import BoundHit, Point, Space
from tailrace.verify.history.timelines import BaseHistory, Definition, Matters, Value, ViewHistory
from tailrace.verify.history.verdict import Level, ViewVerdict, Witness, shown, shown_in


def search(
    base: BaseHistory,
    view: ViewHistory,
    definition: Definition,
    bound: int,
    tolerance: float = 0.0,
    model: Model = Model.PAIRS,
    matters: Matters | None = None,
) -> ViewVerdict:
    """The level that a view's records reach, by base states that explain their states."""
    if bound < 1:
        raise BadHistory(name=view.name, reason=f"a bound of {bound} base states allows for none; give a larger one")
    run = _Search(base, view, definition, bound, tolerance, model, matters)
    run.converge()
    run.explain()
    if not run.witnesses:
        run.complete()
    witnesses = tuple(run.witnesses[level] for level in sorted(run.witnesses))
    undecided = min(run.undecided, default=Level.COMPLETE + 1)
    missed = min(run.witnesses, default=Level.COMPLETE + 1)
    level, at_most = Level(min(undecided, missed) - 1), Level(missed - 1)
    return ViewVerdict(view.name, level, at_most, witnesses, run.space.looked_at)


class _Search:
    """Collects for each level the earliest witness, and the levels that the bound leaves undecided."""

    def __init__(
        self,
        base: BaseHistory,
        view: ViewHistory,
        definition: Definition,
        bound: int,
        tolerance: float,
        model: Model,
        matters: Matters | None,
    ) -> None:
        self.space = Space(base, view, definition, bound)
        self.witnesses: dict[Level, Witness] = {}
        self.undecided: set[Level] = set()
        self._view, self._bound, self._tolerance, self._model, self._matters = view, bound, tolerance, model, matters
        self._lines: dict[Any, list[tuple[int, Value]]] = view.timelines(tolerance)
        self._ranks = {key: n for n, key in enumerate(self._lines)}

    def converge(self) -> None:
        """The last state of each record = its value at the last base state."""
        right = self.space.view_at(self.space.last)
        for key in dict.fromkeys([*self._lines, *right]):
            state, value = self._line(key)[-1]
            if not alike(value, right.get(key), self._tolerance):
                reason = f"the last base state gives {shown(right.get(key))}"
                self._found(
                    Witness(Level.CONVERGENT, self._view.name, key, [shown_in(self._view, state, value)], reason)
                )

    def explain(self) -> None:
        """Weak and strong, record by record, those with the fewest base states first."""
        with suppress(BoundHit):
            for point in self.space.as_written:
                self.space.view_at(point)
        for key in sorted(self._lines, key=lambda key: self.space.slice(key, self._matters).size):
            record = self._record(key)
            if not record.search():
                self._unordered(record)

    def _unordered(self, record: RecordHistory) -> None:
        weak = record.is_weak()
        if not record.part.complete:
            self.undecided |= {Level.STRONG} if weak else {Level.WEAK, Level.STRONG}
            return
        if not weak:
            self._found(record.not_weak())
        if witness := record.not_strong():
            self._found(witness)

    def complete(self) -> None:
        """No base state is left out, by either definition."""
        known = self._all_seen() if self._model is Model.PAIRS else self._all_shown()
        if not self.witnesses and not known:
            self.undecided.add(Level.COMPLETE)

    def _all_seen(self) -> bool:
        for point in self._points():
            view = self.space.view_at(point)
            for key in dict.fromkeys([*self._lines, *view]):
                value = view.get(key)
                if not any(alike(value, known, self._tolerance) for _, known in self._line(key)):
                    part = self.space.slice(key, None)
                    reason = f"no state is {shown(value)}, as where {place(part, point)}"
                    self._found(Witness(Level.COMPLETE, self._view.name, key, [], reason))
                    return True
        return self.space.looked_at == self.space.size

    def _all_shown(self) -> bool:
        views: list[Mapping[Any, Value]] = [self.space.view_at(point) for point in self._points()]
        decided = self.space.looked_at == self.space.size
        for key in dict.fromkeys([*self._lines, *(key for view in views for key in view)]):
            record = self._record(key)
            if record.part.size > self._bound:
                continue
            with suppress(BoundHit):
                for _ in record.part.explore():
                    pass
            if record.part.complete and not record.is_complete():
                self._found(record.not_complete())
                return True
        return decided

    def _points(self) -> Iterator[Point]:
        """The base states seen, and then all others if the bound allows for them."""
        yield from list(self.space.seen)
        if self.space.size <= self._bound:
            yield from product(*(range(n + 1) for n in self.space.last))

    def _record(self, key: Any) -> RecordHistory:
        part = self.space.slice(key, self._matters)
        return RecordHistory(self._view, key, self._line(key), part, self._model, self._tolerance)

    def _line(self, key: Any) -> list[tuple[int, Value]]:
        return self._lines.get(key, [(0, None)])

    def _found(self, witness: Witness) -> None:
        """Keep a level's witness: the one with the fewest states, and of those the one that could be noticed first."""
        assert witness.level is not None
        known = self.witnesses.get(witness.level)
        if known is None or self._order(witness) < self._order(known):
            self.witnesses[witness.level] = witness

    def _order(self, witness: Witness) -> tuple[int, int, int]:
        noticed = max((state.state for state in witness.states), default=0)
        return len(witness.states), noticed, self._ranks.get(witness.key, len(self._ranks))
