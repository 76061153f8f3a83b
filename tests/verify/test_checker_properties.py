"""Random histories: correct engines are strong, broken ones are caught, and the search agrees with the definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.verify.history.certified import PARTS
from tailrace.verify.history.checker import check
from tailrace.verify.history.record_levels import Model
from tailrace.verify.history.timelines import BaseHistory, BaseState, Change, Definition, Rows, ViewHistory, ViewState
from tailrace.verify.history.verdict import Level

KEYS, GROUPS = ("a", "b", "c"), ("x", "y")


def totals(rows: Rows) -> dict[Any, Any]:
    """SELECT x, SUM(y), COUNT(*) FROM t GROUP BY x"""
    groups: dict[Any, Any] = {}
    for x, y in rows.values():
        total, count = groups.get(x, (0, 0))
        groups[x] = total + y, count + 1
    return groups


def largest(rows: Rows) -> dict[Any, Any]:
    """SELECT x, MAX(y) FROM t GROUP BY x"""
    return {x: max(y for other, y in rows.values() if other == x) for x, _ in rows.values()}


def self_join(rows: Rows) -> dict[Any, Any]:
    """SELECT l.key, r.key, l.y FROM t l JOIN t r ON l.y = r.y AND l.key < r.key"""
    pairs = combinations(sorted(rows.items()), 2)
    return {(one[1], other[1]): row[1] for (one, row), (other, its) in pairs if row[1] == its[1]}


VIEWS: dict[str, Definition] = {"totals": totals, "largest": largest, "self_join": self_join}
views = st.sampled_from(sorted(VIEWS))
rows = st.tuples(st.sampled_from(GROUPS), st.integers(1, 4))


@st.composite
def histories(draw: st.DrawFn, most: int = 8, keys: Sequence[str] = KEYS) -> BaseHistory:
    initial = draw(st.dictionaries(st.sampled_from(keys), rows, max_size=2))
    changes, number = [], 0
    for _ in range(draw(st.integers(1, most))):
        number += draw(st.integers(0 if changes else 1, 1))
        changes.append(Change(number, ("t", draw(st.sampled_from(keys))), draw(st.none() | rows)))
    return BaseHistory({("t", key): row for key, row in initial.items()}, changes)


def engine(base: BaseHistory, cuts: Sequence[int], view: Definition) -> Iterator[ViewState]:
    """The states of a correct engine: the changes of the view from cut to cut."""
    shown: dict[Any, Any] = {}
    for epoch, cut in enumerate(cuts):
        now = view(base.at(cut).rows)
        yield ViewState({k: now.get(k) for k in {**shown, **now} if now.get(k) != shown.get(k)}, cut, epoch)
        shown = now


def last_cut(base: BaseHistory) -> int:
    return base.changes[-1].transaction


@st.composite
def runs(draw: st.DrawFn) -> tuple[BaseHistory, list[int]]:
    base = draw(histories())
    inner = draw(st.lists(st.integers(0, last_cut(base)), max_size=5))
    return base, sorted([0, *inner, last_cut(base)])


@settings(max_examples=100, deadline=None)
@given(runs(), views)
def test_a_correct_engine_is_strong_with_and_without_certificates(
    run: tuple[BaseHistory, list[int]], view: str
) -> None:
    base, cuts = run
    history = ViewHistory(view, list(engine(base, cuts, VIEWS[view])))
    assert check(base, [history], VIEWS).level >= Level.STRONG
    for model in Model:
        verdict = check(base, [history], VIEWS, certificates=False, model=model)
        assert verdict.level >= Level.STRONG
        assert not verdict.bounded


@settings(max_examples=100, deadline=None)
@given(runs())
def test_a_correct_engine_shows_all_views_at_one_cut(run: tuple[BaseHistory, list[int]]) -> None:
    base, cuts = run
    verdict = check(base, [ViewHistory(name, list(engine(base, cuts, VIEWS[name]))) for name in VIEWS], VIEWS)
    assert verdict.level >= Level.STRONG
    assert verdict.snapshot is True
    assert verdict.witness is None


@settings(max_examples=100, deadline=None)
@given(runs(), views, st.data())
def test_whole_states_and_changes_are_equivalent(
    run: tuple[BaseHistory, list[int]], view: str, data: st.DataObject
) -> None:
    base, cuts = run
    history = ViewHistory(view, list(engine(base, cuts, VIEWS[view])))
    contents = [dict(shown) for shown in history.contents()]
    wholes = [ViewState(c, s.cut, s.epoch, whole=True) for c, s in zip(contents, history.states, strict=True)]
    chosen = [w if data.draw(st.booleans()) else s for w, s in zip(wholes, history.states, strict=True)]
    mixed = ViewHistory(view, chosen)
    assert [dict(shown) for shown in mixed.contents()] == contents
    assert mixed.timelines() == history.timelines()


# Broken engines: each maintains sums incrementally, with one fault.


@dataclass
class Adding:
    """SELECT x, SUM(y), COUNT(*) GROUP BY x: adds the difference of each change to the last state."""

    base: BaseHistory

    def run(self, order: Sequence[tuple[int, Change]], claimed: Sequence[int]) -> ViewHistory:
        """Applies changes in the given order, each with its number in the history; each state claims a cut."""
        shown = totals(self.base.first.rows)
        states = [ViewState(dict(shown), 0, whole=True)]
        for (number, change), cut in zip(order, claimed, strict=True):
            self.add(shown, self.old_row(number), -1)
            self.add(shown, change.value, 1)
            states.append(ViewState({x: v for x, v in shown.items() if v != (0, 0)}, cut, whole=True))
        return ViewHistory("totals", states)

    def old_row(self, number: int) -> Any:
        record = self.base.changes[number].record
        earlier = [c.value for c in self.base.changes[:number] if c.record == record]
        return earlier[-1] if earlier else self.base.initial.get(record)

    @staticmethod
    def add(shown: dict[Any, Any], row: Any, sign: int) -> None:
        if row is not None:
            total, count = shown.get(row[0], (0, 0))
            shown[row[0]] = total + sign * row[1], count + sign


def split_transactions(base: BaseHistory) -> BaseHistory:
    """The same history with one transaction per change."""
    return BaseHistory(base.initial, [Change(n, c.record, c.value) for n, c in enumerate(base.changes, 1)])


def is_caught(base: BaseHistory, history: ViewHistory) -> bool:
    """Whether the check by certificates misses strong.

    The search must agree, except that it may explain a wrong certificate by another base state.
    """
    certified = check(base, [history], VIEWS)
    searched = check(base, [history], VIEWS, certificates=False)
    assert not searched.bounded
    if certified.level >= Level.STRONG:
        assert searched.level >= Level.STRONG
    else:
        assert certified.witness is not None
        assert str(certified.witness).count("\n") <= 4
    if searched.level < Level.STRONG:
        assert certified.level < Level.STRONG
        assert searched.witness is not None
    assert (certified.level == Level.NONE) == (searched.level == Level.NONE)
    return certified.level < Level.STRONG


def differs(base: BaseHistory, history: ViewHistory) -> bool:
    """Whether some state is not the view at its cut, by the definition of the view."""
    pairs = zip(history.contents(), history.states, strict=True)
    return any(shown != totals(base.at(state.cut or 0).rows) for shown, state in pairs)


@settings(max_examples=100, deadline=None)
@given(histories().map(split_transactions), st.data())
def test_an_engine_that_skips_a_change_is_caught(base: BaseHistory, data: st.DataObject) -> None:
    order = list(enumerate(base.changes))
    del order[data.draw(st.integers(0, len(order) - 1))]
    history = Adding(base).run(order, [change.transaction for _, change in order])
    *_, shown = history.contents()
    assert is_caught(base, history) == (differs(base, history) or shown != totals(base.last.rows))


@settings(max_examples=100, deadline=None)
@given(histories().map(split_transactions), st.data())
def test_an_engine_that_repeats_a_change_is_caught(base: BaseHistory, data: st.DataObject) -> None:
    order = list(enumerate(base.changes))
    place = data.draw(st.integers(0, len(order) - 1))
    order.insert(place, order[place])
    history = Adding(base).run(order, [change.transaction for _, change in order])
    assert is_caught(base, history) == differs(base, history)


@settings(max_examples=100, deadline=None)
@given(histories().map(split_transactions), st.data())
def test_an_engine_that_reorders_changes_is_caught(base: BaseHistory, data: st.DataObject) -> None:
    order = data.draw(st.permutations(list(enumerate(base.changes))))
    numbers = [number + 1 for number, _ in order]
    honest = Adding(base).run(order, numbers)
    assert is_caught(base, honest) == (differs(base, honest) or numbers != sorted(numbers))
    pretending = Adding(base).run(order, sorted(numbers))
    assert is_caught(base, pretending) == differs(base, pretending)


@settings(max_examples=100, deadline=None)
@given(histories())
def test_an_engine_that_shows_parts_of_transactions_is_caught(base: BaseHistory) -> None:
    last = {change.transaction: n for n, change in enumerate(base.changes)}
    claimed = [c.transaction if n == last[c.transaction] else c.transaction - 1 for n, c in enumerate(base.changes)]
    history = Adding(base).run(list(enumerate(base.changes)), claimed)
    assert is_caught(base, history) == differs(base, history)
    longest = max(Counter(change.transaction for change in base.changes).values())
    if differs(base, history) and longest <= PARTS // 2 + 1:
        verdict = check(base, [history], VIEWS)
        assert verdict.level == Level.CONVERGENT
        assert verdict.witness is not None
        assert "only part of transaction" in verdict.witness.reason


# The search must agree with the definitions, which are written here without regard for run time.


def weak_by_definition(base: BaseHistory, view: Definition, key: Any, line: list[Any], model: Model) -> bool:
    if model is Model.SEQUENCE:
        return any(all(v in values for v in line) for values in sequences(base, view, key))
    return all(any(view(b.rows).get(key) == value for b in base.states()) for value in line)


def strong_by_definition(base: BaseHistory, view: Definition, key: Any, line: list[Any], model: Model) -> bool:
    if model is Model.SEQUENCE:
        return any(is_subsequence(line, values) for values in sequences(base, view, key))
    explaining = [[b for b in base.states() if view(b.rows).get(key) == value] for value in line]
    return all(any(b <= c for b in one for c in other) for one, other in combinations(explaining, 2))


def complete_by_definition(base: BaseHistory, view: Definition, key: Any, line: list[Any], model: Model) -> bool:
    if model is Model.SEQUENCE:
        return any(without_repeats(values) == line for values in sequences(base, view, key))
    return all(view(b.rows).get(key) in line for b in base.states())


def sequences(base: BaseHistory, view: Definition, key: Any) -> Iterator[list[Any]]:
    """The record's values along each order of all changes that preserves the timelines."""

    def orders(state: BaseState) -> Iterator[list[BaseState]]:
        if state == base.last:
            yield [state]
        for n, version in enumerate(state.versions):
            if version < base.last.versions[n]:
                following = (*state.versions[:n], version + 1, *state.versions[n + 1 :])
                yield from ([state, *rest] for rest in orders(BaseState(base, following)))

    return ([view(state.rows).get(key) for state in order] for order in orders(base.first))


