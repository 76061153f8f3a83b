"""Facts that a plan proves about its rows, whatever the tables hold: never NULL, exactly one row, never an error."""

from __future__ import annotations

from sqlglot import exp

from tailrace.plan.expressions import conjuncts, parse_expr, position_of
from tailrace.plan.nodes import Aggregate, Filter, Join, Node, OneRow, Project, Scan, UnionAll, column_of, walk

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)


def never_null(node: Node, position: int) -> bool:
    """Whether a column is never NULL: a primary key column, a count, a literal, or a filter or join excludes NULL."""
    match node:
        case Scan(table_key=key, positions=positions):
            return positions[position] in key
        case Filter(source, condition):
            return never_null(source, position) or any(_excludes_null(c, position) for c in conjuncts(condition))
        case Project(source, expressions):
            copied = column_of(expressions[position])
            if copied is not None:
                return never_null(source, copied)
            return isinstance(parse_expr(expressions[position]), exp.Literal | exp.Boolean)
        case Join():
            return _never_null_in_join(node, position)
        case Aggregate(source, groups, calls):
            if position < len(groups):
                return never_null(source, groups[position])
            return calls[position - len(groups)].function in ("count", "count_if")
        case UnionAll(branches):
            return all(never_null(b, position) for b in branches)
    return False


def _never_null_in_join(node: Join, position: int) -> bool:
    width = len(node.left.columns)
    if position < width:
        matched = node.kind in ("inner", "semi") and _is_join_key(node.left_on, node.null_safe, position)
        return node.kind not in ("right", "full") and (matched or never_null(node.left, position))
    matched = node.kind == "inner" and _is_join_key(node.right_on, node.null_safe, position - width)
    return node.kind in ("inner", "right") and (matched or never_null(node.right, position - width))


def _is_join_key(on: tuple[int, ...], null_safe: tuple[bool, ...], position: int) -> bool:
    return any(p == position and not safe for p, safe in zip(on, null_safe, strict=True))


def _excludes_null(condition: str, position: int) -> bool:
    """Whether the condition is never true where the column is NULL."""
    tree = parse_expr(condition)
    if isinstance(tree, _COMPARISONS):
        sides = [tree.this.unnest(), tree.expression.unnest()]
    elif isinstance(tree, exp.Not) and isinstance(tree.this, exp.Is) and isinstance(tree.this.expression, exp.Null):
        sides = [tree.this.this.unnest()]
    else:
        return False
    return any(isinstance(s, exp.Column) and len(s.parts) == 1 and position_of(s) == position for s in sides)


def may_raise(root: Node) -> bool:
    """Whether an expression of the plan raises errors: of the user, or the check of a scalar subquery."""
    for node in walk(root):
        texts = node.expressions if isinstance(node, Project) else ()
        texts = (node.condition,) if isinstance(node, Filter) else texts
        if any("raise_error(" in text.lower() for text in texts):
            return True
    return False


def has_one_row(node: Node) -> bool:
    """Whether a relation always has exactly one row."""
    match node:
        case Project(source):
            return has_one_row(source)
        case OneRow():
            return True
        case Aggregate(groups=groups):
            return not groups
        case Join(left, right, "inner", ()):
            return has_one_row(left) and has_one_row(right)
    return False
