"""Pushes semi and anti joins below joins that multiply rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tailrace.plan.expressions import refs, remap
from tailrace.plan.nodes import Filter, Join, Node, Project, column_of, map_inputs
from tailrace.plan.typing import Types


def push_semi_joins(node: Node, types: Types) -> Node:
    """Apply a semi or anti join before another join multiplies its rows.

    semi(0=0, inner(0=0, a, b key (0, 1)), c) -> inner(0=0, semi(0=0, a, c), b key (0, 1))
    """
    node = map_inputs(node, lambda child: push_semi_joins(child, types))
    return (_push_semi_join(node) if isinstance(node, Join) else None) or node


def _push_semi_join(semi: Join) -> Node | None:
    """The semi or anti join moved below a join that multiplies its rows; None if there is no such join."""
    return _pushed(semi.left, semi) if semi.kind in ("semi", "anti") and semi.left_on else None


def _pushed(node: Node, semi: Join) -> Node | None:
    """`node` with `semi` applied below it (its left side is `node`); None if that saves nothing."""
    read = _left_refs(semi)
    match node:
        case Filter(source):
            below = _pushed(source, semi)
            return below and replace(node, input=below)
        case Project(source, expressions):
            copied = {p: at for p in read if (at := column_of(expressions[p])) is not None}
            below = _pushed(source, _moved(semi, source, copied)) if len(copied) == len(read) else None
            return below and replace(node, input=below)
        case Join(left, right, kind):
            width = len(left.columns)
            if max(read) < width and kind in ("inner", "left", "semi", "anti"):
                moved = _moved(semi, left, {p: p for p in read})
                below = _push_or_keep(moved, multiplied=_multiplies(right, node.right_on, kind))
                return below and replace(node, left=below)
            if min(read) >= width and kind == "inner":
                moved = _moved(semi, right, {p: p - width for p in read})
                below = _push_or_keep(moved, multiplied=_multiplies(left, node.left_on, kind))
                return below and replace(node, right=below)
    return None


def _left_refs(semi: Join) -> set[int]:
    """The left columns that the join reads."""
    condition = refs(semi.condition) if semi.condition is not None else ()
    return {p for p in (*semi.left_on, *condition) if p < len(semi.left.columns)}


def _moved(semi: Join, side: Node, at: Mapping[int, int]) -> Join:
    """`semi` with `side` as its left side, where left column p of `semi` is at `at[p]`."""
    old_width, new_width = len(semi.left.columns), len(side.columns)
    condition = semi.condition
    if condition is not None:
        condition = remap(condition, {**at, **{old_width + i: new_width + i for i in range(len(semi.right.columns))}})
    return replace(semi, left=side, left_on=tuple(at[p] for p in semi.left_on), condition=condition)


def _push_or_keep(moved: Join, *, multiplied: bool) -> Node | None:
    """`moved` pushed further down, or left here if the join above multiplies its rows."""
    return _pushed(moved.left, moved) or (moved if multiplied else None)


def _multiplies(other: Node, on: tuple[int, ...], kind: str) -> bool:
    """Whether a row may match several rows of `other`."""
    return kind in ("inner", "left") and not (other.key is not None and set(other.key) <= set(on))
