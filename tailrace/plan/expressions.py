"""Plan expressions: Spark SQL text in which `_i` is column i of the input.

They are text because text can be compared, hashed, stored and sent to Spark as it is. It is parsed (once, cached) only
to be rewritten. An expression inserted into another one gets parentheses unless it is a single operand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from sqlglot import exp

from tailrace.delta import column
from tailrace.plan.nodes import column_of
from tailrace.plan.sql.dialect import generate, parse

_POSITION = re.compile(r"_(\d+)\Z")
# Operands that bind tighter than any operator.
_ATOMS = (
    exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Anonymous, exp.Cast, exp.Paren,
    exp.Dot, exp.Bracket, exp.Extract, exp.Trim, exp.Substring,
)  # fmt: skip


@lru_cache(maxsize=16384)
def parse_expr(text: str) -> exp.Expr:
    """The tree of an expression. It is cached: copy it before changing it."""
    # "SELECT" in front, so that the parser does not take the function REPLACE or INSERT for a statement.
    return parse(f"SELECT {text}")[0].expressions[0].pop()  # type: ignore[no-any-return]


def position_of(node: exp.Column) -> int | None:
    """The position of a column node, with or without fields: 3 for `_3` and `_3.f`. None if it is not positional."""
    first = node.parts[0]
    match = None if first.args.get("quoted") else _POSITION.match(first.name)
    return int(match[1]) if match else None


@lru_cache(maxsize=16384)
def refs(text: str) -> frozenset[int]:
    """The positions that an expression reads."""
    copied = column_of(text)
    if copied is not None:
        return frozenset((copied,))
    positions = (position_of(c) for c in parse_expr(text).find_all(exp.Column))
    return frozenset(p for p in positions if p is not None)


def remap(text: str, mapping: Mapping[int, int]) -> str:
    """The expression with each `_i` replaced by `_mapping[i]`."""
    copied = column_of(text)
    if copied is not None:
        return column(mapping[copied])
    if all(mapping[p] == p for p in refs(text)):
        return text
    return _replace_positions(text, lambda p: parse_expr(column(mapping[p])))


def shift(text: str, by: int) -> str:
    return remap(text, {p: p + by for p in refs(text)})


def substitute(text: str, expressions: Sequence[str]) -> str:
    """The expression with each `_i` replaced by `expressions[i]`."""
    copied = column_of(text)
    if copied is not None:
        return expressions[copied]
    return _replace_positions(text, lambda p: operand(parse_expr(expressions[p])))


def _replace_positions(text: str, replacement: Callable[[int], exp.Expr]) -> str:
    def replace(node: exp.Expr) -> exp.Expr:
        position = position_of(node) if isinstance(node, exp.Column) else None
        if position is None:
            return node
        assert isinstance(node, exp.Column)
        return with_fields(replacement(position).copy(), node.parts[1:])

    return generate(parse_expr(text).transform(replace))


def with_fields(node: exp.Expr, fields: Sequence[exp.Expr]) -> exp.Expr:
    """`node.f.g` for the fields f and g."""
    for name in fields:
        node = exp.Dot(this=node, expression=name.copy())
    return node


def operand(node: exp.Expr) -> exp.Expr:
    """A copy of the expression that can be an operand of any operator: in parentheses if needed."""
    return node.copy() if isinstance(node, _ATOMS) else exp.Paren(this=node.copy())


def conjuncts(text: str) -> list[str]:
    """The conditions whose AND is the expression."""
    return [generate(part) for part in _split_and(parse_expr(text))]


def _split_and(node: exp.Expr) -> list[exp.Expr]:
    node = node.unnest()
    if isinstance(node, exp.And):
        return [*_split_and(node.this), *_split_and(node.expression)]
    return _factor_or(node) if isinstance(node, exp.Or) else [node]


def _factor_or(node: exp.Or) -> list[exp.Expr]:
    """`(a AND b) OR (a AND c)` as the conjuncts `a` and `b OR c`: `a` may be a join key."""
    alternatives = [_split_and(part) for part in _split_or(node)]
    texts = [{generate(part) for part in parts} for parts in alternatives]
    common = [part for part in alternatives[0] if all(generate(part) in others for others in texts)]
    if not common:
        return [node]
    common_texts = {generate(part) for part in common}
    rests = [[p for p in parts if generate(p) not in common_texts] for parts in alternatives]
    if not all(rests):
        return common  # one alternative is `a` alone: a OR (a AND c) = a
    either = " OR ".join(f"({conjoin([generate(p) for p in rest])})" for rest in rests)
    return [*common, parse_expr(either)]


def _split_or(node: exp.Expr) -> list[exp.Expr]:
    node = node.unnest()
    if isinstance(node, exp.Or):
        return [*_split_or(node.this), *_split_or(node.expression)]
    return [node]


def conjoin(texts: Sequence[str]) -> str:
    """The AND of several conditions. The order is kept: an earlier one may guard a later one from an error."""
    distinct = list(dict.fromkeys(texts))
    return distinct[0] if len(distinct) == 1 else " AND ".join(f"({text})" for text in distinct)


def equality(text: str) -> tuple[str, str, bool] | None:
    """Both sides of `a = b` or `a <=> b`, and whether it is `<=>`; None for any other expression."""
    node = parse_expr(text)
    if not isinstance(node, exp.EQ | exp.NullSafeEQ):
        return None
    left, right = node.this.unnest(), node.expression.unnest()
    return generate(left), generate(right), isinstance(node, exp.NullSafeEQ)


def cast(text: str, type_text: str) -> str:
    if type_text == "void":
        return text
    return generate(parse_expr(f"CAST({text} AS {type_text})"))


def is_true(text: str) -> bool:
    return text.upper() == "TRUE"
