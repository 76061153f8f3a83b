"""Decides comparisons of two literals, and drops what they exclude."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tailrace.plan.expressions import conjuncts, parse_expr
from tailrace.plan.joining import filtered
from tailrace.plan.nodes import Aggregate, Filter, Generate, Join, Node, Project, TopK, UnionAll, Window, map_inputs
from tailrace.plan.typing import Types


def fold_literals(node: Node, types: Types) -> Node:
    """Remove conditions that always hold, and the branches of a union that have no rows because one never holds.

    A query that gives each branch of a union a name and then selects one of them reads only that one.

    union(filter('a' = 'b'; t), filter('b' = 'b'; u)) -> u
    """
    node = map_inputs(node, lambda child: fold_literals(child, types))
    match node:
        case Filter(source, condition):
            parts = conjuncts(condition)
            open_parts = [part for part in parts if _decide(part) is not True]
            return node if len(open_parts) == len(parts) else filtered(source, open_parts)
        case UnionAll(branches, unique):
            kept = tuple(b for b in branches if not _is_empty(b)) or branches[:1]
            if len(kept) == 1 and unique is None:
                return kept[0]
            return node if len(kept) == len(branches) else replace(node, branches=kept)
    return node


def _decide(condition: str) -> bool | None:
    """The value of a comparison of two literals; None for any other condition."""
    tree = parse_expr(condition)
    if isinstance(tree, exp.Boolean):
        return bool(tree.this)
    if not isinstance(tree, exp.EQ | exp.NullSafeEQ | exp.NEQ):
        return None
    left, right = _literal(tree.this.unnest()), _literal(tree.expression.unnest())
    if left is None or right is None or type(left) is not type(right):
        return None
    return (left != right) if isinstance(tree, exp.NEQ) else (left == right)


def _literal(node: exp.Expr) -> str | int | None:
    """The value of a string or an integer; None for anything else: decimals and doubles are left to Spark."""
    if not isinstance(node, exp.Literal):
        return None
    return str(node.this) if node.is_string else int(node.this) if node.is_int else None


def _is_empty(node: Node) -> bool:
    """Whether a condition that never holds leaves the relation without rows."""
    match node:
        case Filter(source, condition):
            return _is_empty(source) or any(_decide(part) is False for part in conjuncts(condition))
        case Project(source) | Generate(source) | Window(source) | TopK(source):
            return _is_empty(source)
        case Aggregate(source, groups):
            return bool(groups) and _is_empty(source)
        case Join(left, right, kind):
            no_left, no_right = _is_empty(left), _is_empty(right)
            if kind in ("inner", "semi"):
                return no_left or no_right
            return no_right if kind == "right" else no_left and (kind != "full" or no_right)
    return False
