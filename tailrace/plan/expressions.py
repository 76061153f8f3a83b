"""Expressions as the plan holds them: Spark SQL text in which `_i` is column i of the input.

Text, because it compares, hashes, stores and reaches Spark as it is; parsed (once) only to be changed.
Whatever is put into another expression is put in parentheses unless it is a single operand.
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
    """The tree of an expression; shared, so copy it before changing it."""
    # After SELECT, a function called REPLACE or INSERT cannot be taken for a statement.
    return parse(f"SELECT {text}")[0].expressions[0].pop()  # type: ignore[no-any-return]


def position_of(node: exp.Column) -> int | None:
    """The position a column node stands for, whatever fields of it are read: 3 for `_3` and `_3.f`."""
    first = node.parts[0]
    found = None if first.args.get("quoted") else _POSITION.match(first.name)
    return int(found[1]) if found else None


@lru_cache(maxsize=16384)
def refs(text: str) -> frozenset[int]:
    """Positions an expression reads."""
    copied = column_of(text)
    if copied is not None:
        return frozenset((copied,))
    found = (position_of(c) for c in parse_expr(text).find_all(exp.Column))
    return frozenset(p for p in found if p is not None)


def remap(text: str, mapping: Mapping[int, int]) -> str:
    """The expression over a relation where column i has become column `mapping[i]`."""
    copied = column_of(text)
    if copied is not None:
        return column(mapping[copied])
    if all(mapping[p] == p for p in refs(text)):
        return text
    return _replaced(text, lambda p: parse_expr(column(mapping[p])))


def shift(text: str, by: int) -> str:
    return remap(text, {p: p + by for p in refs(text)})


def substitute(text: str, expressions: Sequence[str]) -> str:
    """The expression with `_i` replaced by the i-th of `expressions`."""
    copied = column_of(text)
    if copied is not None:
        return expressions[copied]
    return _replaced(text, lambda p: operand(parse_expr(expressions[p])))


def _replaced(text: str, replacement: Callable[[int], exp.Expr]) -> str:
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
    return node.copy() if isinstance(node, _ATOMS) else exp.Paren(this=node.copy())


def conjuncts(text: str) -> list[str]:
    """The parts that must all be true for the expression to be true."""
    return [generate(part) for part in _parts(parse_expr(text))]


def _parts(node: exp.Expr) -> list[exp.Expr]:
    node = node.unnest()
    if isinstance(node, exp.And):
        return [*_parts(node.this), *_parts(node.expression)]
    return _factored(node) if isinstance(node, exp.Or) else [node]


def _factored(node: exp.Or) -> list[exp.Expr]:
    """`(a AND b) OR (a AND c)` as a and `b OR c`: a may be a join key that is hidden in every alternative."""
    alternatives = [_parts(part) for part in _alternatives(node)]
    texts = [{generate(part) for part in parts} for parts in alternatives]
    common = [part for part in alternatives[0] if all(generate(part) in known for known in texts)]
    if not common:
        return [node]
    shared = {generate(part) for part in common}
    rests = [[p for p in parts if generate(p) not in shared] for parts in alternatives]
    if not all(rests):
        return common
    either = " OR ".join(f"({conjoin([generate(p) for p in rest])})" for rest in rests)
    return [*common, parse_expr(either)]


def _alternatives(node: exp.Expr) -> list[exp.Expr]:
    node = node.unnest()
    if isinstance(node, exp.Or):
        return [*_alternatives(node.this), *_alternatives(node.expression)]
    return [node]


def conjoin(texts: Sequence[str]) -> str:
    """One condition of several; the order is kept, as an earlier one may guard a later one from an error."""
    distinct = list(dict.fromkeys(texts))
    return distinct[0] if len(distinct) == 1 else " AND ".join(f"({text})" for text in distinct)


def equality(text: str) -> tuple[str, str, bool] | None:
    """Both sides of `a = b` or `a <=> b`, and whether it is the second, which holds for two NULLs."""
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
