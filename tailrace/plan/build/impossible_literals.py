"""Refuses comparisons of a number or a time with a text that is none: `price > 'abc'`.

With ANSI mode off, Spark casts the text to NULL. The comparison is never true, and the view has no rows. Only texts
that Spark certainly cannot cast are refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from tailrace.errors import NeverTrue
from tailrace.plan.expressions import position_of
from tailrace.plan.sql.dialect import location
from tailrace.plan.typing import family
from tailrace.types import Column

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_TRIMMED = "".join(map(chr, range(0x21)))  # what Spark's casts of strings ignore at both ends
# Generous: also what only some numeric types accept.
_NUMBER = re.compile(
    r"[+-]?(?=[0-9.])[0-9]*\.?[0-9]*(?:e[+-]?[0-9]+)?[df]?"  # '.' is the integer 0
    r"|[+-]?0x[0-9a-f.]+(?:p[+-]?[0-9]+)?[df]?"
    r"|[+-]?(?:inf|infinity|nan)",
    re.IGNORECASE,
)
_SPECIAL_TIMES = ("epoch", "now", "today", "tomorrow", "yesterday")


def refuse_impossible_literals(condition: exp.Expr, columns: Sequence[Column]) -> None:
    """Raises `NeverTrue` if a resolved condition compares a column with a literal that is no value of its type."""
    for node in condition.find_all(*_COMPARISONS, exp.Between):
        if isinstance(node, exp.Between):
            pairs = [(node.this, node.args["low"]), (node.this, node.args["high"])]
        else:
            pairs = [(node.this, node.expression), (node.expression, node.this)]
        for compared, literal in pairs:
            _refuse_pair(compared.unnest(), literal.unnest(), columns)


def _refuse_pair(compared: exp.Expr, literal: exp.Expr, columns: Sequence[Column]) -> None:
    position = position_of(compared) if isinstance(compared, exp.Column) else None
    if position is None or not isinstance(literal, exp.Literal) or not literal.is_string:
        return
    column = columns[position]
    if _is_impossible(literal.this, column.type):
        kind = column.type.upper()
        text = (
            f"column {column.name!r} of type {kind} is compared with the text {literal.sql()}, which is no {kind}, so"
            f" this is never true; compare it with a {kind}, or write CAST({column.name} AS STRING)"
        )
        raise NeverTrue(message=text, **location(literal))


def _is_impossible(text: str, kind: str) -> bool:
    """Whether Spark's cast of a text to a type certainly gives NULL."""
    trimmed = text.strip(_TRIMMED)
    if family(kind) == "number":
        return _NUMBER.fullmatch(trimmed) is None
    is_time = family(kind) == "time"
    return is_time and not any("0" <= c <= "9" for c in trimmed) and trimmed.lower() not in _SPECIAL_TIMES