def is_subsequence(line: list[Any], values: list[Any]) -> bool:
    """Whether `line` is a subsequence of `values`."""
    remaining = iter(values)
    return all(any(value == candidate for candidate in remaining) for value in line)


def without_repeats(values: list[Any]) -> list[Any]:
    return values[:1] + [after for before, after in pairwise(values) if after != before]


def level_by_definition(base: BaseHistory, view: Definition, history: ViewHistory, model: Model) -> Level:
    lines: dict[Any, list[Any]] = {k: [v for _, v in line] for k, line in history.timelines().items()}
    for state in base.states():
        for key in view(state.rows):
            lines.setdefault(key, [None])
    right = view(base.last.rows)
    conditions: list[Callable[[Any, list[Any]], bool]] = [
        lambda key, line: line[-1] == right.get(key),
        lambda key, line: weak_by_definition(base, view, key, line, model),
        lambda key, line: strong_by_definition(base, view, key, line, model),
        lambda key, line: complete_by_definition(base, view, key, line, model),
    ]
    for level, holds in enumerate(conditions):
        if not all(holds(key, line) for key, line in lines.items()):
            return Level(level)
    return Level.COMPLETE


@st.composite
def tiny(draw: st.DrawFn, view: str) -> tuple[BaseHistory, ViewHistory]:
    """A short base history, and view states of its base states in any order, sometimes with one that never existed."""
    base = draw(histories(most=5, keys=("a", "b")))
    states = list(base.states())
    chosen = [draw(st.sampled_from(states)) for _ in range(draw(st.integers(0, 4)))]
    if draw(st.booleans()):
        chosen.sort(key=lambda state: sum(state.versions))
    shown = [VIEWS[view](state.rows) for state in [base.first, *chosen, *([base.last] if draw(st.booleans()) else [])]]
    if draw(st.integers(0, 3)) == 0:
        shown.insert(draw(st.integers(0, len(shown) - 1)), {"x": 99})
    return base, ViewHistory(view, [ViewState(rows, whole=True) for rows in shown])


