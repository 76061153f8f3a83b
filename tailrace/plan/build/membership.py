"""EXISTS and IN subqueries: a semi or anti join in a filter, a boolean column (a mark) in any other expression.

`x IN (...)` is unknown if no searched value equals x, and x or one of the searched values is NULL. A filter drops such
a row for IN and for NOT IN. In other expressions, as in Spark, both IN and NOT IN are then false.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.delta import column
from tailrace.plan.build.decorrelate import Decorrelation, Lifted
from tailrace.plan.expressions import refs, remap
from tailrace.plan.facts import never_null
from tailrace.plan.joining import as_join_key, cast_join_keys, filtered, joined, selected
from tailrace.plan.nodes import Aggregate, Call, Filter, Join, JoinKind, Node, Project, column_of
from tailrace.plan.typing import Types
from tailrace.types import Column

_COUNT_ROWS = Call("count", (), distinct=False, sql="COUNT(*)", type="bigint")


def _row_source(plan: Node) -> Node:
    """The lowest part of a plan that is empty exactly if the plan is."""
    while isinstance(plan, Project) or (isinstance(plan, Aggregate) and plan.groups):
        plan = plan.input
    return plan


def _is_never_empty(plan: Node) -> bool:
    return isinstance(plan, Aggregate) and not plan.groups


def filter_exists(left: Node, plan: Node, outer: Decorrelation, *, negated: bool) -> Node:
    """[NOT] EXISTS as a filter: a semi (anti) join."""
    plan = _row_source(plan)
    if _is_never_empty(plan):
        return filtered(left, ["FALSE" if negated else "TRUE"])
    lifted = outer.lift(plan)
    kind: JoinKind = "anti" if negated else "semi"
    if not lifted.correlations:
        return Join(left, Filter(_row_count(plan), "_0 > 0"), kind, (), (), ())
    keys = selected(lifted.node, lifted.correlated)
    return joined(left, keys, kind, lifted.conditions(len(left.columns), 0), outer.types)


def mark_exists(left: Node, plan: Node, outer: Decorrelation) -> tuple[Node, str]:
    """EXISTS as a value: `left` with more columns, and a boolean expression over them."""
    plan = _row_source(plan)
    if _is_never_empty(plan):
        return left, "TRUE"
    lifted = outer.lift(plan)
    if not lifted.correlations:
        return _mark_if_any(left, plan)
    keys = selected(lifted.node, lifted.correlated)
    return _mark_matches(left, keys, lifted.conditions(len(left.columns), 0), outer.types)


def _row_count(plan: Node) -> Node:
    return Aggregate(plan, (), (_COUNT_ROWS,))


def _mark_if_any(left: Node, plan: Node) -> tuple[Node, str]:
    """Marks every row of `left` if `plan` has rows, none otherwise."""
    # Join on a boolean, not on the count: a changed count would emit a delta for every row of `left`.
    not_empty = Project(_row_count(plan), ("_0 > 0",), (Column("found", "boolean"),))
    return Join(left, not_empty, "inner", (), (), ()), column(len(left.columns))


@dataclass(frozen=True)
class Membership:
    """`operands IN (subquery)` for each row of `left`. The subquery's own columns are the searched values."""

    left: Node
    operands: Sequence[str]
    subquery: Lifted
    types: Types

    @property
    def _start(self) -> int:
        return len(self.left.columns)

    def _correlations(self) -> list[str]:
        return self.subquery.conditions(self._start, self.subquery.width)

    def _equals(self) -> list[str]:
        return [f"({o}) = ({column(self._start + i)})" for i, o in enumerate(self.operands)]

    def _never_unknown(self) -> list[bool]:
        """For each operand, whether neither it nor the value it is compared with can be NULL."""
        return [
            never_null(self.subquery.node, i) and (p := column_of(o)) is not None and never_null(self.left, p)
            for i, o in enumerate(self.operands)
        ]

    def _equals_or_unknown(self) -> list[str]:
        pairs = zip(self._equals(), self._never_unknown(), strict=True)
        return [text if never_unknown else f"COALESCE({text}, TRUE)" for text, never_unknown in pairs]

    def filter_in(self) -> Node:
        return joined(self.left, self.subquery.node, "semi", self._correlations() + self._equals(), self.types)

    def filter_not_in(self) -> Node:
        if len(self.operands) > 1 or all(self._never_unknown()):
            condition = self._correlations() + self._equals_or_unknown()
            return joined(self.left, self.subquery.node, "anti", condition, self.types)
        unmatched = joined(self.left, self.subquery.node, "anti", self._correlations() + self._equals(), self.types)
        node, complete = self._join_complete(unmatched)
        kept = filtered(node, [f"{complete} IS NULL OR (({self.operands[0]}) IS NOT NULL AND {complete})"])
        return selected(kept, range(self._start))

    def mark_true(self) -> tuple[Node, str]:
        """An expression that is true where IN is true."""
        return _mark_matches(self.left, self.subquery.node, self._correlations() + self._equals(), self.types)

    def mark_true_or_unknown(self) -> tuple[Node, str]:
        """An expression that is true where IN is true or unknown: its negation is true where NOT IN is true."""
        if len(self.operands) > 1 or all(self._never_unknown()):
            condition = self._correlations() + self._equals_or_unknown()
            return _mark_matches(self.left, self.subquery.node, condition, self.types)
        node, is_true = self.mark_true()
        node, complete = self._join_complete(node)
        is_unknown = f"{complete} IS NOT NULL AND (({self.operands[0]}) IS NULL OR NOT {complete})"
        return node, f"({is_true}) OR ({is_unknown})"

    def _join_complete(self, node: Node) -> tuple[Node, str]:
        """Adds a column to `node`: true if no searched value is NULL, false if one is, NULL if there are no values.

        The first columns of `node` are those of `left`.
        """
        values = Call("count", (0,), distinct=False, sql="COUNT(_0)", type="bigint")
        count = len(self.subquery.correlations)
        counts = Aggregate(self.subquery.node, tuple(self.subquery.correlated), (_COUNT_ROWS, values))
        flag = f"CASE WHEN _{count} > 0 THEN _{count} = _{count + 1} END"
        columns = (*counts.columns[:count], Column("complete", "boolean"))
        complete = Project(counts, (*map(column, range(count)), flag), columns)
        start = len(node.columns)
        kind: JoinKind = "left" if count else "inner"
        both = joined(node, complete, kind, self.subquery.conditions(start, 0), self.types)
        return both, column(start + count)


