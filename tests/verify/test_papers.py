"""The checker gives the published verdicts for the examples of the papers that define the model.

WDP is "Consistency Results For View Maintenance On Web Data Platforms" (Jacobsen, Lee, Yerneni 2009), VMS is the paper
on the view maintenance system VMS; numbers are their sections. A base row is a tuple of all columns, a view row a tuple
of the columns outside its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tailrace.verify.history.checker import check
from tailrace.verify.history.record_levels import Model
from tailrace.verify.history.timelines import BaseHistory, Change, Definition, Rows, ViewHistory, ViewState
from tailrace.verify.history.verdict import Level, Verdict


def base(
    initial: Sequence[tuple[str, tuple[Any, ...]]], *changes: tuple[str, str, tuple[Any, ...] | None]
) -> BaseHistory:
    """A base history: rows keyed by their first column, and changes (table, key, row), each in its own transaction."""
    numbered = [Change(n, (table, key), row) for n, (table, key, row) in enumerate(changes, 1)]
    return BaseHistory({(table, row[0]): row for table, row in initial}, numbered)


def judge(history: BaseHistory, definition: Definition, *states: dict[Any, Any], model: Model = Model.PAIRS) -> Verdict:
    view = ViewHistory("D", [ViewState(state, whole=True) for state in states])
    return check(history, [view], {"D": definition}, certificates=False, model=model)


def levels_missed(verdict: Verdict) -> list[Level | None]:
    return [witness.level for witness in verdict.views["D"].witnesses]


def of(rows: Rows, table: str) -> list[Any]:
    return [row for (name, _), row in rows.items() if name == table]


def sum_by_x(rows: Rows) -> dict[Any, int]:
    """SELECT X, SUM(Y) FROM R GROUP BY X"""
    sums: dict[Any, int] = {}
    for _, x, y in of(rows, "R"):
        sums[x] = sums.get(x, 0) + y
    return sums


def min_by_x(rows: Rows) -> dict[Any, int]:
    """SELECT X, MIN(Y) FROM R GROUP BY X"""
    minima: dict[Any, int] = {}
    for _, x, y in of(rows, "R"):
        minima[x] = min(y, minima.get(x, y))
    return minima


def below_25(rows: Rows) -> dict[Any, Any]:
    """SELECT K, X, Y FROM R WHERE Y < 25"""
    return {k: (x, y) for k, x, y in of(rows, "R") if y < 25}


def everything(rows: Rows) -> dict[Any, Any]:
    """SELECT K, X, Y FROM R"""
    return {k: (x, y) for k, x, y in of(rows, "R")}


def join(rows: Rows) -> dict[Any, Any]:
    """SELECT X, Y, Z FROM R JOIN S USING (Y)"""
    return {x: (y, z) for x, y in of(rows, "R") for joined_y, z in of(rows, "S") if y == joined_y}


def intersect(rows: Rows) -> dict[Any, Any]:
    """SELECT K, X FROM R INTERSECT SELECT K, X FROM S; one record for each K"""
    return {k: x for k, x in of(rows, "R") if (k, x) in of(rows, "S")}


def counted(rows: Rows) -> dict[Any, int]:
    """SELECT K, X, COUNT(*) FROM (R UNION ALL S) GROUP BY K, X"""
    both = of(rows, "R") + of(rows, "S")
    return {row: both.count(row) for row in both}


class TestBaseStates:
    """WDP 1.1: the base states of a table of friends."""

    FRIENDS = BaseHistory(
        {("Friends", ("u3", "u2")): True},
        [
            Change(1, ("Friends", ("u3", "u5")), True),
            Change(2, ("Friends", ("u3", "u2")), None),
            Change(3, ("Friends", ("u3", "u1")), True),
        ],
    )

    def between(self) -> list[set[Any]]:
        first, last = self.FRIENDS.first, self.FRIENDS.last
        inner = [state for state in self.FRIENDS.states() if state not in (first, last)]
        assert all(first <= state <= last for state in inner)
        return [{key for _, key in state.rows} for state in inner]

    def test_first_and_last(self) -> None:
        assert self.FRIENDS.first.rows.keys() == {("Friends", ("u3", "u2"))}
        assert self.FRIENDS.last.rows.keys() == {("Friends", ("u3", "u5")), ("Friends", ("u3", "u1"))}

    def test_the_states_between_first_and_last(self) -> None:
        between = self.between()
        assert {("u3", "u5")} in between
        assert {("u3", "u5"), ("u3", "u2")} in between
        assert len(between) == 2**3 - 2

    def test_the_last_insert_alone_is_a_base_state(self) -> None:
        assert {("u3", "u1")} in self.between()

    def test_a_row_that_never_existed_is_in_no_base_state(self) -> None:
        assert {("u3", "u4")} not in self.between()

    def test_some_base_states_are_not_ordered(self) -> None:
        first, deleted = self.FRIENDS.at(1), next(s for s in self.FRIENDS.states() if not s.rows)
        assert not first <= deleted
        assert not deleted <= first


class TestLostUpdate:
    """WDP 1.3, example 1: two updates propagated concurrently without isolation."""

    HISTORY = base(
        [("R", ("k1", "x1", 100)), ("R", ("k2", "x1", 200)), ("R", ("k3", "x2", 300)), ("R", ("k4", "x2", 400))],
        ("R", "k2", ("k2", "x2", 200)),
        ("R", "k4", ("k4", "x1", 400)),
    )

    def test_it_does_not_converge(self) -> None:
        states = [{"x1": 300, "x2": 700}, {"x1": 100, "x2": 900}, {"x1": 700, "x2": 300}]
        verdict = judge(self.HISTORY, sum_by_x, *states)
        assert verdict.level == Level.NONE
        assert verdict.witness is not None
        assert (verdict.witness.level, verdict.witness.key) == (Level.CONVERGENT, "x1")
        assert "500" in verdict.witness.reason

    def test_with_isolation_it_is_strong(self) -> None:
        states = [{"x1": 300, "x2": 700}, {"x1": 100, "x2": 900}, {"x1": 500, "x2": 500}]
        assert judge(self.HISTORY, sum_by_x, *states).level == Level.STRONG


class TestRepeatedUpdate:
    """WDP 1.3, example 2: an insert is propagated again after a failure."""

    HISTORY = base([("R", ("k1", "x1", 100)), ("R", ("k2", "x1", 200))], ("R", "k3", ("k3", "x1", 100)))

    def test_the_state_is_invalid(self) -> None:
        verdict = judge(self.HISTORY, sum_by_x, {"x1": 300}, {"x1": 400}, {"x1": 500})
        assert verdict.level < Level.WEAK
        weak = next(w for w in verdict.views["D"].witnesses if w.level == Level.WEAK)
        assert [(s.state, s.value) for s in weak.states] == [(2, 500)]
        assert weak.reason == "no base state gives this value; base states give 300 or 400"

    def test_it_stays_invalid_even_if_it_is_corrected_later(self) -> None:
        verdict = judge(self.HISTORY, sum_by_x, {"x1": 300}, {"x1": 400}, {"x1": 500}, {"x1": 400})
        assert verdict.level == Level.CONVERGENT
        assert levels_missed(verdict) == [Level.WEAK]


class TestOutOfOrder:
    """WDP 1.3, example 3: updates of one record overtake each other."""

    HISTORY = base(
        [("R", ("k1", "x1", 5))],
        ("R", "k1", ("k1", "x1", 10)),
        ("R", "k1", ("k1", "x1", 20)),
        ("R", "k1", ("k1", "x1", 15)),
    )

    def states(self, *ys: int) -> Verdict:
        return judge(self.HISTORY, below_25, *({"k1": ("x1", y)} for y in ys))

    def test_weak_but_not_strong(self) -> None:
        verdict = self.states(5, 20, 10, 15)
        assert verdict.level == Level.WEAK
        assert verdict.witness is not None
        assert [(s.state, s.value) for s in verdict.witness.states] == [(1, ("x1", 20)), (2, ("x1", 10))]

    def test_the_variation_that_does_not_converge(self) -> None:
        assert self.states(5, 10, 15, 20).level == Level.NONE

    def test_in_order(self) -> None:
        assert self.states(5, 10, 20, 15).level == Level.COMPLETE
        assert self.states(5, 20, 15).level == Level.STRONG


class TestSum:
    """WDP 2.1.2, footnote 4: a state is explained only together with operations on other view records."""

    HISTORY = base(
        [],
        ("R", "k1", ("k1", "x2", 2)),
        ("R", "k1", None),
        ("R", "k1", ("k1", "x1", 1)),
        ("R", "k1", None),
        ("R", "k1", ("k1", "x1", 1)),
    )

    def test_the_base_state_keeps_the_timeline(self) -> None:
        explaining = [state for state in self.HISTORY.states() if sum_by_x(state.rows) == {"x1": 1}]
        assert [state.versions for state in explaining] == [(3,), (5,)]

    def test_strong(self) -> None:
        verdict = judge(self.HISTORY, sum_by_x, {}, {"x1": 1}, {}, {"x1": 1})
        assert verdict.level == Level.STRONG


class TestMin:
    """WDP 2.1.3: a minimum is sometimes looked up in base rows newer than the change."""

    HISTORY = base(
        [("R", ("k1", "x1", 4))],
        ("R", "k1", None),
        ("R", "k2", ("k2", "x1", 2)),
        ("R", "k2", ("k2", "x1", 5)),
    )

    def test_weak_but_not_strong(self) -> None:
        verdict = judge(self.HISTORY, min_by_x, {"x1": 4}, {"x1": 5}, {"x1": 2}, {"x1": 5})
        assert verdict.level == Level.WEAK
        assert verdict.witness is not None
        assert [s.value for s in verdict.witness.states] == [5, 2]

    def test_looking_it_up_always_is_strong(self) -> None:
        assert judge(self.HISTORY, min_by_x, {"x1": 4}, {"x1": 5}, {"x1": 5}, {"x1": 5}).level == Level.STRONG


class TestForeignKeyJoin:
    """WDP 2.2: the other side of a join is looked up in base rows newer than the change."""

    HISTORY = base([("S", ("y", "z"))], ("R", "x", ("x", "y")), ("S", "y", ("y", "z''")), ("S", "y", ("y", "z'''")))

    def test_weak_but_not_strong(self) -> None:
        states = [{}, {"x": ("y", "z'''")}, {"x": ("y", "z''")}, {"x": ("y", "z'''")}]
        verdict = judge(self.HISTORY, join, *states)
        assert verdict.level == Level.WEAK
        assert verdict.witness is not None
        assert [s.value for s in verdict.witness.states] == [("y", "z'''"), ("y", "z''")]

    def test_as_written_it_is_strong(self) -> None:
        states = [{}, {"x": ("y", "z")}, {"x": ("y", "z''")}, {"x": ("y", "z'''")}]
        assert judge(self.HISTORY, join, *states).level >= Level.STRONG


class TestFlowControl:
    """WDP 2.3: a selection view whose updates of one record are not propagated in order."""

    HISTORY = base([("R", ("k1", "x1", "y1"))], ("R", "k1", ("k1", "x1", "y2")), ("R", "k1", ("k1", "x2", "y2")))

    def states(self, *rows: tuple[str, str]) -> Verdict:
        return judge(self.HISTORY, everything, *({"k1": row} for row in rows))

    def test_in_order(self) -> None:
        assert self.states(("x1", "y1"), ("x1", "y2"), ("x2", "y2")).level >= Level.STRONG

    def test_changed_fields_out_of_order_converge_through_an_invalid_state(self) -> None:
        verdict = self.states(("x1", "y1"), ("x2", "y1"), ("x2", "y2"))
        assert verdict.level == Level.CONVERGENT
        assert verdict.witness is not None
        assert [s.value for s in verdict.witness.states] == [("x2", "y1")]

    def test_whole_records_out_of_order_do_not_converge(self) -> None:
        assert self.states(("x1", "y1"), ("x2", "y2"), ("x1", "y2")).level == Level.NONE


class TestSetOperations:
    """WDP 2.4: an intersection, maintained by lookups in base rows or by counts."""

    HISTORY = base(
        [("R", ("k1", "x1"))],
        ("S", "k1", ("k1", "x3")),
        ("R", "k1", ("k1", "x2")),
        ("R", "k1", ("k1", "x3")),
        ("S", "k1", ("k1", "x2")),
    )

    def test_counts(self) -> None:
        tables = base([("R", ("k1", "x1")), ("R", ("k2", "x2")), ("S", ("k1", "x2")), ("S", ("k2", "x2"))])
        assert counted(tables.first.rows) == {("k1", "x1"): 1, ("k1", "x2"): 1, ("k2", "x2"): 2}

    def test_by_base_rows_it_is_weak_but_not_strong(self) -> None:
        verdict = judge(self.HISTORY, intersect, {}, {"k1": "x3"}, {"k1": "x2"}, {}, {})
        assert verdict.level == Level.WEAK
        assert verdict.witness is not None
        assert [s.value for s in verdict.witness.states] == ["x3", "x2"]

    def test_with_each_tuple_as_its_own_record_it_is_strong(self) -> None:
        """The model compares records, not views: the paper's verdict is about the record k1."""

        def tuples(rows: Rows) -> dict[Any, bool]:
            return dict.fromkeys(intersect(rows).items(), True)

        states: list[dict[Any, Any]] = [{}, {("k1", "x3"): True}, {("k1", "x2"): True}, {}, {}]
        assert judge(self.HISTORY, tuples, *states).level >= Level.STRONG

    def test_by_counts_it_is_strong(self) -> None:
        x1, x2, x3 = (("k1", x) for x in ("x1", "x2", "x3"))
        states: list[dict[Any, Any]] = [{x1: 1}, {x1: 1, x3: 1}, {x2: 1, x3: 1}, {x3: 2}, {x3: 1, x2: 1}]
        assert judge(self.HISTORY, counted, *states).level == Level.STRONG
        whole = [{"k1": state} for state in states]
        assert judge(self.HISTORY, lambda rows: {"k1": counted(rows)}, *whole).level == Level.STRONG

    def test_the_exact_result_is_strong(self) -> None:
        assert judge(self.HISTORY, intersect, {}, {}, {}, {"k1": "x3"}, {}).level == Level.STRONG


