"""Reuses arrangements that other views maintain, even if they hold more columns than this view reads.

    π_P(σ(T)) ⋈ B   =   π(π_Q(σ(T)) ⋈ B)        P ⊆ Q, both arranged by the same columns

`prune_columns` keeps only the columns that a view reads. Without this rewrite, two views that join the same table by
the same key but read different columns would each keep their own arrangement of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from tailrace.plan.expressions import remap
from tailrace.plan.joining import renamed, selected
from tailrace.plan.nodes import Filter, Join, Key, Node, Project, Scan, column_of, map_inputs, walk
from tailrace.plan.rewrite.merge_projects import merge_projects
from tailrace.plan.typing import Types


class _Side(NamedTuple):
    """A side of a join that is a filtered table."""

    kind: tuple[int, str, Key, tuple[bool, ...]]  # table, condition, columns it is arranged by, whether NULLs match
    columns: Key  # the table's position of each column
    node: Node


def reuse(root: Node, views: Iterable[Node], types: Types) -> Node:
    """The plan with join sides replaced by wider ones that the plans of `views` already have."""
    known: dict[object, list[_Side]] = {}
    if not any(isinstance(node, Join) for node in walk(root)):
        return root
    for view in views:
        for join in walk(view):
            for side in _sides(join) if isinstance(join, Join) else ():
                known.setdefault(side.kind, []).append(side)
    if not known:
        return root
    # merge_projects drops a projection that only renames columns, but the view needs its column names.
    return renamed(merge_projects(_widen(root, known), types), [c.name for c in root.columns])


def _widen(node: Node, known: dict[object, list[_Side]]) -> Node:
    node = map_inputs(node, lambda child: _widen(child, known))
    if not isinstance(node, Join):
        return node
    left, at_left = _widen_side(node.left, node.left_on, node.null_safe, known)
    right, at_right = _widen_side(node.right, node.right_on, node.null_safe, known)
    if left is node.left and right is node.right:
        return node
    at = {**at_left, **{len(node.left.columns) + p: len(left.columns) + q for p, q in at_right.items()}}
    join = replace(
        node,
        left=left,
        right=right,
        left_on=tuple(at_left[p] for p in node.left_on),
        right_on=tuple(at_right[p] for p in node.right_on),
        condition=None if node.condition is None else remap(node.condition, at),
    )
    return selected(join, [at[p] for p in range(len(node.columns))])


def _widen_side(
    node: Node, on: Key, null_safe: tuple[bool, ...], known: dict[object, list[_Side]]
) -> tuple[Node, dict[int, int]]:
    """The narrowest known side that has all columns of `node`, and their positions in it."""
    unchanged = {p: p for p in range(len(node.columns))}
    side = _side(node, on, null_safe)
    if side is None:
        return node, unchanged
    usable = [k for k in known.get(side.kind, ()) if set(side.columns) <= set(k.columns)]
    if not usable or any(k.columns == side.columns for k in usable):
        return node, unchanged
    best = min(usable, key=lambda k: len(k.columns))
    return best.node, {p: best.columns.index(c) for p, c in enumerate(side.columns)}


def _sides(join: Join) -> Iterator[_Side]:
    for node, on in ((join.left, join.left_on), (join.right, join.right_on)):
        side = _side(node, on, join.null_safe)
        if side is not None:
            yield side


def _side(node: Node, on: Key, null_safe: tuple[bool, ...]) -> _Side | None:
    source = _of_table(node)
    if source is None:
        return None
    table, condition, columns = source
    return _Side((table, condition, tuple(columns[p] for p in on), null_safe), columns, node)


def _of_table(node: Node) -> tuple[int, str, Key] | None:
    """The table, the condition over the table's positions, and each column's position in the table; else None."""
    match node:
        case Scan():
            return node.table_id, "", node.positions
        case Filter(source, condition):
            below = _of_table(source)
            if below is not None and not below[1]:
                return below[0], remap(condition, dict(enumerate(below[2]))), below[2]
        case Project(source, expressions):
            below, picked = _of_table(source), [column_of(e) for e in expressions]
            if below is not None and all(p is not None for p in picked):
                return below[0], below[1], tuple(below[2][p] for p in picked if p is not None)
    return None
