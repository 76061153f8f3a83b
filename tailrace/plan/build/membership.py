"""EXISTS and IN: as semi and anti joins where they filter, as a column that says which rows where they do not.

An IN may be neither true nor false: nothing equal is found, but the value is NULL or NULLs are among those
searched. A filter drops such a row whether it says IN or NOT IN. Elsewhere, as in Spark, IN is then
false, and NOT IN too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.delta import column
from tailrace.plan.build.decorrelate import Decorrelation, Lifted
from tailrace.plan.expressions import refs, remap
from tailrace.plan.facts import never_null
from tailrace.plan.joining import filtered, joined, link, same_types, selected
from tailrace.plan.nodes import Aggregate, Call, Filter, Join, JoinKind, Node, Project, column_of
from tailrace.plan.typing import Types
from tailrace.types import Column

ROWS = Call("count", (), distinct=False, sql="COUNT(*)", type="bigint")


def stripped(plan: Node) -> Node:
    """The part of a plan that decides whether there are rows at all."""
    while isinstance(plan, Project) or (isinstance(plan, Aggregate) and plan.groups):
        plan = plan.input
    return plan


def _always(plan: Node) -> bool:
    return isinstance(plan, Aggregate) and not plan.groups


def exists(left: Node, plan: Node, outer: Decorrelation, *, negated: bool) -> Node:
    """Rows of `left` for which the subquery has rows, or (negated) has none."""
    plan = stripped(plan)
    if _always(plan):
        return filtered(left, ["FALSE" if negated else "TRUE"])
    found = outer.lift(plan)
    kind: JoinKind = "anti" if negated else "semi"
    if not found.ties:
        return Join(left, Filter(_counted(plan), "_0 > 0"), kind, (), (), ())
    ties = selected(found.node, found.tied)
    return joined(left, ties, kind, found.conditions(len(left.columns), 0), outer.types)


def exists_mark(left: Node, plan: Node, outer: Decorrelation) -> tuple[Node, str]:
    """`left` with more columns, and an expression over them that says for which rows the subquery has rows."""
    plan = stripped(plan)
    if _always(plan):
        return left, "TRUE"
    found = outer.lift(plan)
    if not found.ties:
        return _any_mark(left, plan)
    ties = selected(found.node, found.tied)
    return _marked(left, ties, found.conditions(len(left.columns), 0), outer.types)


def _counted(plan: Node) -> Node:
    return Aggregate(plan, (), (ROWS,))


def _any_mark(left: Node, plan: Node) -> tuple[Node, str]:
    # Whether, not how many: of a number that changes, every row of `left` would hear.
    some = Project(_counted(plan), ("_0 > 0",), (Column("found", "boolean"),))
    return Join(left, some, "inner", (), (), ()), column(len(left.columns))


@dataclass(frozen=True)
class Membership:
    """`operands IN (subquery)` for rows of `left`; `found` is the subquery's plan, its values first."""

    left: Node
    operands: Sequence[str]
    found: Lifted
    types: Types

    @property
    def _start(self) -> int:
        return len(self.left.columns)

    def _ties(self) -> list[str]:
        return self.found.conditions(self._start, self.found.width)

    def _equals(self) -> list[str]:
        return [f"({o}) = ({column(self._start + i)})" for i, o in enumerate(self.operands)]

    def _definite(self) -> list[bool]:
        """For each operand, whether it and its partner are never NULL."""
        return [
            never_null(self.found.node, i) and (p := column_of(o)) is not None and never_null(self.left, p)
            for i, o in enumerate(self.operands)
        ]

    def _perhaps(self) -> list[str]:
        """Conditions that hold unless a row is certainly another one."""
        pairs = zip(self._equals(), self._definite(), strict=True)
        return [text if definite else f"COALESCE({text}, TRUE)" for text, definite in pairs]

    def within(self) -> Node:
        """IN as a filter."""
        return joined(self.left, self.found.node, "semi", self._ties() + self._equals(), self.types)

    def without(self) -> Node:
        """NOT IN as a filter."""
        if len(self.operands) > 1 or all(self._definite()):
            return joined(self.left, self.found.node, "anti", self._ties() + self._perhaps(), self.types)
        others = joined(self.left, self.found.node, "anti", self._ties() + self._equals(), self.types)
        node, complete = self._completeness(others)
        kept = filtered(node, [f"{complete} IS NULL OR (({self.operands[0]}) IS NOT NULL AND {complete})"])
        return selected(kept, range(self._start))

    def mark(self) -> tuple[Node, str]:
        """A column that says where IN is true."""
        return _marked(self.left, self.found.node, self._ties() + self._equals(), self.types)

    def mark_unless_false(self) -> tuple[Node, str]:
        """A column that says where IN is not false, so that its negation says where NOT IN is true."""
        if len(self.operands) > 1 or all(self._definite()):
            return _marked(self.left, self.found.node, self._ties() + self._perhaps(), self.types)
        node, is_found = self.mark()
        node, complete = self._completeness(node)
        unknown = f"{complete} IS NOT NULL AND (({self.operands[0]}) IS NULL OR NOT {complete})"
        return node, f"({is_found}) OR ({unknown})"

    def _completeness(self, node: Node) -> tuple[Node, str]:
        """`node`, rows of `left` or more, with a column: true if no value searched is NULL, NULL if there are none."""
        values = Call("count", (0,), distinct=False, sql="COUNT(_0)", type="bigint")
        count = len(self.found.ties)
        counts = Aggregate(self.found.node, tuple(self.found.tied), (ROWS, values))
        flag = f"CASE WHEN _{count} > 0 THEN _{count} = _{count + 1} END"
        columns = (*counts.columns[:count], Column("complete", "boolean"))
        complete = Project(counts, (*map(column, range(count)), flag), columns)
        start = len(node.columns)
        kind: JoinKind = "left" if count else "inner"
        both = joined(node, complete, kind, self.found.conditions(start, 0), self.types)
        return both, column(start + count)