@settings(max_examples=200, deadline=None)
@given(views, st.sampled_from(Model), st.data())
def test_the_search_agrees_with_the_definition(view: str, model: Model, data: st.DataObject) -> None:
    base, history = data.draw(tiny(view))
    verdict = check(base, [history], VIEWS, certificates=False, model=model)
    assert verdict.level == level_by_definition(base, VIEWS[view], history, model)
    assert not verdict.bounded


@settings(max_examples=100, deadline=None)
@given(views, st.sampled_from(Model), st.integers(1, 12), st.data())
def test_a_bound_gives_a_range_that_contains_the_level(
    view: str, model: Model, bound: int, data: st.DataObject
) -> None:
    base, history = data.draw(tiny(view))
    verdict = check(base, [history], VIEWS, certificates=False, model=model, bound=bound)
    assert verdict.level <= level_by_definition(base, VIEWS[view], history, model) <= verdict.at_most
    assert verdict.views[view].looked_at <= bound


def touches(key: Any, record: Any, versions: Sequence[Any]) -> bool:
    return any(row is not None and row[0] == key for row in versions)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(Model), st.data())
def test_ignoring_records_that_do_not_matter_changes_nothing(model: Model, data: st.DataObject) -> None:
    base, history = data.draw(tiny("totals"))
    plain = check(base, [history], VIEWS, certificates=False, model=model)
    hinted = check(base, [history], VIEWS, certificates=False, model=model, matters={"totals": touches})
    assert hinted.level == plain.level
    if plain.witness is not None and hinted.witness is not None:
        assert hinted.witness.states == plain.witness.states


@settings(max_examples=100, deadline=None)
@given(views, st.sampled_from(Model), st.data())
def test_a_witness_is_sufficient_and_minimal(view: str, model: Model, data: st.DataObject) -> None:
    base, history = data.draw(tiny(view))
    verdict = check(base, [history], VIEWS, certificates=False, model=model)
    for witness in verdict.views[view].witnesses:
        line = [state.value for state in witness.states]
        holds = {Level.WEAK: weak_by_definition, Level.STRONG: strong_by_definition}.get(witness.level)
        if holds is None:
            continue
        assert not holds(base, VIEWS[view], witness.key, line, model)
        for n in range(len(line)):
            rest = without_repeats(line[:n] + line[n + 1 :])
            assert not rest or holds(base, VIEWS[view], witness.key, rest, model)
