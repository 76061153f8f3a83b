"""Rewrites of a plan into one that means the same and is cheaper to maintain.

Each is a function from a node to a node; `REWRITES` is the order, `rewrite` repeats it until nothing
changes. The examples are in the compact notation of `explain.compact`; more, and the tests, are in
`tests/fixtures/plan/<rewrite>.sql`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tailrace.plan.environment import renamed
from tailrace.plan.expressions import column, conjoin, conjuncts, refs, remap, shift, substitute
from tailrace.plan.joining import filtered
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
from tailrace.plan.numbering import first_numbers
from tailrace.plan.ordering import order_joins
from tailrace.plan.pruning import prune_columns
from tailrace.plan.semijoins import push_semi_join
from tailrace.plan.typer import Typer, Types

Rewrite = Callable[[Node, Types], Node]

_ROUNDS = 12
# Past this a composed projection is text that nobody shares and Spark must parse: better two nodes.
_LONGEST = 8_000


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
    # A condition on groups alone drops whole groups, before or after. Not so in a global aggregate, which
    # has its one row whatever is below.
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
    # A condition on partitions alone drops whole partitions; any other would change what their rows see.
    below = [c for c in conditions if refs(c) and refs(c) <= set(node.partition)]
    above = [c for c in conditions if c not in below]
    return filtered(replace(node, input=_push(node.input, below)), above)


def _push_join(node: Join, conditions: list[str]) -> Node:
    # Below the side that an outer join pads, a condition would make more rows unmatched instead of fewer.
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


def merge_projects(node: Node, types: Types) -> Node:
    """Make one projection of two, one filter of two, one union of two; drop projections that do nothing.

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


def push_semi_joins(node: Node, types: Types) -> Node:
    """Let a semi or anti join decide on rows before another join repeats them.

    semi(0=0, inner(0=0, a, b key (0, 1)), c) -> inner(0=0, semi(0=0, a, c), b key (0, 1))
    """
    node = map_inputs(node, lambda child: push_semi_joins(child, types))
    return (push_semi_join(node) if isinstance(node, Join) else None) or node


def drop_distinct(node: Node, types: Types) -> Node:
    """Drop a DISTINCT over rows that a key already makes distinct.

    aggregate((0, 1), (), scan t key (0)) -> scan t key (0)
    """
    node = map_inputs(node, lambda child: drop_distinct(child, types))
    match node:
        case Aggregate(source, groups, ()) if source.key and set(source.key) <= set(groups):
            output = tuple(source.columns[p] for p in groups)
            return Project(source, tuple(column(p) for p in groups), output)
    return node


def limit_numbers(node: Node, types: Types) -> Node:
    """Keep the first rows of each partition where a filter on their numbers asks for no others.

    filter(_2 <= 3; window(row_number() by _0; t)) -> top(3 by _0; t)
    """
    return first_numbers(map_inputs(node, lambda child: limit_numbers(child, types)))


def map_inputs(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node over changed inputs."""
    match node:
        case Scan() | OneRow():
            return node
        case Join(left, right):
            return replace(node, left=change(left), right=change(right))
        case UnionAll(branches):
            return replace(node, branches=tuple(change(b) for b in branches))
        case Filter() | Project() | Generate() | Aggregate() | Window() | TopK():
            return replace(node, input=change(node.input))
    raise TypeError(type(node).__name__)


REWRITES: tuple[Rewrite, ...] = (
    push_filters,
    limit_numbers,
    order_joins,
    push_semi_joins,
    merge_projects,
    drop_distinct,
    prune_columns,
)


def rewrite(node: Node, typer: Typer | Types) -> Node:
    """All rewrites, repeated until the plan stays the same; the columns of the root stay as they are."""
    types = typer if isinstance(typer, Types) else Types(typer)
    names = [c.name for c in node.columns]
    for _ in range(_ROUNDS):
        before = node.fingerprint
        for rule in REWRITES:
            node = rule(node, types)
        if node.fingerprint == before:
            break
    # Within a plan names mean nothing, so a projection that only renames was dropped.
    return renamed(node, names)
