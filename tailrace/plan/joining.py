"""Builds a join under any condition from an equi-join, filters and a residual condition.

A condition is a list of conjuncts over the left side's columns followed by the right side's.

    left = right        a join key
    one side only       a filter below the join, or part of a key where the join preserves that side
    any other           the condition of the Join (`lower_plan` splits it), or a filter above an inner join
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tailrace.delta import column
from tailrace.plan.expressions import cast, conjoin, equality, is_true, parse_expr, refs, remap, shift
from tailrace.plan.nodes import Filter, Join, JoinKind, Node, Project, column_of
from tailrace.plan.sql.dialect import generate
from tailrace.plan.temporal import is_temporal
from tailrace.plan.typing import Types
from tailrace.types import Column, is_scalar

_Key = tuple[str, str, bool]  # an expression over each side, and whether NULL matches NULL

# The join kinds where a conjunct over one side may filter that side before the join. Unsafe if the join preserves the
# side: a LEFT join must return a left row that fails the condition, padded with NULLs.
_FILTERS_LEFT = ("inner", "right", "semi")
_FILTERS_RIGHT = ("inner", "left", "semi", "anti")


@dataclass
class _Split:
    """The conjuncts by the sides they read. `right` is over the right side's own positions."""

    keys: list[_Key] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    right: list[str] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)


def joined(left: Node, right: Node, kind: JoinKind, condition: Sequence[str], types: Types) -> Node:
    """`left` joined with `right`: the left side's columns, then (unless semi or anti) the right side's."""
    width = len(left.columns)
    split = _split(condition, width)
    # A condition that reads no column holds for all pairs or none: apply it to one side.
    constant = [text for text in split.rest if not refs(text) and not is_true(text)]
    (split.right if kind in _FILTERS_RIGHT else split.left).extend(constant)
    split.rest = [text for text in split.rest if refs(text)]
    keys, compared = cast_join_keys(left, right, split.keys, types)
    if kind not in _FILTERS_LEFT:  # a condition on the time can filter the matches, but cannot be part of a key
        split.rest += [text for text in split.left if is_temporal(text)]
        split.left = [text for text in split.left if not is_temporal(text)]
    if kind not in _FILTERS_RIGHT:
        split.rest += [shift(text, width) for text in split.right if is_temporal(text)]
        split.right = [text for text in split.right if not is_temporal(text)]
    if kind in _FILTERS_LEFT:
        left = filtered(left, split.left)
    elif split.left:
        keys = _guarded(keys, 0, split.left)
    if kind in _FILTERS_RIGHT:
        right = filtered(right, split.right)
    elif split.right:
        keys = _guarded(keys, 1, split.right)
    residual = split.rest + compared
    if not residual or kind == "inner":
        return filtered(_equi_join(left, right, kind, keys, types), residual)
    return _equi_join(left, right, kind, keys, types, conjoin(residual))


def _guarded(keys: list[_Key], side: int, conditions: Sequence[str]) -> list[_Key]:
    """Makes one key NULL in the rows of a side (0: left, 1: right) that fail the conditions of that side.

    A NULL key matches nothing, so the join returns these rows as unmatched.
    """
    at = next((i for i, (_, _, null_safe) in enumerate(keys) if not null_safe), None)
    if at is None:
        keys, at = [*keys, ("TRUE", "TRUE", False)], len(keys)
    left, right, _ = keys[at]
    guarded = f"CASE WHEN {conjoin(conditions)} THEN {(left, right)[side]} END"
    guarded = generate(parse_expr(guarded))
    keys = list(keys)
    keys[at] = (guarded, right, False) if side == 0 else (left, guarded, False)
    return keys


def filtered(node: Node, condition: Sequence[str]) -> Node:
    condition = [text for text in condition if not is_true(text)]
    return Filter(node, conjoin(condition)) if condition else node


def selected(node: Node, positions: Iterable[int]) -> Node:
    """Only these columns, in this order."""
    shown = list(positions)
    if shown == list(range(len(node.columns))):
        return node
    return Project(node, tuple(column(p) for p in shown), tuple(node.columns[p] for p in shown))


