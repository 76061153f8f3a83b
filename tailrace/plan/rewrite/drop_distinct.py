"""Drops a DISTINCT whose columns include a key of its input."""

from __future__ import annotations

from tailrace.delta import column
from tailrace.plan.nodes import (
    Aggregate,
    Node,
    Project,
    map_inputs,
)
from tailrace.plan.typing import Types


def drop_distinct(node: Node, types: Types) -> Node:
    """Drop a DISTINCT whose columns include a key of its input: the rows are distinct already.

    aggregate((0, 1), (), scan t key (0)) -> scan t key (0)
    """
    node = map_inputs(node, lambda child: drop_distinct(child, types))
    match node:
        case Aggregate(source, groups, ()) if source.key and set(source.key) <= set(groups):
            output = tuple(source.columns[p] for p in groups)
            return Project(source, tuple(column(p) for p in groups), output)
    return node
