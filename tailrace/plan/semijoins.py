"""Where semi and anti joins stand among the others."""

from __future__ import annotations

from dataclasses import replace

from tailrace.plan.nodes import Filter, Join, Node, Project, column_of


def push_semi_join(semi: Join) -> Node | None:
    """A semi or anti join moved below the join that repeats the rows it decides on; None if there is none."""
    return _pushed(semi.left, semi) if semi.kind in ("semi", "anti") and semi.left_on else None


def _pushed(node: Node, semi: Join) -> Node | None:
    """`semi` applied somewhere below `node`, whose columns its `left_on` are of; None if that is of no use."""
    match node:
        case Filter(source):
            below = _pushed(source, semi)
            return below and replace(node, input=below)
        case Project(source, expressions):
            copied = [column_of(expressions[p]) for p in semi.left_on]
            on = tuple(p for p in copied if p is not None)
            below = _pushed(source, replace(semi, left=source, left_on=on)) if len(on) == len(copied) else None
            return below and replace(node, input=below)
        case Join(left, right, kind):
            width = len(left.columns)
            if max(semi.left_on) < width and kind in ("inner", "left", "semi", "anti"):
                below = _below(left, semi, semi.left_on, repeated=_repeats(right, node.right_on, kind))
                return below and replace(node, left=below)
            if min(semi.left_on) >= width and kind == "inner":
                on = tuple(p - width for p in semi.left_on)
                below = _below(right, semi, on, repeated=_repeats(left, node.left_on, kind))
                return below and replace(node, right=below)
    return None


def _below(side: Node, semi: Join, on: tuple[int, ...], *, repeated: bool) -> Node | None:
    moved = replace(semi, left=side, left_on=on)
    return _pushed(side, moved) or (moved if repeated else None)


def _repeats(other: Node, on: tuple[int, ...], kind: str) -> bool:
    """Whether a row may meet several of `other`."""
    return kind in ("inner", "left") and not (other.key is not None and set(other.key) <= set(on))
