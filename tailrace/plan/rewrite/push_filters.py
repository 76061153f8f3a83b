"""Pushes filters down, below the operators that do not need the filtered rows."""

from __future__ import annotations

from dataclasses import replace

from tailrace.plan.expressions import conjoin, conjuncts, refs, remap, shift, substitute
from tailrace.plan.joining import filtered
from tailrace.plan.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
    Node,
    Project,
    TopK,
    UnionAll,
    Window,
)
from tailrace.plan.typing import Types


def push_filters(node: Node, types: Types) -> Node:
    """Move each conjunct of a filter down to the lowest node that has the columns it reads.

    filter(_0 > 1, project(_2, scan t)) -> project(_2, filter(_2 > 1, scan t))
    """
    return _push(node, [])


def _push(node: Node, conditions: list[str]) -> Node:
    match node:
        case Filter(source, condition):
            return _push(source, [*conjuncts(condition), *conditions])
        case Project(source, expressions, output):
            below = [_tidy(substitute(c, expressions)) for c in conditions]
            return Project(_push(source, below), expressions, output)
        case UnionAll(branches):
            return replace(node, branches=tuple(_push(b, conditions) for b in branches))
        case Aggregate():
            return _push_aggregate(node, conditions)
        case Generate():
            return _push_generate(node, conditions)
        case Join():
            return _push_join(node, conditions)
        case Window() | TopK():
            return _push_partitions(node, conditions)
        case _:
            return filtered(node, conditions)


def _tidy(text: str) -> str:
    return conjoin(conjuncts(text))


def _push_aggregate(node: Aggregate, conditions: list[str]) -> Node:
    # A condition on group columns drops whole groups, so it may come first. Unsafe for a condition without columns:
    # below a global aggregate it would empty the input, but the one row of the result would stay.
    groups = dict(enumerate(node.groups))
    below = [c for c in conditions if refs(c) and refs(c) <= groups.keys()]
    above = [c for c in conditions if c not in below]
    source = _push(node.input, [remap(c, groups) for c in below])
    return filtered(replace(node, input=source), above)


def _push_generate(node: Generate, conditions: list[str]) -> Node:
    below = [c for c in conditions if refs(c) and max(refs(c)) < len(node.input.columns)]
    above = [c for c in conditions if c not in below]
    return filtered(replace(node, input=_push(node.input, below)), above)


def _push_partitions(node: Window | TopK, conditions: list[str]) -> Node:
    # A condition on partition columns drops whole partitions. Unsafe for any other: the results of other rows change.
    below = [c for c in conditions if refs(c) and refs(c) <= set(node.partition)]
    above = [c for c in conditions if c not in below]
    return filtered(replace(node, input=_push(node.input, below)), above)


def _push_join(node: Join, conditions: list[str]) -> Node:
    # Unsafe on the side that an outer join pads: fewer rows there make more unmatched rows, not fewer rows.
    width = len(node.left.columns)
    to_left = node.kind in ("inner", "left", "semi", "anti")
    to_right = node.kind in ("inner", "right")
    left, right, above = [], [], []
    for condition in conditions:
        read = refs(condition)
        if to_left and read and max(read) < width:
            left.append(condition)
        elif to_right and read and min(read) >= width:
            right.append(shift(condition, -width))
        else:
            above.append(condition)
    return filtered(replace(node, left=_push(node.left, left), right=_push(node.right, right)), above)
