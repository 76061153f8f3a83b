"""Refuses a correlated subquery with LIMIT where Spark's result differs from the SQL standard.

    (SELECT x FROM b WHERE b.k = a.k ORDER BY x LIMIT 1)        the first row of b that matches the row of a

Spark 4.3 applies the LIMIT per outer row only if the outer side of each equality is a plain column. If it is computed
or cast (an INT compared with a BIGINT), Spark limits all rows of the subquery first and compares afterwards. A correct
view would differ from Spark, so Tailrace refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from tailrace.delta import column
from tailrace.plan.expressions import conjuncts, equality, refs
from tailrace.plan.nodes import Filter, Node, TopK, column_of, walk
from tailrace.plan.outer import outer_refs, replace_outer_refs
from tailrace.plan.sql.refuse import unsupported
from tailrace.plan.typing import Types

_CONSTRUCT = "a correlated subquery with LIMIT that is compared with a computed or cast outer value"
_REASON = (
    "Spark would apply the LIMIT first; compare with a plain outer column of the same type, or use max_by or min_by"
)


def require_limit_by_row(node: TopK, outer: Node, depth: int, types: Types, origin: exp.Expr) -> None:
    """Raises `Unsupported` if an equality below the limit has an outer side that is not a plain, uncast column."""
    for source, inner, outside in _equalities(node, depth):
        above = replace_outer_refs(outside, depth, {p: column(p) for p in outer_refs(outside, depth)})
        (inner_type,), (outer_type,) = types.of(source.columns, [inner]), types.of(outer.columns, [above])
        if column_of(above) is None or types.compared(inner_type, outer_type) != outer_type:
            raise unsupported(_CONSTRUCT, origin, _REASON)


def _equalities(node: TopK, depth: int) -> Iterator[tuple[Filter, str, str]]:
    """Equalities below the limit between the subquery and the outer query: (filter, inner side, outer side)."""
    for source in (n for n in walk(node.input) if isinstance(n, Filter)):
        for condition in conjuncts(source.condition):
            sides = equality(condition)
            for inner, outside in (sides[:2], sides[1::-1]) if sides is not None else ():
                if outer_refs(outside, depth) and not refs(outside) and not outer_refs(inner, depth):
                    yield source, inner, outside
