"""Removes columns that no node above reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tailrace.plan.expressions import refs, remap
from tailrace.plan.joining import selected
from tailrace.plan.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
    Node,
    OneRow,
    Order,
    Project,
    Scan,
    TopK,
    UnionAll,
    Window,
)
from tailrace.plan.typing import Types

Layout = dict[int, int]  # from a column's position before pruning to its position after


def prune_columns(node: Node, types: Types) -> Node:
    """Keep only the columns that a node above reads; below a join, also the key.

    project(_1, filter(_2 > 1, scan t(0, 1, 2, 3))) -> project(_0, filter(_1 > 1, scan t(1, 2)))
    """
    return _exactly(node, range(len(node.columns)))


def _exactly(node: Node, positions: Iterable[int]) -> Node:
    """The node pruned to exactly these columns, in this order."""
    needed = list(positions)
    pruned, layout = _prune(node, set(needed))
    return selected(pruned, [layout[p] for p in needed])


def _prune(node: Node, needed: set[int]) -> tuple[Node, Layout]:
    """A node that has at least the needed columns, and their new positions."""
    match node:
        case Scan():
            return _prune_scan(node, needed)
        case OneRow():
            return node, {}
        case Filter(source, condition):
            pruned, layout = _prune(source, needed | refs(condition))
            return Filter(pruned, remap(condition, layout)), layout
        case Project():
            return _prune_project(node, needed)
        case Generate():
            return _prune_generate(node, needed)
        case Join():
            return _prune_join(node, needed)
        case Aggregate():
            return _prune_aggregate(node, needed)
        case Window():
            return _prune_window(node, needed)
        case TopK():
            return _prune_top(node, needed)
        case UnionAll(branches):
            kept = sorted(needed) or [0]
            at = _layout(kept)
            unique = node.unique if node.unique is not None and set(node.unique) <= at.keys() else None
            moved = None if unique is None else tuple(at[p] for p in unique)
            return UnionAll(tuple(_exactly(b, kept) for b in branches), moved), at
    raise TypeError(type(node).__name__)


def _layout(kept: Iterable[int]) -> Layout:
    return {p: i for i, p in enumerate(kept)}


def _prune_scan(node: Scan, needed: set[int]) -> tuple[Node, Layout]:
    # Rows without columns cannot be counted, so keep one: a key column, which is never NULL.
    kept = sorted(needed) or list(node.key or (0,))[:1]
    return replace(node, positions=tuple(node.positions[p] for p in kept)), _layout(kept)


def _prune_project(node: Project, needed: set[int]) -> tuple[Node, Layout]:
    kept = sorted(needed) or [0]
    expressions = [node.expressions[p] for p in kept]
    source, layout = _prune(node.input, set().union(*(refs(e) for e in expressions)))
    pruned = Project(source, tuple(remap(e, layout) for e in expressions), tuple(node.output[p] for p in kept))
    return pruned, _layout(kept)


def _prune_generate(node: Generate, needed: set[int]) -> tuple[Node, Layout]:
    width = len(node.input.columns)
    kept = sorted({p for p in needed if p < width} | refs(node.generator))
    at = _layout(kept)
    pruned = replace(node, input=_exactly(node.input, kept) if kept else _prune(node.input, set())[0])
    start = len(pruned.input.columns)
    pruned = replace(pruned, generator=remap(node.generator, at))
    return pruned, at | {width + i: start + i for i in range(len(node.output))}


def _prune_join(node: Join, needed: set[int]) -> tuple[Node, Layout]:
    width = len(node.left.columns)
    if node.condition is not None:
        needed = needed | refs(node.condition)
    # The arrangement of a side holds its rows: with their key they stay distinct.
    left = sorted({p for p in needed if p < width} | set(node.left_on) | set(node.left.key or ())) or [0]
    right = sorted({p - width for p in needed if p >= width} | set(node.right_on) | set(node.right.key or ())) or [0]
    left_at, right_at = _layout(left), _layout(right)
    at = left_at | {width + p: len(left) + i for p, i in right_at.items()}
    pruned = replace(
        node,
        left=_exactly(node.left, left),
        right=_exactly(node.right, right),
        left_on=tuple(left_at[p] for p in node.left_on),
        right_on=tuple(right_at[p] for p in node.right_on),
        condition=None if node.condition is None else remap(node.condition, at),
    )
    return pruned, at


def _prune_aggregate(node: Aggregate, needed: set[int]) -> tuple[Node, Layout]:
    count = len(node.groups)
    calls = [i for i in range(len(node.calls)) if count + i in needed]
    if not calls and not node.groups:
        # Keep one call: an Aggregate without groups and calls would be DISTINCT of no columns.
        calls = [0]
    kept = [node.calls[i] for i in calls]
    read = sorted(set(node.groups) | {p for call in kept for p in call.args})
    if not read and node.input.columns:
        read = list((node.input.key or (0,))[:1])
    at = _layout(read)
    pruned = Aggregate(
        _exactly(node.input, read),
        tuple(at[p] for p in node.groups),
        tuple(replace(c, args=tuple(at[p] for p in c.args), sql=remap(c.sql, at)) for c in kept),
    )
    return pruned, _layout([*range(count), *(count + i for i in calls)])


def _prune_window(node: Window, needed: set[int]) -> tuple[Node, Layout]:
    width = len(node.input.columns)
    calls = [i for i in range(len(node.calls)) if width + i in needed]
    if not calls:
        return _prune(node.input, needed)
    kept = [node.calls[i] for i in calls]
    source, at = _prune_partitions(node, {p for p in needed if p < width} | {p for call in kept for p in call.args})
    pruned = Window(
        source,
        tuple(at[p] for p in node.partition),
        _remap_order(node.order, at),
        tuple(replace(c, args=tuple(at[p] for p in c.args), sql=remap(c.sql, at)) for c in kept),
    )
    return pruned, at | {width + i: len(at) + n for n, i in enumerate(calls)}


def _prune_top(node: TopK, needed: set[int]) -> tuple[Node, Layout]:
    width = len(node.input.columns)
    source, at = _prune_partitions(node, {p for p in needed if p < width})
    pruned = replace(
        node,
        input=source,
        partition=tuple(at[p] for p in node.partition),
        order=_remap_order(node.order, at),
        numbered=node.numbered and width in needed,
    )
    return pruned, at | ({width: len(at)} if pruned.numbered else {})


def _prune_partitions(node: Window | TopK, read: set[int]) -> tuple[Node, Layout]:
    """The input with the columns that are read, the partition, the order, and the key (which breaks ties)."""
    kept = sorted(read | set(node.partition) | {p for p, _, _ in node.order} | set(node.input.key or ())) or [0]
    return _exactly(node.input, kept), _layout(kept)


def _remap_order(order: Order, at: Layout) -> Order:
    return tuple((at[p], ascending, nulls_first) for p, ascending, nulls_first in order)