def _mark_matches(left: Node, right: Node, condition: Sequence[str], types: Types) -> tuple[Node, str]:
    """Marks the rows of `left` that have a match in `right`. Each row stays once, however many matches it has."""
    start = len(left.columns)
    equalities = [as_join_key(c, start) for c in condition]
    keys, compared = cast_join_keys(left, right, [k for k in equalities if k is not None], types)
    if not compared and None not in equalities:
        output = tuple(map(Column, (k[1] for k in keys), types.of(right.columns, [k[1] for k in keys])))
        right_keys: Node = Project(right, tuple(k[1] for k in keys), output)
        on = [f"({key}) {'<=>' if safe else '='} {column(start + i)}" for i, (key, _, safe) in enumerate(keys)]
        return _mark_equal(left, right_keys, on, types)
    # Not an equi-join: find the distinct values of the columns of `left` that the condition reads, and match those.
    read = sorted(p for p in frozenset().union(*map(refs, condition)) if p < start)
    at = {p: i for i, p in enumerate(read)} | {start + p: len(read) + p for p in range(len(right.columns))}
    if not read:
        over_right = {start + p: p for p in range(len(right.columns))}
        return _mark_if_any(left, filtered(right, [remap(c, over_right) for c in condition]))
    values = Aggregate(selected(left, read), tuple(range(len(read))), ())
    pairs = filtered(Join(values, right, "inner", (), (), ()), [remap(c, at) for c in condition])
    on = [f"{column(p)} <=> {column(start + i)}" for i, p in enumerate(read)]
    return _mark_equal(left, selected(pairs, range(len(read))), on, types)


def _mark_equal(left: Node, matches: Node, on: Sequence[str], types: Types) -> tuple[Node, str]:
    """Marks the rows of `left` by a left join with the distinct rows of `matches`."""
    width = len(matches.columns)
    distinct = Aggregate(matches, tuple(range(width)), ())
    flagged = Project(distinct, (*map(column, range(width)), "TRUE"), (*distinct.columns, Column("found", "boolean")))
    both = joined(left, flagged, "left", on, types)
    return both, f"{column(len(left.columns) + width)} IS NOT NULL"
