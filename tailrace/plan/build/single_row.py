"""Checks, while a view is maintained, that a scalar subquery returns at most one row for each row of the outer query.

    (SELECT x FROM b WHERE b.k = a.k)
        =  SELECT k, IF(count(*) > 1, raise_error(...), max(x)) FROM b WHERE k is in a GROUP BY k

Only groups that a row of the outer query meets are checked, as in Spark. The check is directly above an aggregate,
whose delta has each group once, with its value after the epoch. A join's delta may also have rows that cancel out.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tailrace.delta import column
from tailrace.plan.build.decorrelate import Decorrelation, Lifted
from tailrace.plan.nodes import Aggregate, Call, Node, Project
from tailrace.plan.sql.dialect import generate
from tailrace.types import INTEGERS, is_scalar

_LONGEST = 120  # characters of a subquery in the error


def with_check(lifted: Lifted, outer: Decorrelation) -> Lifted:
    """The only row of each group, by correlation columns; a group of several rows fails the epoch."""
    kind = lifted.node.columns[0].type
    # Any value of a group will do. MAX is maintained without Spark, but needs values with an order.
    function = "max" if is_scalar(kind) else "any_value"
    value = Call(function, (0,), distinct=False, sql=f"{function.upper()}(_0)", type=kind)
    rows = Call("count", (), distinct=False, sql="COUNT(*)", type="bigint")
    grouped = Aggregate(outer.met(lifted), tuple(lifted.correlated), (value, rows))
    count = len(lifted.correlations)
    check = f"IF({column(count + 1)} > 1, RAISE_ERROR({_message(grouped, outer.origin)}), {column(count)})"
    checked = Project(
        grouped,
        (check, *map(column, range(count))),
        (lifted.node.columns[0], *grouped.columns[:count]),
    )
    return replace(lifted, node=checked)


def _message(grouped: Node, origin: exp.Expr) -> str:
    """The text of the error, as an expression over the columns of the aggregate.

    It has only texts and casts that the task itself can evaluate (`rules/arrow`).
    """
    text = generate(origin.unnest()).replace("\\'", "''")
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    subquery = "a scalar subquery" if set(text) & set('"\\') else f"the scalar subquery ({text})"
    *groups, _, _ = grouped.columns
    parts, text = [_literal(f"{subquery} returned "), f"CAST({column(len(groups) + 1)} AS STRING)"], " rows for "
    for position, (name, kind) in enumerate(groups):
        if kind == "string" or kind in INTEGERS:
            parts += [_literal(f"{text}{name} = "), f"COALESCE(CAST({column(position)} AS STRING), 'NULL')"]
            text = ", "
    text = "" if len(parts) > 2 else " rows"
    return f"CONCAT({', '.join(parts)}, {_literal(f'{text}; it may return only one')})"


def _literal(text: str) -> str:
    return generate(exp.Literal.string(text))