def renamed(node: Node, names: Sequence[str]) -> Node:
    output = tuple(Column(n, c.type) for n, c in zip(names, node.columns, strict=True))
    if output == node.columns:
        return node
    return Project(node, tuple(column(i) for i in range(len(output))), output)


def as_join_key(text: str, width: int) -> _Key | None:
    """An equality between the sides as (left expression, right expression, null-safe), each over its own side.

    `width` is the number of left columns. None if the condition is anything else.
    """
    sides = equality(text)
    if sides is None:
        return None
    left, right, null_safe = sides
    if _reads_right(left, width) and _reads_left(right, width):
        left, right = right, left
    if _reads_left(left, width) and _reads_right(right, width):
        return left, shift(right, -width), null_safe
    return None


def _reads_left(text: str, width: int) -> bool:
    read = refs(text)
    return bool(read) and max(read) < width


def _reads_right(text: str, width: int) -> bool:
    read = refs(text)
    return bool(read) and min(read) >= width


def _split(condition: Sequence[str], width: int) -> _Split:
    split = _Split()
    for text in condition:
        key = as_join_key(text, width)
        if key is not None:
            split.keys.append(key)
        elif _reads_left(text, width):
            split.left.append(text)
        elif _reads_right(text, width):
            split.right.append(shift(text, -width))
        else:
            split.rest.append(text)
    return split


def _equi_join(
    left: Node, right: Node, kind: JoinKind, keys: Sequence[_Key], types: Types, condition: str | None = None
) -> Node:
    """An equi-join. Keys that are not columns yet are computed below the join and dropped above it."""
    widths = len(left.columns), len(right.columns)
    left, left_on = _extended(left, [k[0] for k in keys], types)
    right, right_on = _extended(right, [k[1] for k in keys], types)
    if condition is not None:
        moved = {p: p if p < widths[0] else p - widths[0] + len(left.columns) for p in refs(condition)}
        condition = remap(condition, moved)
    join = Join(left, right, kind, left_on, right_on, tuple(k[2] for k in keys), condition)
    shown = list(range(widths[0]))
    if kind not in ("semi", "anti"):
        shown += [len(left.columns) + p for p in range(widths[1])]
    return selected(join, shown)


def cast_join_keys(left: Node, right: Node, keys: Sequence[_Key], types: Types) -> tuple[list[_Key], list[str]]:
    """The keys with both sides cast to the type `=` compares them in; and the unusable keys, as conditions.

    A key is unusable if only Spark knows that type, or if it is nested: an arrangement is not sorted by nested types.
    """
    usable, compared = [], []
    left_types = types.of(left.columns, [k[0] for k in keys])
    right_types = types.of(right.columns, [k[1] for k in keys])
    for (left_key, right_key, null_safe), left_type, right_type in zip(keys, left_types, right_types, strict=True):
        common = types.compared(left_type, right_type)
        if common is None or not is_scalar(common):
            operator = "<=>" if null_safe else "="
            compared.append(f"({left_key}) {operator} ({shift(right_key, len(left.columns))})")
            continue
        left_key = left_key if left_type == common else cast(left_key, common)
        right_key = right_key if right_type == common else cast(right_key, common)
        if (left_key, right_key, null_safe) not in usable:
            usable.append((left_key, right_key, null_safe))
    return usable, compared


def _extended(node: Node, expressions: Sequence[str], types: Types) -> tuple[Node, tuple[int, ...]]:
    """`node` with the expressions that are not plain columns appended, and the position of each expression."""
    width = len(node.columns)
    extra = list(dict.fromkeys(e for e in expressions if column_of(e) is None))
    positions = tuple(width + extra.index(e) if column_of(e) is None else int(e[1:]) for e in expressions)
    if not extra:
        return node, positions
    output = node.columns + tuple(map(Column, extra, types.of(node.columns, extra)))
    return Project(node, tuple(column(i) for i in range(width)) + tuple(extra), output), positions
