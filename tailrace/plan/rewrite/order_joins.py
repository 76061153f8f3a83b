"""The order of inner joins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tailrace.delta import column
from tailrace.plan.expressions import conjuncts, refs, remap
from tailrace.plan.joining import filtered, joined, link, selected
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
    """A relation of a chain of inner joins, and where its columns begin in the chain's output."""

    node: Node
    start: int

    def has(self, positions: frozenset[int]) -> bool:
        return all(self.start <= p < self.start + len(self.node.columns) for p in positions)

    def positions(self) -> range:
        return range(self.start, self.start + len(self.node.columns))


def order_joins(node: Node, types: Types) -> Node:
    """Join the relations of a chain of inner joins so that each meets the others by equal columns.

    FROM lists tables in any order and WHERE says how they meet; joined as written, two tables that only
    meet through a third would be multiplied first.

    filter(_0 = _4 AND _2 = _5, join((), join((), a, b), c)) -> project(join(a.0 = c.0, b.0 = c.1))
    """
    leaves, conditions = _flatten(node, 0)
    if len(leaves) == 1:
        return _below(node, types)
    leaves = [replace(leaf, node=order_joins(leaf.node, types)) for leaf in leaves]
    leaves, conditions = _filter_leaves(leaves, conditions)
    return _joined(leaves, conditions, types)


def _below(node: Node, types: Types) -> Node:
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
    """The relations of a chain of inner joins and all its conditions, over the chain's output."""
    match node:
        case Join(left, right, "inner", left_on, right_on, null_safe):
            width = len(left.columns)
            one, first = _flatten(left, start)
            other, second = _flatten(right, start + width)
            keys = [
                f"{column(start + a)} {'<=>' if safe else '='} {column(start + width + b)}"
                for a, b, safe in zip(left_on, right_on, null_safe, strict=True)
            ]
            return one + other, first + second + keys
        case Filter(source, condition):
            leaves, conditions = _flatten(source, start)
            if len(leaves) > 1:
                here = [remap(c, {p: p + start for p in refs(c)}) for c in conjuncts(condition)]
                return leaves, conditions + here
    return [_Leaf(node, start)], []


def _filter_leaves(leaves: list[_Leaf], conditions: list[str]) -> tuple[list[_Leaf], list[str]]:
    """Conditions that read one relation, put on that relation."""
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


def _joined(leaves: list[_Leaf], conditions: list[str], types: Types) -> Node:
    todo = list(leaves)
    first = todo.pop(0)
    node, layout = first.node, list(first.positions())
    while todo:
        leaf = _next(todo, layout, conditions)
        todo.remove(leaf)
        layout += leaf.positions()
        at = {p: i for i, p in enumerate(layout)}
        now = [c for c in conditions if refs(c) <= at.keys()]
        conditions = [c for c in conditions if c not in now]
        node = joined(node, leaf.node, "inner", [remap(c, at) for c in now], types)
    back = {p: i for i, p in enumerate(layout)}
    return selected(node, [back[p] for p in sorted(layout)])


def _next(todo: Sequence[_Leaf], layout: Sequence[int], conditions: Sequence[str]) -> _Leaf:
    """The relation to join next: one of which at most one row meets each row so far, else one that meets
    them by an equality at all, else the first."""
    linked = [(leaf, set(_met_columns(leaf, layout, conditions))) for leaf in todo]
    for leaf, met in linked:
        if met and leaf.node.key is not None and set(leaf.node.key) <= met:
            return leaf
    return next((leaf for leaf, met in linked if met), todo[0])


def _met_columns(leaf: _Leaf, layout: Sequence[int], conditions: Sequence[str]) -> Iterator[int]:
    """The leaf's columns that an equality ties to what is joined already (-1: an expression over them)."""
    at = {p: i for i, p in enumerate((*layout, *leaf.positions()))}
    for condition in conditions:
        if refs(condition) <= at.keys():
            found = link(remap(condition, at), len(layout))
            if found is not None:
                position = column_of(found[1])
                yield -1 if position is None else position
