"""The checker on hand-made histories: certificates, snapshots, bounds, witnesses, invalid input."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tailrace.errors import BadHistory
from tailrace.verify.equality import alike
from tailrace.verify.history.checker import check
from tailrace.verify.history.record_levels import Model
from tailrace.verify.history.timelines import BaseHistory, Change, Rows, ViewHistory, ViewState
from tailrace.verify.history.verdict import Level, ViewVerdict


def total(rows: Rows) -> dict[Any, Any]:
    """SELECT SUM(v) FROM t"""
    return {"all": sum(rows.values())}


def copy(rows: Rows) -> dict[Any, Any]:
    """SELECT key, v FROM t"""
    return {key: value for (_, key), value in rows.items()}


TRANSFERS = BaseHistory(
    {("t", "a"): 50, ("t", "b"): 50},
    [
        Change(1, ("t", "a"), 40),
        Change(1, ("t", "b"), 60),
        Change(2, ("t", "a"), 70),
        Change(2, ("t", "b"), 30),
        Change(3, ("t", "c"), 5),
    ],
)
RIGHT = [{"all": 100}, {}, {}, {"all": 105}]
VIEWS = {"total": total, "copy": copy}


def states(changes: Sequence[dict[Any, Any]], cuts: Sequence[int]) -> list[ViewState]:
    return [ViewState(c, cut, epoch) for epoch, (c, cut) in enumerate(zip(changes, cuts, strict=True))]


def judge(changes: Sequence[dict[Any, Any]], cuts: Sequence[int]) -> ViewVerdict:
    return check(TRANSFERS, [ViewHistory("total", states(changes, cuts))], VIEWS).views["total"]


class TestCertificates:
    def test_every_transaction_shown_is_complete(self) -> None:
        assert judge(RIGHT, [0, 1, 2, 3]).level == Level.COMPLETE

    def test_transactions_taken_together_are_strong(self) -> None:
        verdict = judge([{"all": 100}, {}, {"all": 105}], [0, 2, 3])
        assert verdict.level == Level.STRONG
        assert [str(w) for w in verdict.witnesses] == [
            "view total: not completely consistent\n  no state shows the view right after transaction 1"
        ]

    def test_cuts_may_lie_before_the_first_and_after_the_last_change(self) -> None:
        assert judge([{"all": 100}, {"all": 105}], [-7, 900]).level == Level.STRONG

    def test_part_of_a_transaction_is_not_weak(self) -> None:
        verdict = judge([{"all": 100}, {"all": 90}, {"all": 100}, {"all": 105}], [0, 1, 2, 3])
        assert verdict.level == Level.CONVERGENT
        assert str(verdict.witnesses[0]) == (
            "view total, record all: not weakly consistent\n"
            "  state 1 (epoch 1, cut 1): 90\n"
            "  the state reflects only part of transaction 1: (t, a)"
        )

    def test_a_state_ahead_of_its_cut_is_not_weak(self) -> None:
        verdict = judge([{"all": 100}, {"all": 105}], [0, 2])
        assert verdict.level == Level.CONVERGENT
        assert verdict.witnesses[0].reason == "the state is the view at cut 3, not at the cut it claims"

    def test_a_wrong_value_is_not_weak(self) -> None:
        verdict = judge([{"all": 100}, {"all": 1}, {"all": 105}], [0, 1, 3])
        assert verdict.witnesses[0].reason == "the view's definition gives 100 at this cut"

    def test_cuts_that_go_back_are_not_strong(self) -> None:
        verdict = judge([{"all": 100}, {"all": 105}, {"all": 100}, {"all": 105}], [0, 3, 2, 3])
        assert verdict.level == Level.WEAK
        assert str(verdict.witnesses[0]) == (
            "view total: not strongly consistent\n"
            "  state 1 (epoch 1, cut 3)\n"
            "  state 2 (epoch 2, cut 2)\n"
            "  the cut goes back from 3 to 2"
        )

    def test_a_view_that_does_not_catch_up_does_not_converge(self) -> None:
        verdict = judge([{"all": 100}, {}], [0, 2])
        assert verdict.level == Level.NONE
        assert "after the last transaction (3)" in verdict.witnesses[0].reason

    def test_the_view_is_computed_once_per_cut(self) -> None:
        changes = [Change(n, ("t", n % 10), n) for n in range(1, 3001)]
        base = BaseHistory({}, changes)
        cuts = [0, *range(7, 3001, 7), 3000, 3000, 3000]
        view = ViewHistory("copy", [ViewState(copy(base.at(cut).rows), cut, whole=True) for cut in cuts])
        verdict = check(base, [view], VIEWS)
        assert verdict.level == Level.STRONG
        assert verdict.views["copy"].looked_at == len(set(cuts))

    def test_only_observed_records_are_compared(self) -> None:
        history = ViewHistory("copy", states([{"a": 50}, {"a": 40}, {"a": 70}], [0, 1, 3]), keys=frozenset("a"))
        assert check(TRANSFERS, [history], VIEWS).level == Level.STRONG
        assert check(TRANSFERS, [history], VIEWS, certificates=False).level == Level.COMPLETE

    def test_inserted_and_deleted_rows(self) -> None:
        base = BaseHistory({("t", "a"): 1}, [Change(1, ("t", "a"), None), Change(2, ("t", "b"), 2)])
        assert (
            check(base, [ViewHistory("copy", states([{"a": 1}, {"a": None}, {"b": 2}], [0, 1, 2]))], VIEWS).level == 4
        )
        stale = check(base, [ViewHistory("copy", states([{"a": 1}, {"b": 2}], [0, 2]))], VIEWS)
        assert stale.level == Level.NONE
        assert stale.witness is not None
        assert (stale.witness.key, stale.witness.states[0].value) == ("a", 1)


class TestSnapshots:
    def judge(self, cuts: Sequence[int], epochs: Sequence[int | None]) -> Any:
        whole = [ViewState(copy(TRANSFERS.at(c).rows), c, e, whole=True) for c, e in zip(cuts, epochs, strict=True)]
        return check(TRANSFERS, [ViewHistory("total", states(RIGHT, [0, 1, 2, 3])), ViewHistory("copy", whole)], VIEWS)

    def test_views_at_the_same_cut_are_a_snapshot(self) -> None:
        verdict = self.judge([0, 2, 3], [0, 2, 3])
        assert verdict.level == Level.STRONG
        assert verdict.snapshot is True
        assert verdict.witness is None
        assert "have the same cut" in str(verdict)

    def test_views_at_different_cuts_are_no_snapshot(self) -> None:
        verdict = self.judge([0, 1, 2, 3, 3], [0, 1, 3, 4, 5])
        assert verdict.level == Level.COMPLETE
        assert verdict.snapshot is False
        assert str(verdict.witness) == (
            "view copy: not in the same snapshot as other views\n"
            "  state 2 (epoch 3, cut 2)\n"
            "  in epoch 3, view total is at cut 3 but view copy is at 2"
        )

    def test_views_never_published_together_are_not_compared(self) -> None:
        assert self.judge([0, 3], [None, None]).snapshot is None
        assert self.judge([0, 3], [10, 11]).snapshot is None


class TestSearch:
    def test_states_explained_in_pairs_but_not_by_one_sequence(self) -> None:
        """Base states and values: {a}: p, {a, b} and {c}: q, {a, c}: r.

        p comes before q by {a} ≤ {a, b}, p before r by {a} ≤ {a, c}, q before r by {c} ≤ {a, c}; never p, q, r in one
        sequence.
        """
        values = {"": "first", "a": "p", "ab": "q", "c": "q", "ac": "r", "abc": "last"}

        def zigzag(rows: Rows) -> dict[Any, Any]:
            return {"all": values.get("".join(sorted(str(key) for _, key in rows)))}

        base = BaseHistory({}, [Change(n, ("t", key), 1) for n, key in enumerate("abc")])
        view = ViewHistory("zigzag", [ViewState({"all": v}) for v in ("first", "p", "q", "r", "last")])
        pairs = check(base, [view], {"zigzag": zigzag}, certificates=False, model=Model.PAIRS)
        assert pairs.level == Level.STRONG
        sequence = check(base, [view], {"zigzag": zigzag}, certificates=False, model=Model.SEQUENCE)
        assert sequence.level == Level.CONVERGENT
        assert [[s.value for s in w.states] for w in sequence.views["zigzag"].witnesses] == [["p", "q", "r"]] * 2

    def test_a_hit_bound_gives_a_range_of_levels(self) -> None:
        base = BaseHistory({}, [Change(n, ("t", n), 1) for n in range(1, 31)])
        view = ViewHistory("total", [ViewState({"all": n}) for n in (0, 7, 7.5, 30)])
        verdict = check(base, [view], VIEWS, certificates=False, bound=500)
        assert verdict.bounded
        assert (verdict.level, verdict.at_most) == (Level.CONVERGENT, Level.STRONG)
        assert verdict.views["total"].looked_at == 500
        assert str(verdict) == (
            "view total: at least convergent, at most strongly consistent "
            "(undecided after 500 base states; raise the bound)"
        )

    def test_a_long_history_of_a_correct_engine_needs_no_search(self) -> None:
        base = BaseHistory({}, [Change(n, ("t", n % 50), n) for n in range(1, 1001)])
        view = ViewHistory("total", [ViewState(total(base.at(n).rows)) for n in (0, 100, 500, 900, 1000)])
        verdict = check(base, [view], VIEWS, certificates=False, bound=1100)
        assert verdict.level == Level.STRONG
        assert verdict.views["total"].looked_at == 1001

    def test_matters_brings_a_large_history_within_the_bound(self) -> None:
        base = BaseHistory({}, [Change(n, ("t", n % 10), n) for n in range(1, 101)])
        wrong = [{**copy(base.at(50).rows)}, {**copy(base.at(100).rows)}, {3: 33}, {3: 93}]
        view = ViewHistory("copy", [ViewState(rows) for rows in wrong])
        plain = check(base, [view], VIEWS, certificates=False, bound=500)
        assert plain.bounded
        hinted = check(
            base,
            [view],
            VIEWS,
            certificates=False,
            bound=500,
            matters={"copy": lambda key, record, _: record[1] == key},
        )
        assert not hinted.bounded
        assert hinted.level == Level.WEAK
        assert str(hinted.witness) == (
            "view copy, record 3: not strongly consistent\n"
            "  state 1: 93\n"
            "  state 2: 33\n"
            "  the first state needs t 3 at version 10 (93), the second needs it at version 4 (33)"
        )

    def test_putting_an_unchanged_row_makes_no_new_base_state(self) -> None:
        base = BaseHistory({("t", "a"): 1}, [Change(n, ("t", "a"), 1) for n in range(1, 50)])
        verdict = check(base, [ViewHistory("total", [ViewState({"all": 1})])], VIEWS, certificates=False, bound=1)
        assert verdict.level == Level.COMPLETE
        assert verdict.views["total"].looked_at == 1

    def test_a_search_does_not_check_snapshots(self) -> None:
        assert (
            check(TRANSFERS, [ViewHistory("total", states(RIGHT, [0, 1, 2, 3]))], VIEWS, certificates=False).snapshot
            is None
        )


class TestInput:
    def test_a_state_without_a_cut_is_refused(self) -> None:
        with pytest.raises(BadHistory, match=r"total: state 1 has no cut") as caught:
            check(TRANSFERS, [ViewHistory("total", [ViewState({"all": 100}, 0), ViewState({"all": 105})])], VIEWS)
        assert caught.value.name == "total"

    def test_transactions_out_of_order_are_refused(self) -> None:
        with pytest.raises(BadHistory, match="transaction 1 is listed after transaction 2"):
            BaseHistory({}, [Change(2, ("t", 1), 1), Change(1, ("t", 1), 2)])

    def test_a_view_without_states_is_refused(self) -> None:
        with pytest.raises(BadHistory, match="no states"):
            ViewHistory("total", [])

    def test_a_view_without_a_definition_is_refused(self) -> None:
        with pytest.raises(BadHistory, match="no definition"):
            check(TRANSFERS, [ViewHistory("other", [ViewState({})])], VIEWS)

    def test_an_empty_list_of_views_is_refused(self) -> None:
        with pytest.raises(BadHistory, match="invalid history of the views: there is none; give the history"):
            check(TRANSFERS, [], VIEWS)

    def test_two_views_with_one_name_are_refused(self) -> None:
        with pytest.raises(BadHistory, match="invalid history of total: it is given twice"):
            check(TRANSFERS, [ViewHistory("total", [ViewState({}, 0)])] * 2, VIEWS)

    def test_a_bound_of_zero_is_refused(self) -> None:
        with pytest.raises(BadHistory, match=r"^bound is 0; it must be at least 1$"):
            check(TRANSFERS, [ViewHistory("total", [ViewState({})])], VIEWS, certificates=False, bound=0)

    def test_a_history_without_changes_is_complete(self) -> None:
        base = BaseHistory({("t", 1): 4}, [])
        for certificates in (True, False):
            view = ViewHistory("total", [ViewState({"all": 4}, 0)])
            assert check(base, [view], VIEWS, certificates=certificates).level == Level.COMPLETE

    def test_none_is_a_valid_key(self) -> None:
        def keyless(rows: Rows) -> dict[Any, Any]:
            return {None: len(rows)}

        verdict = check(TRANSFERS, [ViewHistory("n", [ViewState({None: 7}, 3)])], {"n": keyless})
        assert verdict.witness is not None
        assert str(verdict.witness).startswith("view n, record NULL: not convergent")


@pytest.mark.parametrize(
    ("one", "other", "tolerance", "equal"),
    [
        (1, 1, 0.0, True),
        (1.0, 1.0 + 1e-12, 0.0, False),
        (1.0, 1.0 + 1e-12, 1e-9, True),
        (float("nan"), float("nan"), 0.0, True),
        (float("inf"), float("inf"), 1e-9, True),
        (float("inf"), 1.0, 1e-9, False),
        (0.0, 1e-300, 1e-9, False),
        ({"a": 1.0, "b": [float("nan")]}, {"b": [float("nan")], "a": 1.0}, 0.0, True),
        ({"a": 1}, {"a": 1, "b": None}, 0.0, False),
        ((1, 2), (1, 2, 3), 0.0, False),
        (None, 0, 0.0, False),
    ],
)
def test_values_that_are_alike(one: Any, other: Any, tolerance: float, equal: bool) -> None:
    assert alike(one, other, tolerance) is equal
    assert alike(other, one, tolerance) is equal


def test_the_example_in_the_docs_prints_what_the_docs_show(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "consistency.md").read_text()
    code, expected_output = re.findall(r"```python\n(from tailrace.verify.*?)```\n\n```\n(.*?)```", page, re.DOTALL)[0]
    exec(code, {})
    assert capsys.readouterr().out == expected_output
