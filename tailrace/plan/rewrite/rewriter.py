"""Runs all rewrites of a plan: each gives an equivalent plan that is cheaper to maintain.

A rewrite is a function from a node to a node. `REWRITES` is their order; `rewrite` repeats them until nothing changes.
Each docstring has an example in the notation of `explain.compact`; `tests/fixtures/plan/<rewrite>.sql` has more.
"""

from __future__ import annotations

from collections.abc import Callable

from tailrace.plan.joining import renamed
from tailrace.plan.nodes import Node
from tailrace.plan.rewrite.drop_distinct import drop_distinct
from tailrace.plan.rewrite.fold_literals import fold_literals
from tailrace.plan.rewrite.limit_numbers import limit_numbers
from tailrace.plan.rewrite.merge_projects import merge_projects
from tailrace.plan.rewrite.order_joins import order_joins
from tailrace.plan.rewrite.prune_columns import prune_columns
from tailrace.plan.rewrite.push_filters import push_filters
from tailrace.plan.rewrite.push_semi_joins import push_semi_joins
from tailrace.plan.typing import Typer, Types

Rewrite = Callable[[Node, Types], Node]

_MAX_ROUNDS = 12

REWRITES: tuple[Rewrite, ...] = (
    push_filters,
    fold_literals,
    limit_numbers,
    order_joins,
    push_semi_joins,
    merge_projects,
    drop_distinct,
    prune_columns,
)


def rewrite(node: Node, typer: Typer | Types) -> Node:
    """Apply all rewrites until the plan no longer changes. The root keeps its columns and their names."""
    types = typer if isinstance(typer, Types) else Types(typer)
    names = [c.name for c in node.columns]
    for _ in range(_MAX_ROUNDS):
        before = node.fingerprint
        for rule in REWRITES:
            node = rule(node, types)
        if node.fingerprint == before:
            break
    # Column names are not part of a plan's meaning: merge_projects drops a projection that only renames.
    return renamed(node, names)
