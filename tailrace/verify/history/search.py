"""Checks histories without certificates: searches for base states that explain each view record's states.

The search first tries the base states in the order of the changes; these explain the states of a correct engine. For
the remaining records it tries all combinations of the base records' versions. The number of combinations grows with
every base record that ever changed; the caller can limit it to the base records that matter for a view record
(`Matters`). If the bound is hit, the answer is a range of levels.

A few base states suffice to prove that a level is reached. To prove that it is missed, all base states that matter are
evaluated. Neither answer is approximate. `record_levels.py` has the definitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import product
from typing import Any

from tailrace.errors import BadHistory
from tailrace.verify.equality import alike
from tailrace.verify.history.reasons import describe_point
from tailrace.verify.history.record_levels import Model, RecordHistory
from tailrace.verify.history.space import BoundHit, Point, Space
from tailrace.verify.history.timelines import BaseHistory, Definition, Matters, Value, ViewHistory
from tailrace.verify.history.verdict import Level, ViewVerdict, Witness, format_row, shown_in


def search(
    base: BaseHistory,
    view: ViewHistory,
    definition: Definition,
    bound: int,
    tolerance: float = 0.0,
    model: Model = Model.PAIRS,
    matters: Matters | None = None,
) -> ViewVerdict:
    """The level that all records of a view reach, found by a search for base states that explain their states."""
    if bound < 1:
        reason = f"bound is {bound}; it must be at least 1"
        raise BadHistory(name=view.name, reason=reason, text=reason)
    run = _Search(base, view, definition, bound, tolerance, model, matters)
    run.check_convergence()
    run.check_order()
    if not run.witnesses:
        run.check_completeness()
    witnesses = tuple(run.witnesses[level] for level in sorted(run.witnesses))
    undecided = min(run.undecided, default=Level.COMPLETE + 1)
    missed = min(run.witnesses, default=Level.COMPLETE + 1)
    level, at_most = Level(min(undecided, missed) - 1), Level(missed - 1)
    return ViewVerdict(view.name, level, at_most, witnesses, run.space.looked_at)


class _Search:
    """Collects the best witness for each missed level, and the levels that the bound leaves undecided."""

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
        self._timelines: dict[Any, list[tuple[int, Value]]] = view.timelines(tolerance)
        self._ranks = {key: n for n, key in enumerate(self._timelines)}

    def check_convergence(self) -> None:
        """Convergent: the last state of each record = its value at the last base state."""
        expected = self.space.view_at(self.space.last)
        for key in dict.fromkeys([*self._timelines, *expected]):
            state, value = self._timeline(key)[-1]
            if not alike(value, expected.get(key), self._tolerance):
                reason = f"the last base state gives {format_row(expected.get(key))}"
                self._add(Witness(Level.CONVERGENT, self._view.name, key, [shown_in(self._view, state, value)], reason))

    def check_order(self) -> None:
        """Weak and strong, record by record. The records share the bound, so those with few base states come first."""
        with suppress(BoundHit):
            for point in self.space.as_written:
                self.space.view_at(point)
        for key in sorted(self._timelines, key=lambda key: self.space.slice(key, self._matters).size):
            record = self._record(key)
            if not record.search():
                self._judge_unexplained(record)

    def _judge_unexplained(self, record: RecordHistory) -> None:
        is_weak = record.is_weak()
        if not record.part.complete:
            self.undecided |= {Level.STRONG} if is_weak else {Level.WEAK, Level.STRONG}
            return
        if not is_weak:
            self._add(record.not_weak())
        if witness := record.not_strong():
            self._add(witness)

    def check_completeness(self) -> None:
        """Complete: no base state is skipped, by the definition of the model."""
        decided = self._find_unshown_value() if self._model is Model.PAIRS else self._find_skipped_step()
        if not self.witnesses and not decided:
            self.undecided.add(Level.COMPLETE)

    def _find_unshown_value(self) -> bool:
        """Adds a witness for a value that no state shows. Returns whether the level is decided (pairs model)."""
        for point in self._points():
            view = self.space.view_at(point)
            for key in dict.fromkeys([*self._timelines, *view]):
                value = view.get(key)
                if not any(alike(value, known, self._tolerance) for _, known in self._timeline(key)):
                    part = self.space.slice(key, None)
                    reason = f"no state shows {format_row(value)}, the value where {describe_point(part, point)}"
                    self._add(Witness(Level.COMPLETE, self._view.name, key, [], reason))
                    return True
        return self.space.looked_at == self.space.size

    def _find_skipped_step(self) -> bool:
        """Adds a witness for a record that skips a step. Returns whether the level is decided (sequence model)."""
        views: list[Mapping[Any, Value]] = [self.space.view_at(point) for point in self._points()]
        decided = self.space.looked_at == self.space.size
        for key in dict.fromkeys([*self._timelines, *(key for view in views for key in view)]):
            record = self._record(key)
            if record.part.size > self._bound:
                continue
            with suppress(BoundHit):
                for _ in record.part.explore():
                    pass
            if record.part.complete and not record.is_complete():
                self._add(record.not_complete())
                return True
        return decided

    def _points(self) -> Iterator[Point]:
        """The base states evaluated so far; then all of them, if the bound allows."""
        yield from list(self.space.seen)
        if self.space.size <= self._bound:
            yield from product(*(range(n + 1) for n in self.space.last))

    def _record(self, key: Any) -> RecordHistory:
        part = self.space.slice(key, self._matters)
        return RecordHistory(self._view, key, self._timeline(key), part, self._model, self._tolerance)

    def _timeline(self, key: Any) -> list[tuple[int, Value]]:
        return self._timelines.get(key, [(0, None)])

    def _add(self, witness: Witness) -> None:
        """Keeps one witness per level: the one with the fewest states, then the one that could be noticed first."""
        assert witness.level is not None
        known = self.witnesses.get(witness.level)
        if known is None or self._order(witness) < self._order(known):
            self.witnesses[witness.level] = witness

    def _order(self, witness: Witness) -> tuple[int, int, int]:
        noticed = max((state.state for state in witness.states), default=0)
        return len(witness.states), noticed, self._ranks.get(witness.key, len(self._ranks))