def _marked(left: Node, right: Node, condition: Sequence[str], types: Types) -> tuple[Node, str]:
    """`left` with a column that is not NULL for rows with a partner in `right`, once each."""
    start = len(left.columns)
    links = [link(c, start) for c in condition]
    keys, compared = same_types(left, right, [k for k in links if k is not None], types)
    if not compared and None not in links:
        output = tuple(map(Column, (k[1] for k in keys), types.of(right.columns, [k[1] for k in keys])))
        partners: Node = Project(right, tuple(k[1] for k in keys), output)
        met = [f"({one}) {'<=>' if safe else '='} {column(start + i)}" for i, (one, _, safe) in enumerate(keys)]
        return _flagged(left, partners, met, types)
    # What the condition reads of `left` decides: pairs are sought for each of its values, once.
    read = sorted(p for p in frozenset().union(*map(refs, condition)) if p < start)
    at = {p: i for i, p in enumerate(read)} | {start + p: len(read) + p for p in range(len(right.columns))}
    if not read:
        return _any_mark(
            left, filtered(right, [remap(c, {start + p: p for p in range(len(right.columns))}) for c in condition])
        )
    values = Aggregate(selected(left, read), tuple(range(len(read))), ())
    pairs = filtered(Join(values, right, "inner", (), (), ()), [remap(c, at) for c in condition])
    met = [f"{column(p)} <=> {column(start + i)}" for i, p in enumerate(read)]
    return _flagged(left, selected(pairs, range(len(read))), met, types)


def _flagged(left: Node, partners: Node, condition: Sequence[str], types: Types) -> tuple[Node, str]:
    width = len(partners.columns)
    once = Aggregate(partners, tuple(range(width)), ())
    flagged = Project(once, (*map(column, range(width)), "TRUE"), (*once.columns, Column("found", "boolean")))
    both = joined(left, flagged, "left", condition, types)
    return both, f"{column(len(left.columns) + width)} IS NOT NULL"