class TestViewStates:
    """VMS 3, example 1 and figure 3: all possible states of a sum, and the sequences through them.

    VMS asks for one sequence of operations that explains all view states; WDP explains them in pairs.
    """

    HISTORY = base(
        [("B", ("k1", "x1", 15))], ("B", "k1", ("k1", "x1", 20)), ("B", "k2", ("k2", "x1", 10)), ("B", "k1", None)
    )
    V0, V1, V2, V3, V4, VF = 15, 20, 25, 30, None, 10

    def judge(self, *sums: int | None, model: Model = Model.SEQUENCE) -> Verdict:
        def total(rows: Rows) -> dict[Any, int]:
            return {x: sum(row[2] for row in of(rows, "B") if row[1] == x) for _, x, _ in of(rows, "B")}

        return judge(self.HISTORY, total, *({} if s is None else {"x1": s} for s in sums), model=model)

    def test_the_graph(self) -> None:
        values = {state.versions: sum(row[2] for row in state.rows.values()) or None for state in self.HISTORY.states()}
        assert values == {
            (0, 0): self.V0,
            (1, 0): self.V1,
            (0, 1): self.V2,
            (1, 1): self.V3,
            (2, 0): self.V4,
            (2, 1): self.VF,
        }

    @pytest.mark.parametrize("model", Model)
    def test_convergence(self, model: Model) -> None:
        assert self.judge(self.V0, self.VF, model=model).level >= Level.CONVERGENT
        assert self.judge(self.V0, self.V1, self.V3, model=model).level == Level.NONE

    def test_states_of_one_sequence_are_weak(self) -> None:
        assert self.judge(self.V0, self.V1, self.V4, self.VF).level >= Level.WEAK
        assert self.judge(self.V0, self.V4, self.V1, self.VF).level == Level.WEAK

    def test_states_of_different_sequences_are_not_weak(self) -> None:
        verdict = self.judge(self.V0, self.V2, self.V4, self.VF)
        assert verdict.level == Level.CONVERGENT
        assert verdict.witness is not None
        assert [s.value for s in verdict.witness.states] == [self.V2, self.V4]

    def test_in_pairs_they_are_weak_and_not_strong(self) -> None:
        assert self.judge(self.V0, self.V2, self.V4, self.VF, model=Model.PAIRS).level == Level.WEAK

    @pytest.mark.parametrize("model", Model)
    def test_strong_is_in_the_order_of_the_sequence(self, model: Model) -> None:
        assert self.judge(self.V0, self.V1, self.V4, self.VF, model=model).level >= Level.STRONG
        assert self.judge(self.V0, self.V4, self.V1, self.VF, model=model).level == Level.WEAK

    def test_complete_skips_no_state_of_the_sequence(self) -> None:
        assert self.judge(self.V0, self.V1, self.V4, self.VF).level == Level.COMPLETE
        assert self.judge(self.V0, self.V1, self.V3, self.VF).level == Level.COMPLETE
        assert self.judge(self.V0, self.V2, self.V3, self.VF).level == Level.COMPLETE
        assert self.judge(self.V0, self.V1, self.VF).level == Level.STRONG

    def test_complete_by_all_base_states_needs_more(self) -> None:
        assert self.judge(self.V0, self.V1, self.V4, self.VF, model=Model.PAIRS).level == Level.STRONG

    @pytest.mark.parametrize("model", Model)
    def test_an_update_lost_without_isolation(self, model: Model) -> None:
        """VMS 3, example 2: (1) and (2) both start from 15, so the second overwrites the first."""
        verdict = self.judge(self.V0, self.V1, self.V2, 5, model=model)
        assert verdict.level == Level.NONE

    @pytest.mark.parametrize("model", Model)
    def test_a_put_after_the_delete_that_follows_it(self, model: Model) -> None:
        """VMS 3, example 3: (3) is processed before (1), so the deleted record stays in the sum forever."""
        assert self.judge(self.V0, self.V2, self.VF, self.V3, model=model).level == Level.NONE
