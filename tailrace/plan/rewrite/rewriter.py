"""Rewrites of a plan into one that means the same and is cheaper to maintain.

Each is a function from a node to a node; `REWRITES` is the order, `rewrite` repeats it until nothing
changes. The examples are in the compact notation of `explain.compact`; more, and the tests, are in
`tests/fixtures/plan/<rewrite>.sql`.
"""

from __future__ import annotations

from collections.abc import Callable

from tailrace.plan.joining import renamed
from tailrace.plan.nodes import Node
from tailrace.plan.rewrite.drop_distinct import drop_distinct
from tailrace.plan.rewrite.limit_numbers import limit_numbers
from tailrace.plan.rewrite.merge_projects import merge_projects
from tailrace.plan.rewrite.order_joins import order_joins
from tailrace.plan.rewrite.prune_columns import prune_columns
from tailrace.plan.rewrite.push_filters import push_filters
from tailrace.plan.rewrite.push_semi_joins import push_semi_joins
from tailrace.plan.typing import Typer, Types

Rewrite = Callable[[Node, Types], Node]

_ROUNDS = 12

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
