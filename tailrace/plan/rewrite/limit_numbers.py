"""Turns a filter on `row_number()` into a TopK, which keeps only the first rows of each partition."""

from __future__ import annotations

from sqlglot import exp

from tailrace.plan.expressions import conjuncts, parse_expr, position_of
from tailrace.plan.joining import filtered
from tailrace.plan.nodes import Filter, Node, TopK, Window, map_inputs
from tailrace.plan.typing import Types

# The comparison with its sides swapped: 3 >= n is n <= 3.
_SWAPPED = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE, exp.EQ: exp.EQ}


def limit_numbers(node: Node, types: Types) -> Node:
    """Replace a filter on `row_number()` that has an upper bound by a TopK.

    filter(_2 <= 3; window(row_number() by _0; t)) -> top(3 by _0; t)
    """
    return _as_top(map_inputs(node, lambda child: limit_numbers(child, types)))


def _as_top(node: Node) -> Node:
    """The conjuncts that bound the row number become the TopK's offset and limit; the others stay above it."""
    match node:
        case Filter(Window(source, partition, order, (call,)), condition) if call.function == "row_number":
            low, high, rest = _range(conjuncts(condition), len(source.columns))
            if high is not None:
                limit = max(high - low + 1, 0)
                return filtered(TopK(source, partition, order, low - 1, limit, True), rest)
    return node


def _range(conditions: list[str], position: int) -> tuple[int, int | None, list[str]]:
    """The least and the greatest row number that pass (None: no upper bound), and the other conditions."""
    low, high, rest = 1, None, []
    for condition in conditions:
        bounds = _bounds(parse_expr(condition), position)
        if bounds is None:
            rest.append(condition)
            continue
        low = max(low, bounds[0])
        if bounds[1] is not None:
            high = bounds[1] if high is None else min(high, bounds[1])
    return low, high, rest


def _bounds(tree: exp.Expr, position: int) -> tuple[int, int | None] | None:
    """The range in which a comparison of the column with literals holds; None for any other condition."""
    if isinstance(tree, exp.Between) and not tree.args.get("symmetric") and _is_column(tree.this, position):
        low, high = _integer(tree.args["low"]), _integer(tree.args["high"])
        return None if low is None or high is None else (low, high)
    kind = type(tree)
    if kind not in _SWAPPED:
        return None
    left, right = tree.this.unnest(), tree.expression.unnest()
    if _is_column(right, position):
        left, right, kind = right, left, _SWAPPED[kind]
    value = _integer(right)
    if not _is_column(left, position) or value is None:
        return None
    return {
        exp.LT: (1, value - 1),
        exp.LTE: (1, value),
        exp.GT: (value + 1, None),
        exp.GTE: (value, None),
        exp.EQ: (value, value),
    }[kind]


def _is_column(node: exp.Expr, position: int) -> bool:
    return isinstance(node, exp.Column) and len(node.parts) == 1 and position_of(node) == position


def _integer(node: exp.Expr) -> int | None:
    return int(node.name) if isinstance(node, exp.Literal) and node.is_int else None
