"""One view record: do base states explain its states, and do they in order?

    pairs       weak     each state is the value at some base state
                strong   of any two states, the values at two base states in the same order
                complete the value at every base state is some state
    sequence    weak     some sequence of rising base states has all states, in whichever order
                strong   some sequence of rising base states has all states in their order
                complete making all changes one at a time, in some order, shows just these states

The two differ: of three states each two may be explained, and yet not all three by one sequence. `PAIRS` is the
definition by Jacobsen, Lee and Yerneni to the letter (no chains of three and more are asked for), `SEQUENCE` that of
the view maintenance system VMS, whose complete is the easier one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from functools import cached_property
from itertools import groupby

from tailrace.verify.equality import alike
from tailrace.verify.history.orders import explained, in_one_sequence, step_by_step, values_before
from tailrace.verify.history.reasons import no_order, no_such_value, wrong_order
from tailrace.verify.history.space import BoundHit, Point, Slice
from tailrace.verify.history.timelines import Key, Value, ViewHistory
from tailrace.verify.history.verdict import Level, Witness, shown_in


class Model(Enum):
    """Whose definition of the levels: that of pairs of states, or that of one sequence for all states."""

    PAIRS = "pairs"
    SEQUENCE = "sequence"


class RecordHistory:
    """A view record's successive values, and the base states looked at so far that give them."""

    def __init__(
        self,
        view: ViewHistory,
        key: Key,
        line: Sequence[tuple[int, Value]],
        part: Slice,
        model: Model,
        tolerance: float,
    ) -> None:
        self.part = part
        self._view, self._key, self._line, self._model, self._tolerance = view, key, line, model, tolerance
        self._points: dict[Point, int | None] = {}

    def search(self) -> bool:
        """Look at base states until they explain the states in order; not so if there are no more, or at the bound."""
        if self.is_strong():
            return True
        enough = 2 * len(self.part.values)
        with suppress(BoundHit):
            for _ in self.part.explore():
                if len(self.part.values) >= enough:
                    enough *= 2
                    if self.is_strong():
                        return True
        return self.is_strong()

    def is_weak(self) -> bool:
        """Whether the base states looked at explain all states, in whichever order."""
        if self._model is Model.SEQUENCE:
            return in_one_sequence(self._numbered(), len(self._values))
        return self._valid() == set(self._states)

    def is_strong(self) -> bool:
        """Whether the base states looked at explain all states, in their order."""
        if self._as_written() or not self._out_of_order(range(len(self._states))):
            return True
        return self._model is Model.PAIRS and self._valid() == set(self._states) and self._misplaced() is None

    def is_complete(self) -> bool:
        """Whether all changes made one by one may show just these states; all base states must have been looked at."""
        return step_by_step(self._numbered(), self._states, self.part.last)

    def not_weak(self) -> Witness:
        """The fewest states that no base states explain, once all were looked at."""
        valid = self._valid()
        for n, state in enumerate(self._states):
            if state not in valid:
                return self._witness(Level.WEAK, [n], no_such_value(self.part))
        before = values_before(self._numbered())
        for late in range(len(self._states)):
            for early in range(late - 1, -1, -1):
                one, other = self._states[early], self._states[late]
                if not (before[other] >> one & 1 or before[one] >> other & 1):
                    return self._witness(Level.WEAK, [early, late], self._because(no_order, one, other))
        fewest = self._fewest(range(len(self._states)), lambda chosen: not self._one_sequence(chosen))
        return self._witness(Level.WEAK, fewest, "no sequence of base states has all of them")

    def not_strong(self) -> Witness | None:
        """The fewest states that base states explain, but not in their order; None if the valid ones are in order."""
        if pair := self._misplaced():
            early, late = pair
            return self._witness(
                Level.STRONG, pair, self._because(wrong_order, self._states[early], self._states[late])
            )
        valid = self._valid()
        chosen = [n for n, state in enumerate(self._states) if state in valid]
        if self._model is Model.PAIRS or not self._out_of_order(chosen):
            return None
        reason = "each two of them may come in this order, but no sequence of base states has them all in it"
        return self._witness(Level.STRONG, self._fewest(chosen, self._out_of_order), reason)

    def not_complete(self) -> Witness:
        reason = "the changes, made one at a time in whichever order, show more states than these"
        return self._witness(Level.COMPLETE, range(len(self._line)), reason)

    @cached_property
    def _values(self) -> list[Value]:
        """The different values that the record had."""
        values: list[Value] = []
        for _, value in self._line:
            if self._number(value, values) is None:
                values.append(value)
        return values

    @cached_property
    def _states(self) -> list[int]:
        """The record's states, each as the number of its value."""
        return [n for _, value in self._line if (n := self._number(value, self._values)) is not None]

    def _number(self, value: Value, values: Sequence[Value]) -> int | None:
        return next((n for n, known in enumerate(values) if alike(known, value, self._tolerance)), None)

    def _numbered(self) -> dict[Point, int | None]:
        """The points looked at, with the number of the shown value that each gives."""
        for point, value in self.part.values.items():
            if point not in self._points:
                self._points[point] = self._number(value, self._values)
        return self._points

    def _as_written(self) -> bool:
        """Whether the changes explain the states in the order in which they were made."""
        done, values = 0, [value for _, value in self._line]
        for value in self.part.as_written:
            if done < len(values) and alike(value, values[done], self._tolerance):
                done += 1
        return done == len(values)

    def _valid(self) -> set[int]:
        return {value for value in self._numbered().values() if value is not None}

    def _misplaced(self) -> tuple[int, int] | None:
        """Two states with base states, but none in their order; the earliest that could be noticed."""
        before = values_before(self._numbered())
        for late, other in enumerate(self._states):
            for early in range(late - 1, -1, -1):
                one = self._states[early]
                if one in before and other in before and not before[other] >> one & 1:
                    return early, late
        return None

    def _out_of_order(self, chosen: Sequence[int]) -> bool:
        states = [state for state, _ in groupby(self._states[n] for n in chosen)]
        return explained(self._numbered(), states) < len(states)

    def _one_sequence(self, chosen: Sequence[int]) -> bool:
        numbers = {value: n for n, value in enumerate(sorted({self._states[n] for n in chosen}))}
        points = {p: None if v is None else numbers.get(v) for p, v in self._numbered().items()}
        return in_one_sequence(points, len(numbers))

    def _fewest(self, states: Sequence[int], wrong: Callable[[Sequence[int]], bool]) -> list[int]:
        """Of states that are wrong together, the earliest that are, without those that are not needed."""
        end = next(n for n in range(1, len(states) + 1) if wrong(states[:n]))
        chosen = list(states[:end])
        for state in list(chosen):
            rest = [n for n in chosen if n != state]
            if wrong(rest):
                chosen = rest
        return chosen

    def _because(self, reason: Callable[[Slice, list[Point], list[Point]], str], one: int, other: int) -> str:
        points = self._numbered()
        first, second = ([p for p, v in points.items() if v == value] for value in (one, other))
        return reason(self.part, first, second)

    def _witness(self, level: Level, chosen: Sequence[int], reason: str) -> Witness:
        return Witness(
            level, self._view.name, self._key, [shown_in(self._view, *self._line[n]) for n in chosen], reason
        )
