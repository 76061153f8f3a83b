"""LIMIT in a subquery that reads the query around it: where Spark means what SQL means.

    (SELECT x FROM b WHERE b.k = a.k ORDER BY x LIMIT 1)        the first of the rows of b that a row of a meets

Spark 4.3 limits the rows that an outer row meets, except where the outer side of an equality is more than a column:
if that is computed, or only cast (an INT compared with a BIGINT), it limits all rows of the subquery and compares what
is left. A view that is right would differ from Spark's answer, so these are refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from tailrace.delta import column
from tailrace.plan.expressions import conjuncts, equality, refs
from tailrace.plan.nodes import Filter, Node, TopK, column_of, walk
from tailrace.plan.outer import outer_refs, with_outer
from tailrace.plan.sql.refuse import unsupported
from tailrace.plan.typing import Types

REASON = (
    "Spark applies the LIMIT before it compares with an outer expression, or with an outer column of another type; "
    "cast or compute on the subquery's side, or use max_by or min_by, or join rows that row_number() numbers"
)


def require_limit_by_row(node: TopK, outer: Node, depth: int, types: Types, origin: exp.Expr) -> None:
    """`Unsupported` if an equality below the limit compares with more than a column of the outer query."""
    for part, inner, outside in _equalities(node, depth):
        above = with_outer(outside, depth, {p: column(p) for p in outer_refs(outside, depth)})
        kinds = (*types.of(part.columns, [inner]), *types.of(outer.columns, [above]))
        if column_of(above) is None or types.compared(*kinds) != kinds[1]:
            raise unsupported("a correlated subquery with LIMIT", origin, REASON)


def _equalities(node: TopK, depth: int) -> Iterator[tuple[Filter, str, str]]:
    """Conditions that compare rows below the limit with the outer query: the filter, its own side, the outer side."""
    for part in (n for n in walk(node.input) if isinstance(n, Filter)):
        for condition in conjuncts(part.condition):
            sides = equality(condition)
            for inner, outside in (sides[:2], sides[1::-1]) if sides is not None else ():
                if outer_refs(outside, depth) and not refs(outside) and not outer_refs(inner, depth):
                    yield part, inner, outside
