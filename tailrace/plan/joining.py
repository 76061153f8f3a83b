"""Joins of two nodes under any condition, made of the equality joins that are maintained.

A condition is a list of conjuncts over the left side's columns followed by the right side's. What reads one side
becomes a filter below the join or part of a key; what compares both and is no equality is left to the Join,
which `lowered` takes apart when it is maintained.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tailrace.delta import column
from tailrace.plan.expressions import cast, conjoin, equality, is_true, parse_expr, refs, remap, shift
from tailrace.plan.nodes import Filter, Join, JoinKind, Node, Project, column_of
from tailrace.plan.sql.dialect import generate
from tailrace.plan.typing import Types
from tailrace.types import Column, is_scalar

_Key = tuple[str, str, bool]  # an expression over each side, and whether two NULLs are equal

# Conjuncts that read one side only may filter that side before the join, unless the side is preserved:
# a row that fails must still come out of a LEFT join, padded.
_FILTERS_LEFT = ("inner", "right", "semi")
_FILTERS_RIGHT = ("inner", "left", "semi", "anti")


@dataclass
class _Split:
    """Conjuncts sorted by the sides they read; right ones are over the right side's own positions."""

    keys: list[_Key] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    right: list[str] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)


def joined(left: Node, right: Node, kind: JoinKind, condition: Sequence[str], types: Types) -> Node:
    """`left` joined with `right`: the left side's columns, then (unless semi or anti) the right side's."""
    width = len(left.columns)
    split = _split(condition, width)
    # A condition on neither side holds for all pairs or for none: it may as well be on one side.
    constant = [text for text in split.rest if not refs(text) and not is_true(text)]
    (split.right if kind in _FILTERS_RIGHT else split.left).extend(constant)
    split.rest = [text for text in split.rest if refs(text)]
    keys, compared = same_types(left, right, split.keys, types)
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
        return filtered(_keyed(left, right, kind, keys, types), residual)
    return _keyed(left, right, kind, keys, types, conjoin(residual))


def _guarded(keys: list[_Key], side: int, conditions: Sequence[str]) -> list[_Key]:
    """The keys with one that is NULL, and so meets nothing, in those rows of a side that fail its conditions.

    The rows themselves stay: they come out of the join unmatched.
    """
    at = next((i for i, key in enumerate(keys) if not key[2]), None)
    if at is None:
        keys, at = [*keys, ("TRUE", "TRUE", False)], len(keys)
    one, other, _ = keys[at]
    guard = f"CASE WHEN {conjoin(conditions)} THEN {(one, other)[side]} END"
    guard = generate(parse_expr(guard))
    keys = list(keys)
    keys[at] = (guard, other, False) if side == 0 else (one, guard, False)
    return keys


def filtered(node: Node, condition: Sequence[str]) -> Node:
    condition = [text for text in condition if not is_true(text)]
    return Filter(node, conjoin(condition)) if condition else node


def selected(node: Node, positions: Iterable[int]) -> Node:
    """Only these columns, in this order."""
    wanted = list(positions)
    if wanted == list(range(len(node.columns))):
        return node
    return Project(node, tuple(column(p) for p in wanted), tuple(node.columns[p] for p in wanted))


def renamed(node: Node, names: Sequence[str]) -> Node:
    output = tuple(Column(n, c.type) for n, c in zip(names, node.columns, strict=True))
    if output == node.columns:
        return node
    return Project(node, tuple(column(i) for i in range(len(output))), output)


def link(text: str, width: int) -> _Key | None:
    """An equality between the sides as (left expression, right expression, null-safe), each over its side."""
    found = equality(text)
    if found is None:
        return None
    one, other, null_safe = found
    if _is_right(one, width) and _is_left(other, width):
        one, other = other, one
    if _is_left(one, width) and _is_right(other, width):
        return one, shift(other, -width), null_safe
    return None


def _is_left(text: str, width: int) -> bool:
    read = refs(text)
    return bool(read) and max(read) < width


def _is_right(text: str, width: int) -> bool:
    read = refs(text)
    return bool(read) and min(read) >= width


def _split(condition: Sequence[str], width: int) -> _Split:
    split = _Split()
    for text in condition:
        key = link(text, width)
        if key is not None:
            split.keys.append(key)
        elif _is_left(text, width):
            split.left.append(text)
        elif _is_right(text, width):
            split.right.append(shift(text, -width))
        else:
            split.rest.append(text)
    return split


def _keyed(
    left: Node, right: Node, kind: JoinKind, keys: Sequence[_Key], types: Types, condition: str | None = None
) -> Node:
    """An equality join; keys that are no columns yet are computed below it and dropped above it."""
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


def same_types(left: Node, right: Node, keys: Sequence[_Key], types: Types) -> tuple[list[_Key], list[str]]:
    """The keys with both sides cast to the type they are compared in; and, as conditions, those that have
    none, or one that no arrangement is sorted by."""
    usable, compared = [], []
    left_types = types.of(left.columns, [k[0] for k in keys])
    right_types = types.of(right.columns, [k[1] for k in keys])
    for (one, other, null_safe), left_type, right_type in zip(keys, left_types, right_types, strict=True):
        common = types.compared(left_type, right_type)
        if common is None or not is_scalar(common):
            operator = "<=>" if null_safe else "="
            compared.append(f"({one}) {operator} ({shift(other, len(left.columns))})")
            continue
        one = one if left_type == common else cast(one, common)
        other = other if right_type == common else cast(other, common)
        if (one, other, null_safe) not in usable:
            usable.append((one, other, null_safe))
    return usable, compared


def _extended(node: Node, expressions: Sequence[str], types: Types) -> tuple[Node, tuple[int, ...]]:
    """`node` with the expressions that are not columns of it appended, and where each one is."""
    width = len(node.columns)
    extra = list(dict.fromkeys(e for e in expressions if column_of(e) is None))
    positions = tuple(width + extra.index(e) if column_of(e) is None else int(e[1:]) for e in expressions)
    if not extra:
        return node, positions
    output = node.columns + tuple(map(Column, extra, types.of(node.columns, extra)))
    return Project(node, tuple(column(i) for i in range(width)) + tuple(extra), output), positions
