"""Merges adjacent projections, adjacent filters and nested unions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tailrace.plan.expressions import conjoin, conjuncts, substitute
from tailrace.plan.nodes import (
    Filter,
    Node,
    Project,
    UnionAll,
    column_of,
    map_inputs,
)
from tailrace.plan.typing import Types

# Characters. Two projections whose merged text is longer stay apart: Spark would have to parse it, and no other view
# shares it.
_LONGEST = 8_000


def merge_projects(node: Node, types: Types) -> Node:
    """Merge two projections, two filters or two unions into one; drop a projection that changes nothing.

    project(_0 + 1, project(_2, scan t)) -> project(_2 + 1, scan t)
    """
    node = map_inputs(node, lambda child: merge_projects(child, types))
    match node:
        case Project(Project(source, inner, _), outer, output):
            composed = tuple(substitute(e, inner) for e in outer)
            if sum(map(len, composed)) <= max(_LONGEST, sum(map(len, (*inner, *outer)))):
                return merge_projects(Project(source, composed, output), types)
        case Project(source, expressions, output) if _is_identity(source, expressions):
            if [c.type for c in source.columns] == [c.type for c in output]:
                return source
        case Filter(Filter(source, inner_condition), condition):
            return Filter(source, conjoin([*conjuncts(inner_condition), *conjuncts(condition)]))
        case UnionAll(branches) if any(isinstance(b, UnionAll) for b in branches):
            return replace(node, branches=tuple(part for b in branches for part in _branches(b)))
    return node


def _is_identity(source: Node, expressions: Sequence[str]) -> bool:
    return [column_of(e) for e in expressions] == list(range(len(source.columns)))


def _branches(node: Node) -> Iterable[Node]:
    return node.branches if isinstance(node, UnionAll) else (node,)
