"""Plans UNION, INTERSECT and EXCEPT. Columns match by position; NULLs are equal.

    UNION ALL       the rows of both                    UNION       each distinct row of both once
    INTERSECT ALL   min(l, r) copies of each row        INTERSECT   each row with l > 0 and r > 0 once
    EXCEPT ALL      max(l - r, 0) copies of each row    EXCEPT      each row with l > 0 and r = 0 once

l and r count the copies of a row in the left and in the right query. An Aggregate over the rows of both queries keeps
the two counts per distinct row, so the cost follows the delta.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tailrace.delta import column
from tailrace.errors import SqlError
from tailrace.plan.build.context import Environment
from tailrace.plan.expressions import cast
from tailrace.plan.joining import filtered, renamed, selected
from tailrace.plan.nodes import Aggregate, Call, Generate, Node, Project, UnionAll
from tailrace.plan.sql.dialect import location
from tailrace.types import Column

_ONE, _ZERO = "CAST(1 AS BIGINT)", "CAST(0 AS BIGINT)"


def build_set_operation(query: exp.SetOperation, left: Node, right: Node, env: Environment) -> Node:
    """The plan of a set operation from the plans of its two sides."""
    sides = _align_columns(query, left, right, env)
    distinct = bool(query.args.get("distinct"))
    if isinstance(query, exp.Union):
        node = _union_all(sides)
        return distinct_rows(node) if distinct else node
    intersects = isinstance(query, exp.Intersect)
    # A side with a key has each row once. Then the result has each row at most once, even with ALL.
    once = distinct or sides[0].key is not None or (intersects and sides[1].key is not None)
    width = len(left.columns)
    counts = _count_rows(sides)
    left_count, right_count = column(width), column(width + 1)
    if once:
        condition = [f"{left_count} > 0", f"{right_count} {'>' if intersects else '='} 0"]
        return selected(filtered(counts, condition), range(width))
    if intersects:
        copies = f"LEAST({left_count}, {right_count})"
    else:
        copies = f"GREATEST({left_count} - {right_count}, {_ZERO})"
    generator = f"EXPLODE(ARRAY_REPEAT(1, CAST({copies} AS INT)))"
    return selected(Generate(counts, generator, (Column("copy", "int"),)), range(width))


def distinct_rows(node: Node) -> Node:
    return Aggregate(node, tuple(range(len(node.columns))), ())


def _union_all(sides: Sequence[Node]) -> Node:
    parts: list[Node] = []
    for side in sides:
        # UNION ALL is associative, so nested unions become one. The first branch still names the columns.
        parts += side.branches if isinstance(side, UnionAll) else [side]
    return UnionAll(tuple(parts))


def _count_rows(sides: Sequence[Node]) -> Node:
    """Each distinct row of both sides, with its number of copies on the left (l) and on the right (r)."""
    width = len(sides[0].columns)
    copied = tuple(column(i) for i in range(width))
    counters = (Column("l", "bigint"), Column("r", "bigint"))
    branches = [
        Project(side, (*copied, *values), side.columns + counters)
        for side, values in zip(sides, ((_ONE, _ZERO), (_ZERO, _ONE)), strict=True)
    ]
    sums = tuple(Call("sum", (p,), False, f"SUM({column(p)})", "bigint") for p in (width, width + 1))
    return Aggregate(UnionAll(tuple(branches)), tuple(range(width)), sums)


def _align_columns(query: exp.SetOperation, left: Node, right: Node, env: Environment) -> list[Node]:
    """Casts both sides to their common types and names the columns as on the left side."""
    if len(left.columns) != len(right.columns):
        counts = f"{len(left.columns)} and {len(right.columns)} columns"
        message = f"{query.key.upper()} of queries with {counts}; both need the same number"
        raise SqlError(message=message, **location(query.expression))
    pairs = zip(left.columns, right.columns, strict=True)
    types = [env.types.common(left_column.type, right_column.type) for left_column, right_column in pairs]
    names = [c.name for c in left.columns]
    return [_cast_columns(side, names, types) for side in (left, right)]


def _cast_columns(node: Node, names: Sequence[str], types: Sequence[str]) -> Node:
    if [c.type for c in node.columns] == list(types):
        return node if isinstance(node, UnionAll) else renamed(node, names)
    expressions = tuple(
        column(i) if c.type == type_ else cast(column(i), type_)
        for i, (c, type_) in enumerate(zip(node.columns, types, strict=True))
    )
    return Project(node, expressions, tuple(map(Column, names, types)))
