"""The levels of one view record: do base states explain its states, and in the same order?

    pairs       weak     each state is the value at some base state
                strong   any two states are the values at two base states in the same order
                complete the value at every base state is some state
    sequence    weak     some sequence of rising base states gives all states, in any order
                strong   some sequence of rising base states gives all states in their order
                complete applying all changes one at a time, in some order, gives exactly these states

The models differ: three states may be explained in pairs, but not all three by one sequence. `PAIRS` is exactly the
definition of Jacobsen, Lee and Yerneni, which asks for pairs only, not for longer chains. `SEQUENCE` is the definition
of the view maintenance system VMS; its complete level is easier to reach.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from functools import cached_property
from itertools import groupby

from tailrace.verify.equality import alike
from tailrace.verify.history.orders import explained_prefix, in_one_sequence, step_by_step, values_before
from tailrace.verify.history.reasons import no_order, no_such_value, wrong_order
from tailrace.verify.history.space import BoundHit, Point, Slice
from tailrace.verify.history.timelines import Key, Value, ViewHistory
from tailrace.verify.history.verdict import Level, Witness, shown_in


class Model(Enum):
    """The definition of the levels: by pairs of states, or by one sequence for all states."""

    PAIRS = "pairs"
    SEQUENCE = "sequence"


class RecordHistory:
    """A view record's successive values, and the base states evaluated so far that give them."""

    def __init__(
        self,
        view: ViewHistory,
        key: Key,
        timeline: Sequence[tuple[int, Value]],
        part: Slice,
        model: Model,
        tolerance: float,
    ) -> None:
        self.part = part
        self._view, self._key, self._timeline, self._model, self._tolerance = view, key, timeline, model, tolerance
        self._points: dict[Point, int | None] = {}

    def search(self) -> bool:
        """Evaluates base states until they explain the states in order.

        Returns False if all base states were evaluated, or the bound was hit, without an explanation.
        """
        if self.is_strong():
            return True
        next_test = 2 * len(self.part.values)  # testing after each doubling keeps the tests cheap
        with suppress(BoundHit):
            for _ in self.part.explore():
                if len(self.part.values) >= next_test:
                    next_test *= 2
                    if self.is_strong():
                        return True
        return self.is_strong()

    def is_weak(self) -> bool:
        """Whether the evaluated base states explain all states, in any order."""
        if self._model is Model.SEQUENCE:
            return in_one_sequence(self._numbered(), len(self._values))
        return self._valid() == set(self._states)

    def is_strong(self) -> bool:
        """Whether the evaluated base states explain all states, in their order."""
        if self._is_as_written() or not self._is_out_of_order(range(len(self._states))):
            return True
        return self._model is Model.PAIRS and self._valid() == set(self._states) and self._misplaced_pair() is None

    def is_complete(self) -> bool:
        """Whether applying all changes one by one can give exactly these states.

        Requires that all base states were evaluated.
        """
        return step_by_step(self._numbered(), self._states, self.part.last)

    def not_weak(self) -> Witness:
        """The smallest set of states that no base states explain. Requires that all base states were evaluated."""
        valid = self._valid()
        for n, state in enumerate(self._states):
            if state not in valid:
                return self._witness(Level.WEAK, [n], no_such_value(self.part))
        before = values_before(self._numbered())
        for late in range(len(self._states)):
            for early in range(late - 1, -1, -1):
                first, second = self._states[early], self._states[late]
                if not (before[second] >> first & 1 or before[first] >> second & 1):
                    return self._witness(Level.WEAK, [early, late], self._reason(no_order, first, second))
        fewest = self._fewest(range(len(self._states)), lambda chosen: not self._is_one_sequence(chosen))
        return self._witness(Level.WEAK, fewest, "no sequence of base states gives all of these values")

    def not_strong(self) -> Witness | None:
        """The smallest set of states that base states explain, but not in this order.

        Returns None if the states that base states explain are in order.
        """
        if pair := self._misplaced_pair():
            early, late = pair
            return self._witness(Level.STRONG, pair, self._reason(wrong_order, self._states[early], self._states[late]))
        valid = self._valid()
        chosen = [n for n, state in enumerate(self._states) if state in valid]
        if self._model is Model.PAIRS or not self._is_out_of_order(chosen):
            return None
        reason = (
            "each pair of these values can occur in this order,"
            " but no sequence of base states gives all of them in this order"
        )
        return self._witness(Level.STRONG, self._fewest(chosen, self._is_out_of_order), reason)

    def not_complete(self) -> Witness:
        reason = "applying the changes one at a time, in any order, gives states that are missing here"
        return self._witness(Level.COMPLETE, range(len(self._timeline)), reason)

    @cached_property
    def _values(self) -> list[Value]:
        """The record's distinct values."""
        values: list[Value] = []
        for _, value in self._timeline:
            if self._number(value, values) is None:
                values.append(value)
        return values

    @cached_property
    def _states(self) -> list[int]:
        """The record's states, each as the number of its value."""
        return [n for _, value in self._timeline if (n := self._number(value, self._values)) is not None]

    def _number(self, value: Value, values: Sequence[Value]) -> int | None:
        return next((n for n, known in enumerate(values) if alike(known, value, self._tolerance)), None)

    def _numbered(self) -> dict[Point, int | None]:
        """The evaluated points, each with the number of its value; None if the record never showed that value."""
        for point, value in self.part.values.items():
            if point not in self._points:
                self._points[point] = self._number(value, self._values)
        return self._points

    def _is_as_written(self) -> bool:
        """Whether the base states in the order of the changes explain the states."""
        done, values = 0, [value for _, value in self._timeline]
        for value in self.part.as_written:
            if done < len(values) and alike(value, values[done], self._tolerance):
                done += 1
        return done == len(values)

    def _valid(self) -> set[int]:
        """The values that some evaluated base state gives."""
        return {value for value in self._numbered().values() if value is not None}

    def _misplaced_pair(self) -> tuple[int, int] | None:
        """Two states that base states explain, but not in this order; the pair that could be noticed first."""
        before = values_before(self._numbered())
        for late, second in enumerate(self._states):
            for early in range(late - 1, -1, -1):
                first = self._states[early]
                if first in before and second in before and not before[second] >> first & 1:
                    return early, late
        return None

    def _is_out_of_order(self, chosen: Sequence[int]) -> bool:
        states = [state for state, _ in groupby(self._states[n] for n in chosen)]
        return explained_prefix(self._numbered(), states) < len(states)

    def _is_one_sequence(self, chosen: Sequence[int]) -> bool:
        numbers = {value: n for n, value in enumerate(sorted({self._states[n] for n in chosen}))}
        points = {p: None if v is None else numbers.get(v) for p, v in self._numbered().items()}
        return in_one_sequence(points, len(numbers))

    def _fewest(self, states: Sequence[int], is_wrong: Callable[[Sequence[int]], bool]) -> list[int]:
        """A minimal subset of the states that is still wrong, taken from the shortest wrong prefix."""
        end = next(n for n in range(1, len(states) + 1) if is_wrong(states[:n]))
        chosen = list(states[:end])
        for state in list(chosen):
            rest = [n for n in chosen if n != state]
            if is_wrong(rest):
                chosen = rest
        return chosen

    def _reason(self, describe: Callable[[Slice, list[Point], list[Point]], str], first: int, second: int) -> str:
        points = self._numbered()
        first_points, second_points = ([p for p, v in points.items() if v == value] for value in (first, second))
        return describe(self.part, first_points, second_points)

    def _witness(self, level: Level, chosen: Sequence[int], reason: str) -> Witness:
        return Witness(
            level, self._view.name, self._key, [shown_in(self._view, *self._timeline[n]) for n in chosen], reason
        )
