"""The 22 queries with the standard's validation parameters, and the state that each needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Literal

from sqlglot import exp, parse_one

import tailrace as tr

# What maintenance reads besides the delta and the old result:
#   delta    nothing: sums over one table
#   matches  the join partners of changed rows
#   groups   also unchanged rows, when a subquery's result changes or rows leave the first n
Needs = Literal["delta", "matches", "groups"]

_NEEDS: dict[int, Needs] = {1: "delta", 6: "delta"}
_NEEDS |= dict.fromkeys((4, 5, 7, 8, 9, 12, 13, 14, 16, 19), "matches")
_NEEDS |= dict.fromkeys((2, 3, 10, 11, 15, 17, 18, 20, 21, 22), "groups")
_FRACTION = 0.0001  # parameter of query 11 at scale 1; the standard divides it by the scale


@dataclass(frozen=True)
class Query:
    """One of the 22 queries, with the parameters of a scale factor."""

    name: str
    sql: str
    needs: Needs

    @cached_property
    def tables(self) -> frozenset[str]:
        """The base tables that it reads."""
        tree = parse_one(self.sql, read="spark")
        named = {cte.alias for cte in tree.find_all(exp.CTE)}
        return frozenset({table.name for table in tree.find_all(exp.Table)} - named)

    @cached_property
    def order(self) -> list[str]:
        """The columns of its ORDER BY."""
        order = parse_one(self.sql, read="spark").args.get("order")
        return [o.this.name for o in order.expressions] if order else []

    def create(self, db: tr.Database) -> None:
        """Creates a view of the query's name that must be maintained incrementally."""
        db.sql(f"CREATE MATERIALIZED VIEW {self.name} WITH (refresh = 'incremental') AS {self.sql}")


def queries(scale: float = 1.0) -> list[Query]:
    """All 22 queries, by number."""
    folder = resources.files("tailrace_bench.tpch") / "queries"
    all_queries = []
    for number, needs in sorted(_NEEDS.items()):
        sql = (folder / f"q{number:02}.sql").read_text()
        if number == 11:
            sql = sql.replace(f"{_FRACTION:.10f}", f"{_FRACTION / scale:.10f}")
        all_queries.append(Query(f"q{number:02}", sql, needs))
    return all_queries
