"""Lowering: joins with a condition become joins without one, which are what the delta rules maintain."""

from __future__ import annotations

from dataclasses import replace

from tailrace.delta import column
from tailrace.errors import Unsupported
from tailrace.plan.expressions import cast
from tailrace.plan.joining import filtered, selected
from tailrace.plan.nodes import Join, JoinKind, Node, Project, UnionAll, map_inputs
from tailrace.types import Column, is_scalar


def lower_plan(node: Node) -> Node:
    """The plan with every join that has a condition made of joins that have none: what is maintained.

    Not before, because a rewrite would see, filter and prune the matches twice and differently: as they are, both
    uses are equal nodes and share their states.
    """
    node = map_inputs(node, lower_plan)
    return _completed(node) if isinstance(node, Join) and node.condition is not None else node


def _completed(node: Join) -> Node:
    """An outer, semi or anti join with a condition.

    What a pair-wise condition leaves unmatched is known only after it: `left` minus the left parts of
    the matches. So LEFT = matches + pad(left anti matches), and so on.
    """
    left, right, kind, width = node.left, node.right, node.kind, len(node.left.columns)
    matches = filtered(replace(node, kind="inner", condition=None), [node.condition or ""])
    if kind in ("semi", "anti"):
        return _matching(left, matches, 0, kind)
    parts = [matches]
    if kind in ("left", "full"):
        parts.append(_padded(_matching(left, matches, 0, "anti"), (), right.columns))
    if kind in ("right", "full"):
        parts.append(_padded(_matching(right, matches, width, "anti"), left.columns, ()))
    return UnionAll(tuple(parts), node.key)


def _matching(side: Node, matches: Node, offset: int, kind: JoinKind) -> Node:
    """Rows of `side` that are (semi) or are not (anti) in `matches`, where they begin at `offset`."""
    # Without a key, rows that are equal in every column match the same partners, so all columns identify.
    identity = side.key if side.key else tuple(range(len(side.columns)))
    if not all(is_scalar(side.columns[p].type) for p in identity):
        raise Unsupported(
            construct="an outer, semi or anti join with a condition that is no equality, over nested types",
            reason="select the primary key of each table in the joined subquery",
        )
    taken = selected(matches, [offset + p for p in identity])
    # Null-safe: a row with NULLs is still itself.
    return Join(side, taken, kind, identity, tuple(range(len(identity))), (True,) * len(identity))


def _padded(node: Node, before: tuple[Column, ...], after: tuple[Column, ...]) -> Node:
    def nulls(columns: tuple[Column, ...]) -> tuple[str, ...]:
        return tuple(cast("NULL", c.type) for c in columns)

    copied = tuple(column(i) for i in range(len(node.columns)))
    return Project(node, (*nulls(before), *copied, *nulls(after)), before + node.columns + after)
