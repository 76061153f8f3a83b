"""Lowering: replaces nodes without a delta rule by nodes that have one.

an outer, semi or anti join with a condition    joins without one
a filter that reads the time                    a filter, the borders as columns, and a TemporalFilter
"""

from __future__ import annotations

from dataclasses import replace

from tailrace.delta import column
from tailrace.errors import Unsupported
from tailrace.plan.expressions import cast
from tailrace.plan.joining import filtered, selected
from tailrace.plan.nodes import Filter, Join, JoinKind, Node, Project, TemporalFilter, UnionAll, map_inputs
from tailrace.plan.temporal import ALWAYS, borders, split_temporal
from tailrace.types import Column, is_scalar


def lower_plan(node: Node) -> Node:
    """Lowers all joins of a plan that have a condition, and all filters that read the time.

    Runs after all rewrites. A rewrite of the lowered plan could change the two uses of the matches differently; equal
    nodes share their states.
    """
    node = map_inputs(node, lower_plan)
    if isinstance(node, Filter):
        return _lower_filter(node)
    return _lower_join(node) if isinstance(node, Join) and node.condition is not None else node


def _lower_filter(node: Filter) -> Node:
    plain, timed = split_temporal(node.condition)
    if not timed:
        return node
    found = [b for condition in timed for b in borders(condition)]
    starts = list(dict.fromkeys(b.start for b in found if b.start is not None))
    ends = list(dict.fromkeys(b.end for b in found if b.end is not None))
    # A border that is NULL makes the condition NULL. GREATEST and LEAST would ignore it.
    source = filtered(node.input, [*plain, *(f"({text}) IS NOT NULL" for text in (*starts, *ends))])
    start = f"GREATEST({', '.join(starts)})" if len(starts) > 1 else starts[0] if starts else f"-{ALWAYS}"
    end = f"LEAST({', '.join(ends)})" if len(ends) > 1 else ends[0] if ends else f"{ALWAYS}"
    copied = tuple(column(i) for i in range(len(source.columns)))
    bordered = (*source.columns, Column("from", "bigint"), Column("until", "bigint"))
    return TemporalFilter(Project(source, (*copied, start, end), bordered))


def _lower_join(node: Join) -> Node:
    """An outer, semi or anti join with a condition, made of an inner join and anti joins.

    matches = filter(left inner join right)
    LEFT    = matches + pad(left anti matches)        RIGHT, FULL: likewise        SEMI = left semi matches
    """
    left, right, kind, width = node.left, node.right, node.kind, len(node.left.columns)
    matches = lower_plan(filtered(replace(node, kind="inner", condition=None), [node.condition or ""]))
    if kind in ("semi", "anti"):
        return _filter_side(left, matches, 0, kind)
    parts = [matches]
    if kind in ("left", "full"):
        parts.append(_pad(_filter_side(left, matches, 0, "anti"), (), right.columns))
    if kind in ("right", "full"):
        parts.append(_pad(_filter_side(right, matches, width, "anti"), left.columns, ()))
    return UnionAll(tuple(parts), node.key)


def _filter_side(side: Node, matches: Node, offset: int, kind: JoinKind) -> Node:
    """Rows of `side` that are (semi) or are not (anti) in `matches`, where the columns of `side` start at `offset`."""
    # Rows equal in all columns match the same partners. So without a key, all columns can serve as the identity.
    identity = side.key if side.key else tuple(range(len(side.columns)))
    if not all(is_scalar(side.columns[p].type) for p in identity):
        raise Unsupported(
            construct="an outer, semi or anti join with a condition other than an equality, over nested types",
            reason="select the primary key of each table in the joined subquery",
        )
    matched = selected(matches, [offset + p for p in identity])
    # Null-safe: a row whose identity has NULLs must find itself.
    return Join(side, matched, kind, identity, tuple(range(len(identity))), (True,) * len(identity))


def _pad(node: Node, before: tuple[Column, ...], after: tuple[Column, ...]) -> Node:
    """Adds NULLs for the columns of the other side."""

    def nulls(columns: tuple[Column, ...]) -> tuple[str, ...]:
        return tuple(cast("NULL", c.type) for c in columns)

    copied = tuple(column(i) for i in range(len(node.columns)))
    return Project(node, (*nulls(before), *copied, *nulls(after)), before + node.columns + after)
