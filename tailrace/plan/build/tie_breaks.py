"""Aggregates that take any of several rows that are equal to them, written so that it is the same one each time.

    max_by(x, y)                          = max_by(x, struct(y, x)), over rows whose y is not NULL
    listagg(x) WITHIN GROUP (ORDER BY y)  = listagg(x) WITHIN GROUP (ORDER BY y, x)

Each is one of Spark's answers, and one that does not change with the order of writes and epochs. What SQL decides
already, because y is a key, is left as it stands.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from sqlglot import exp

from tailrace.errors import Unsupported
from tailrace.plan.expressions import parse_expr
from tailrace.plan.nodes import Call, Key, Node, WindowCall
from tailrace.plan.sql.dialect import generate, location
from tailrace.plan.ties import EXTREMES_BY, picks_any

C = TypeVar("C", Call, WindowCall)


def settled(call: C, source: Node, partition: Key, origin: exp.Expr) -> C:
    """The call over the rows of a partition, with an answer that they alone decide."""
    if not picks_any(call, source, partition):
        return call
    if any("map<" in source.columns[p].type for p in call.args[:1]):
        reason = "which of several rows it takes is not defined, and maps have no order; order by the key"
        raise Unsupported(construct=f"nondeterministic function {call.function}()", reason=reason, **location(origin))
    tree = parse_expr(call.sql).copy()
    function = next(tree.find_all(exp.Anonymous))
    first = function.expressions[0]
    arguments = first.expressions if isinstance(first, exp.Distinct) else function.expressions
    if call.function in EXTREMES_BY:
        _pair(*arguments[:2])
    else:
        tree.expression.append("expressions", exp.Ordered(this=arguments[0].copy(), nulls_first=True))
    return replace(call, sql=generate(tree))


def _pair(value: exp.Expr, by: exp.Expr) -> None:
    pair = exp.Anonymous(this="STRUCT", expressions=[by.copy(), value.copy()])
    there = exp.Not(this=exp.Is(this=by.copy(), expression=exp.Null()))
    by.replace(exp.Case(ifs=[exp.If(this=there, true=pair)]))
