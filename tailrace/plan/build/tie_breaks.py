"""Makes aggregates with their own order (`max_by`, `listagg`) deterministic where rows are equal in that order.

    max_by(x, y)                          = max_by(x, struct(y, x)), over rows whose y is not NULL
    listagg(x) WITHIN GROUP (ORDER BY y)  = listagg(x) WITHIN GROUP (ORDER BY y, x)

The result is one of those that Spark may return, and it does not depend on the order of writes and epochs. A call whose
y is a key has only one result and stays unchanged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from sqlglot import exp

from tailrace.errors import Unsupported
from tailrace.plan.expressions import parse_expr
from tailrace.plan.nodes import Call, Key, Node, WindowCall
from tailrace.plan.sql.dialect import generate, location
from tailrace.plan.ties import EXTREMES_BY, needs_tie_break

C = TypeVar("C", Call, WindowCall)


def break_ties(call: C, source: Node, partition: Key, origin: exp.Expr) -> C:
    """The call with a tie-break, if it needs one: its value then depends only on the rows of the partition."""
    if not needs_tie_break(call, source, partition):
        return call
    if any("map<" in source.columns[p].type for p in call.args[:1]):
        reason = "several rows may be equal in its order, and maps cannot be compared; order by a unique column"
        raise Unsupported(construct=f"nondeterministic function {call.function}()", reason=reason, **location(origin))
    tree = parse_expr(call.sql).copy()
    function = next(tree.find_all(exp.Anonymous))
    first = function.expressions[0]
    arguments = first.expressions if isinstance(first, exp.Distinct) else function.expressions
    if call.function in EXTREMES_BY:
        _order_by_pair(*arguments[:2])
    else:
        tree.expression.append("expressions", exp.Ordered(this=arguments[0].copy(), nulls_first=True))
    return replace(call, sql=generate(tree))


def _order_by_pair(value: exp.Expr, by: exp.Expr) -> None:
    """Replaces `by` in place with struct(by, value), which is NULL where `by` is."""
    pair = exp.Anonymous(this="STRUCT", expressions=[by.copy(), value.copy()])
    is_not_null = exp.Not(this=exp.Is(this=by.copy(), expression=exp.Null()))
    by.replace(exp.Case(ifs=[exp.If(this=is_not_null, true=pair)]))
