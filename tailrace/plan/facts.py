"""Facts that a plan proves about its rows, whatever the tables hold: never NULL, at most one row, never an error."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from tailrace.plan.expressions import conjuncts, equality, parse_expr, position_of, refs
from tailrace.plan.nodes import Aggregate, Filter, Join, Node, OneRow, Project, Scan, TopK, UnionAll, column_of, walk
from tailrace.plan.typing import Types
from tailrace.types import INTEGERS

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


def has_at_most_one_row(node: Node, fixed: Iterable[int], types: Types) -> bool:
    """Whether there is at most one row for given values of the `fixed` columns."""
    return _Dependencies(types).of(node, frozenset(fixed))[1]


class _Dependencies:
    """Functional dependencies: given fixed columns, the columns with one value, and whether there is only one row.

    Operators not handled here count as having many rows.
    """

    def __init__(self, types: Types) -> None:
        self._types = types

    def of(self, node: Node, fixed: frozenset[int]) -> tuple[frozenset[int], bool]:
        determined, single = self._of(node, fixed)
        single = single or (node.key is not None and determined.issuperset(node.key))
        return (frozenset(range(len(node.columns))), True) if single else (determined, False)

    def _of(self, node: Node, fixed: frozenset[int]) -> tuple[frozenset[int], bool]:
        match node:
            case Filter(source, condition):
                return self._filter(source, conjuncts(condition), fixed)
            case Project(source, expressions):
                copied = (column_of(expressions[p]) for p in fixed)
                determined, single = self.of(source, frozenset(c for c in copied if c is not None))
                shown = (i for i, e in enumerate(expressions) if refs(e) <= determined)
                return fixed.union(shown), single
            case Aggregate(source, groups, _):
                if not groups:
                    return fixed, True
                determined, single = self.of(source, frozenset(groups[p] for p in fixed if p < len(groups)))
                return fixed.union(i for i, g in enumerate(groups) if g in determined), single
            case Join():
                return self._join(node, fixed)
            case OneRow():
                return fixed, True
            case TopK(source, partition, limit=limit):
                determined, single = self.of(source, frozenset(p for p in fixed if p < len(source.columns)))
                first_row = limit is not None and limit <= 1 and determined.issuperset(partition)
                return fixed | determined, single or first_row
        return fixed, False

    def _filter(self, source: Node, condition: list[str], fixed: frozenset[int]) -> tuple[frozenset[int], bool]:
        while True:
            determined, single = self.of(source, fixed)
            grown = determined.union(*(self._equated(c, source, determined) for c in condition))
            if grown == determined:
                return determined, single
            fixed = grown

    def _equated(self, condition: str, source: Node, determined: frozenset[int]) -> Iterable[int]:
        """The columns that an equality with a constant or with determined columns determines."""
        sides = equality(condition)
        if sides is None:
            return
        for side, other_side in (sides[:2], sides[1::-1]):
            position = column_of(side)
            if position is None or not refs(other_side) <= determined:
                continue
            kind, other_kind = self._types.of(source.columns, [side, other_side])
            common = self._types.compared(kind, other_kind)
            # Not if the column is cast to compare it: a string column may hold '1' and '01', and both equal 1.
            if common == kind or (kind in INTEGERS and common in INTEGERS):
                yield position

    def _join(self, node: Join, fixed: frozenset[int]) -> tuple[frozenset[int], bool]:
        width = len(node.left.columns)
        left = frozenset(p for p in fixed if p < width)
        right = frozenset(p - width for p in fixed if p >= width)
        if node.kind in ("semi", "anti"):
            return self.of(node.left, left)
        if node.kind in ("right", "full"):
            return fixed, False
        for _ in range(2):  # the second time with what the right side determines of the left
            left, single_left = self.of(node.left, left)
            right |= {b for a, b in zip(node.left_on, node.right_on, strict=True) if a in left}
            right, single_right = self.of(node.right, right)
            if node.kind == "inner":
                left |= {a for a, b in zip(node.left_on, node.right_on, strict=True) if b in right}
        # A left join pads unmatched rows: its right columns then have a second value, NULL.
        shown = right if node.kind == "inner" or single_left else frozenset(p - width for p in fixed if p >= width)
        return left | {p + width for p in shown}, single_left and single_right
