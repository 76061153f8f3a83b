"""Reorders inner joins so that each joins by equal columns, not as a cross product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tailrace.delta import column
from tailrace.plan.expressions import conjuncts, refs, remap
from tailrace.plan.joining import as_join_key, filtered, joined, selected
from tailrace.plan.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
    Node,
    OneRow,
    Project,
    Scan,
    TopK,
    UnionAll,
    Window,
    column_of,
)
from tailrace.plan.typing import Types


@dataclass(frozen=True)
class _Leaf:
    """One relation in a chain of inner joins. `start` is the position of its first column in the chain's output."""

    node: Node
    start: int

    def has(self, positions: frozenset[int]) -> bool:
        return all(self.start <= p < self.start + len(self.node.columns) for p in positions)

    def positions(self) -> range:
        return range(self.start, self.start + len(self.node.columns))


def order_joins(node: Node, types: Types) -> Node:
    """Order the relations of a chain of inner joins so that each has an equality with those before it.

    FROM lists tables in any order, and WHERE holds the join conditions. Joined as written, two tables that have a
    condition only with a third one would first be a cross product.

    filter(_0 = _4 AND _2 = _5, join((), join((), a, b), c)) -> project(join(a.0 = c.0, b.0 = c.1))
    """
    leaves, conditions = _flatten(node, 0)
    if len(leaves) == 1:
        return _order_inputs(node, types)
    leaves = [replace(leaf, node=order_joins(leaf.node, types)) for leaf in leaves]
    leaves, conditions = _filter_leaves(leaves, conditions)
    return _join_leaves(leaves, conditions, types)


def _order_inputs(node: Node, types: Types) -> Node:
    match node:
        case Scan() | OneRow():
            return node
        case Join(left, right):
            return replace(node, left=order_joins(left, types), right=order_joins(right, types))
        case UnionAll(branches):
            return replace(node, branches=tuple(order_joins(b, types) for b in branches))
        case Filter() | Project() | Generate() | Aggregate() | Window() | TopK():
            return replace(node, input=order_joins(node.input, types))
    raise TypeError(type(node).__name__)


def _flatten(node: Node, start: int) -> tuple[list[_Leaf], list[str]]:
    """The relations of a chain of inner joins, and all its conditions over the chain's output."""
    match node:
        case Join(left, right, "inner", left_on, right_on, null_safe):
            width = len(left.columns)
            left_leaves, left_conditions = _flatten(left, start)
            right_leaves, right_conditions = _flatten(right, start + width)
            keys = [
                f"{column(start + a)} {'<=>' if safe else '='} {column(start + width + b)}"
                for a, b, safe in zip(left_on, right_on, null_safe, strict=True)
            ]
            return left_leaves + right_leaves, left_conditions + right_conditions + keys
        case Filter(source, condition):
            leaves, conditions = _flatten(source, start)
            if len(leaves) > 1:
                own = [remap(c, {p: p + start for p in refs(c)}) for c in conjuncts(condition)]
                return leaves, conditions + own
    return [_Leaf(node, start)], []


def _filter_leaves(leaves: list[_Leaf], conditions: list[str]) -> tuple[list[_Leaf], list[str]]:
    """Apply each condition that reads one relation to that relation; returns the others too."""
    left_over = []
    own: dict[int, list[str]] = {}
    for condition in conditions:
        read = refs(condition)
        owner = next((i for i, leaf in enumerate(leaves) if read and leaf.has(read)), None)
        if owner is None:
            left_over.append(condition)
        else:
            start = leaves[owner].start
            own.setdefault(owner, []).append(remap(condition, {p: p - start for p in read}))
    return [replace(leaf, node=filtered(leaf.node, own.get(i, []))) for i, leaf in enumerate(leaves)], left_over


def _join_leaves(leaves: list[_Leaf], conditions: list[str], types: Types) -> Node:
    todo = list(leaves)
    first = todo.pop(0)
    node, layout = first.node, list(first.positions())
    while todo:
        leaf = _next(todo, layout, conditions)
        todo.remove(leaf)
        layout += leaf.positions()
        at = {p: i for i, p in enumerate(layout)}
        ready = [c for c in conditions if refs(c) <= at.keys()]
        conditions = [c for c in conditions if c not in ready]
        node = joined(node, leaf.node, "inner", [remap(c, at) for c in ready], types)
    original_order = {p: i for i, p in enumerate(layout)}
    return selected(node, [original_order[p] for p in sorted(layout)])


def _next(todo: Sequence[_Leaf], layout: Sequence[int], conditions: Sequence[str]) -> _Leaf:
    """The relation to join next: preferably one joined by its whole key (at most one match per row), then one joined
    by any equality, then the first."""
    candidates = [(leaf, set(_join_columns(leaf, layout, conditions))) for leaf in todo]
    for leaf, on in candidates:
        if on and leaf.node.key is not None and set(leaf.node.key) <= on:
            return leaf
    return next((leaf for leaf, on in candidates if on), todo[0])


def _join_columns(leaf: _Leaf, layout: Sequence[int], conditions: Sequence[str]) -> Iterator[int]:
    """The leaf's columns that have an equality with the relations in `layout` (-1: an expression over its columns)."""
    at = {p: i for i, p in enumerate((*layout, *leaf.positions()))}
    for condition in conditions:
        if refs(condition) <= at.keys():
            key = as_join_key(remap(condition, at), len(layout))
            if key is not None:
                position = column_of(key[1])
                yield -1 if position is None else position
