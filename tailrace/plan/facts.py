"""What a plan says of its rows without looking at them: columns never NULL, at most one row."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from tailrace.plan.expressions import conjuncts, equality, parse_expr, position_of, refs
from tailrace.plan.nodes import Aggregate, Filter, Join, Node, OneRow, Project, Scan, TopK, UnionAll, column_of
from tailrace.plan.typing import Types
from tailrace.types import INTEGERS

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)


def never_null(node: Node, position: int) -> bool:
    """Whether a column is never NULL: it is of a primary key, counts, or a condition has seen to it."""
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
        matched = node.kind in ("inner", "semi") and _is_matched(node.left_on, node.null_safe, position)
        return node.kind not in ("right", "full") and (matched or never_null(node.left, position))
    matched = node.kind == "inner" and _is_matched(node.right_on, node.null_safe, position - width)
    return node.kind in ("inner", "right") and (matched or never_null(node.right, position - width))


def _is_matched(on: tuple[int, ...], null_safe: tuple[bool, ...], position: int) -> bool:
    return any(p == position and not safe for p, safe in zip(on, null_safe, strict=True))


def _excludes_null(condition: str, position: int) -> bool:
    tree = parse_expr(condition)
    if isinstance(tree, _COMPARISONS):
        sides = [tree.this.unnest(), tree.expression.unnest()]
    elif isinstance(tree, exp.Not) and isinstance(tree.this, exp.Is) and isinstance(tree.this.expression, exp.Null):
        sides = [tree.this.this.unnest()]
    else:
        return False
    return any(isinstance(s, exp.Column) and len(s.parts) == 1 and position_of(s) == position for s in sides)


def one_row(node: Node) -> bool:
    """Whether a relation has exactly one row, whatever the tables hold."""
    match node:
        case Project(source):
            return one_row(source)
        case OneRow():
            return True
        case Aggregate(groups=groups):
            return not groups
        case Join(left, right, "inner", ()):
            return one_row(left) and one_row(right)
    return False


def at_most_one(node: Node, fixed: Iterable[int], types: Types) -> bool:
    """Whether there is at most one row for given values of the `fixed` columns."""
    return _Determined(types).of(node, frozenset(fixed))[1]


class _Determined:
    """Which columns have at most one value once some are fixed, and whether there is at most one row.

    An operator that is not known here is taken to have many rows.
    """

    def __init__(self, types: Types) -> None:
        self._types = types

    def of(self, node: Node, fixed: frozenset[int]) -> tuple[frozenset[int], bool]:
        found, single = self._of(node, fixed)
        single = single or (node.key is not None and found.issuperset(node.key))
        return (frozenset(range(len(node.columns))), True) if single else (found, False)

    def _of(self, node: Node, fixed: frozenset[int]) -> tuple[frozenset[int], bool]:
        match node:
            case Filter(source, condition):
                return self._filter(source, conjuncts(condition), fixed)
            case Project(source, expressions):
                copied = (column_of(expressions[p]) for p in fixed)
                found, single = self.of(source, frozenset(c for c in copied if c is not None))
                shown = (i for i, e in enumerate(expressions) if refs(e) <= found)
                return fixed.union(shown), single
            case Aggregate(source, groups, _):
                if not groups:
                    return fixed, True
                found, single = self.of(source, frozenset(groups[p] for p in fixed if p < len(groups)))
                return fixed.union(i for i, g in enumerate(groups) if g in found), single
            case Join():
                return self._join(node, fixed)
            case OneRow():
                return fixed, True
            case TopK(source, partition, limit=limit):
                found, single = self.of(source, frozenset(p for p in fixed if p < len(source.columns)))
                return fixed | found, single or (limit is not None and limit <= 1 and found.issuperset(partition))
        return fixed, False

    def _filter(self, source: Node, condition: list[str], fixed: frozenset[int]) -> tuple[frozenset[int], bool]:
        while True:
            found, single = self.of(source, fixed)
            grown = found.union(*(self._equated(c, source, found) for c in condition))
            if grown == found:
                return found, single
            fixed = grown

    def _equated(self, condition: str, source: Node, found: frozenset[int]) -> Iterable[int]:
        """The column that an equality with determined columns or a constant determines."""
        sides = equality(condition)
        if sides is None:
            return
        for one, other in (sides[:2], sides[1::-1]):
            position = column_of(one)
            if position is None or not refs(other) <= found:
                continue
            kinds = self._types.of(source.columns, [one, other])
            common = self._types.compared(*kinds)
            # A string column may hold '1' and '01': both equal 1.
            if common == kinds[0] or (kinds[0] in INTEGERS and common in INTEGERS):
                yield position

    def _join(self, node: Join, fixed: frozenset[int]) -> tuple[frozenset[int], bool]:
        width = len(node.left.columns)
        left = frozenset(p for p in fixed if p < width)
        right = frozenset(p - width for p in fixed if p >= width)
        if node.kind in ("semi", "anti"):
            return self.of(node.left, left)
        if node.kind in ("right", "full"):
            return fixed, False
        for _ in range(2):
            left, one = self.of(node.left, left)
            right |= {b for a, b in zip(node.left_on, node.right_on, strict=True) if a in left}
            right, other = self.of(node.right, right)
            if node.kind == "inner":
                left |= {a for a, b in zip(node.left_on, node.right_on, strict=True) if b in right}
        shown = right if node.kind == "inner" or one else frozenset(p - width for p in fixed if p >= width)
        return left | {p + width for p in shown}, one and other
