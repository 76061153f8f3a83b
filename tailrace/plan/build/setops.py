"""UNION, INTERSECT and EXCEPT of two queries, by position, NULLs being equal.

    UNION ALL       the rows of both                    UNION       each distinct row of it once
    INTERSECT ALL   min(l, r) copies of each row        INTERSECT   each row with l > 0 and r > 0 once
    EXCEPT ALL      max(l - r, 0) copies                EXCEPT      each row with l > 0 and r = 0 once

l and r are how often a row is in the left and in the right query: two counts per distinct row, kept as an
aggregate of both queries' rows, so the cost follows the delta.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tailrace.delta import column
from tailrace.errors import SqlError
from tailrace.plan.sql.dialect import place
from tailrace.plan.build.context import Environment
from tailrace.plan.joining import renamed
from tailrace.plan.expressions import cast
from tailrace.plan.joining import filtered, selected
from tailrace.plan.nodes import Aggregate, Call, Generate, Node, Project, UnionAll
from tailrace.types import Column

_THERE, _NOT = "CAST(1 AS BIGINT)", "CAST(0 AS BIGINT)"


def combined(query: exp.SetOperation, left: Node, right: Node, env: Environment) -> Node:
    """A set operation of two plans."""
    sides = _aligned(query, left, right, env)
    distinct = bool(query.args.get("distinct"))
    if isinstance(query, exp.Union):
        node = _united(sides)
        return all_distinct(node) if distinct else node
    keeps = isinstance(query, exp.Intersect)
    # Where the left query has each row once, a row is in the result once or not at all.
    once = distinct or sides[0].key is not None or (keeps and sides[1].key is not None)
    width = len(left.columns)
    counted = _counted(sides)
    ours, theirs = column(width), column(width + 1)
    if once:
        kept = filtered(counted, [f"{ours} > 0", f"{theirs} {'>' if keeps else '='} 0"])
        return selected(kept, range(width))
    copies = f"LEAST({ours}, {theirs})" if keeps else f"GREATEST({ours} - {theirs}, {_NOT})"
    made = (Column("copy", "int"),)
    return selected(Generate(counted, f"EXPLODE(ARRAY_REPEAT(1, CAST({copies} AS INT)))", made), range(width))


def all_distinct(node: Node) -> Node:
    return Aggregate(node, tuple(range(len(node.columns))), ())


def _united(sides: Sequence[Node]) -> Node:
    parts: list[Node] = []
    for side in sides:
        # UNION ALL is associative, and its first branch names the columns either way.
        parts += side.branches if isinstance(side, UnionAll) else [side]
    return UnionAll(tuple(parts))


def _counted(sides: Sequence[Node]) -> Node:
    """Each distinct row of both sides, and how often it is in the left and in the right one."""
    width = len(sides[0].columns)
    copied = tuple(column(i) for i in range(width))
    tags = (Column("l", "bigint"), Column("r", "bigint"))
    marked = [
        Project(side, (*copied, *tag), side.columns + tags)
        for side, tag in zip(sides, ((_THERE, _NOT), (_NOT, _THERE)), strict=True)
    ]
    sums = tuple(Call("sum", (p,), False, f"SUM({column(p)})", "bigint") for p in (width, width + 1))
    return Aggregate(UnionAll(tuple(marked)), tuple(range(width)), sums)


def _aligned(query: exp.SetOperation, left: Node, right: Node, env: Environment) -> list[Node]:
    """Both sides cast to their common types, under the names of the left one."""
    word = query.key.upper()
    if len(left.columns) != len(right.columns):
        message = f"{word} of {len(left.columns)} and {len(right.columns)} columns"
        raise SqlError(message=message, **place(query.expression))
    pairs = zip(left.columns, right.columns, strict=True)
    types = [env.types.common(one.type, other.type) for one, other in pairs]
    names = [c.name for c in left.columns]
    return [_as_types(side, names, types) for side in (left, right)]


def _as_types(node: Node, names: Sequence[str], types: Sequence[str]) -> Node:
    if [c.type for c in node.columns] == list(types):
        return node if isinstance(node, UnionAll) else renamed(node, names)
    expressions = tuple(
        column(i) if c.type == kind else cast(column(i), kind)
        for i, (c, kind) in enumerate(zip(node.columns, types, strict=True))
    )
    return Project(node, expressions, tuple(map(Column, names, types)))
