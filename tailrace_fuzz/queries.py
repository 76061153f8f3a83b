"""Random queries from a typed grammar, so that nearly all are valid Spark SQL with exactly one answer."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tailrace_fuzz.aggregates import Aggregates
from tailrace_fuzz.expressions import ARRAYS, SCALARS, Expr, Expressions, Ref, has_nested
from tailrace_fuzz.features import Features
from tailrace_fuzz.grouping import Grouping
from tailrace_fuzz.laterals import Laterals
from tailrace_fuzz.nested import NESTED
from tailrace_fuzz.sources import Column, Named, Query, Source, Sources
from tailrace_fuzz.subqueries import Subqueries
from tailrace_fuzz.times import time_condition
from tailrace_fuzz.windows import Windows

MAX_LENGTH = 4000  # characters; longer queries are unreadable


def random_query(rng: random.Random, features: Features, named: Named) -> Query:
    """A query with up to four levels of nesting."""
    for depth in (rng.choice([0, 1, 1, 1, 2, 2, 2, 3, 4]), 2, 1, 0):
        query = Queries(rng, features).query(depth, named)
        if len(query.sql) <= MAX_LENGTH:
            break
    return query


class Queries:
    """The grammar. Relations get distinct aliases t1, t2, …, computed columns distinct names c1, c2, …"""

    def __init__(self, rng: random.Random, features: Features) -> None:
        self._rng, self._features, self._number = rng, features, 0
        self._expressions = Expressions(rng)
        self._aggregates = Aggregates(rng, features, self._expressions)
        self._sources = Sources(rng, features, self._expressions, self._new_name, self.query)
        self._subqueries = Subqueries(rng, features, self._expressions, self._aggregates, self._sources)
        self._grouping = Grouping(rng, features, self._expressions, self._aggregates, self._new_name)
        self._windows = Windows(rng, self._expressions, self._new_name)
        self._laterals = Laterals(
            rng, features, self._expressions, self._aggregates, self._sources, self._windows, self._new_name
        )

    def _new_name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def query(self, depth: int, named: Named) -> Query:
        options: list[tuple[str, float, str | None]] = [
            ("select", 4, None),
            ("grouped", 4, "aggregates"),
            ("windowed", 1.2, "windows"),
            ("limited", 0.8, "limit"),
            ("ranked", 0.8, "rank"),
        ]
        if depth > 0:
            options += [("union", 1, "union"), ("set_operation", 0.8, "setops"), ("with_cte", 0.9, "cte")]
        form = self._features.choose(self._rng, options)
        made: Query = getattr(self, f"_{form}")(depth, named)
        return made

    def _from(self, depth: int, named: Named) -> Source:
        return self._laterals.append(self._sources.clause(depth, named), depth, named)

    # Single SELECTs

    def _select(self, depth: int, named: Named, kinds: Sequence[str] | None = None) -> Query:
        source = self._from(depth, named)
        where = self._where(source, depth, named)
        if kinds is None and source.single and self._rng.random() < 0.1:
            columns = tuple(Column(r.name, r.kind, r.grade) for r in source.refs)
            return Query(f"SELECT * FROM {source.sql}{where}", columns, source.size)
        items = self._items(source, depth, named) if kinds is None else self._items_of_kinds(source, kinds)
        names = [self._new_name("c") for _ in items]
        columns = tuple(Column(n, i.kind, i.grade) for n, i in zip(names, items, strict=True))
        exact = all(i.grade < 2 and i.kind != "map" for i in items)  # Spark has no DISTINCT of maps
        distinct = "DISTINCT " if kinds is None and exact and self._features.on(self._rng, "distinct", 0.12) else ""
        select_list = ", ".join(f"{i.sql} AS {n}" for i, n in zip(items, names, strict=True))
        return Query(f"SELECT {distinct}{select_list} FROM {source.sql}{where}", columns, source.size)

    def _items(self, source: Source, depth: int, named: Named) -> list[Expr]:
        count = self._rng.randrange(1, 6)
        items: list[Expr] = list(self._rng.sample(source.refs, min(len(source.refs), count)))
        while self._rng.random() < 0.45:
            kind = self._rng.choice(SCALARS if self._rng.random() < 0.9 else ARRAYS)
            items.append(self._expressions.of(kind, source.refs, self._rng.randrange(1, 4)))
        if has_nested(source.refs) and self._rng.random() < 0.5:
            kind = self._rng.choice(["struct", "map", "ivl"])
            items.append(self._expressions.of(kind, source.refs, self._rng.randrange(1, 3)))
        if self._features.on(self._rng, "scalar", 0.07):
            items.append(self._subqueries.scalar(source.refs, depth, named))
        if self._features.on(self._rng, "checked", 0.05):
            items.append(self._subqueries.checked(source.refs, depth, named))
        return items

    def _items_of_kinds(self, source: Source, kinds: Sequence[str]) -> list[Expr]:
        return [self._expressions.of(k, source.refs, self._rng.choice([0, 0, 1, 2])) for k in kinds]

    def _where(self, source: Source, depth: int, named: Named) -> str:
        conditions = []
        if self._features.on(self._rng, "where", 0.3):
            conditions.append(self._expressions.filter(source.refs, self._rng.randrange(1, 4)))
        subquery = self._subqueries.condition(source.refs, depth, named)
        if subquery is not None:
            conditions.insert(self._rng.randrange(len(conditions) + 1), subquery)
        glue = " OR " if len(conditions) > 1 and self._rng.random() < 0.4 else " AND "
        where = f" WHERE {glue.join(conditions)}" if conditions else ""
        timed = time_condition(source, self._features)
        if timed is None:
            return where
        return f" WHERE ({glue.join(conditions)}) AND {timed}" if conditions else f" WHERE {timed}"

    def _grouped(self, depth: int, named: Named) -> Query:
        source = self._from(depth, named)
        return self._grouping.query(source, self._where(source, depth, named))

    # Set operations and CTEs

    def _union(self, depth: int, named: Named) -> Query:
        kinds = self._kinds()
        branches = [self._select(depth - 1, named, kinds) for _ in range(self._rng.choice([2, 2, 3]))]
        word = self._rng.choice(["UNION ALL", "UNION ALL", "UNION"])
        return Query(f" {word} ".join(b.sql for b in branches), _merge_columns(branches), sum(b.size for b in branches))

    def _set_operation(self, depth: int, named: Named) -> Query:
        kinds = self._kinds()[:2]
        left, right = self._select(depth - 1, named, kinds), self._select(depth - 1, named, kinds)
        word = self._rng.choice(["INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"])
        return Query(f"{left.sql} {word} {right.sql}", _merge_columns([left, right]), left.size)

    def _kinds(self) -> list[str]:
        return [self._rng.choice(SCALARS) for _ in range(self._rng.randrange(1, 4))]

    def _with_cte(self, depth: int, named: Named) -> Query:
        name = self._new_name("q")
        inner = self.query(depth - 1, named)
        body = self.query(depth - 1, named.with_cte(name, inner))
        # Nested WITH clauses cannot shadow names, because all names differ.
        return Query(f"WITH {name} AS ({inner.sql}) {_wrap_with(body.sql)}", body.columns, body.size)

    # Windows and limits

    def _windowed(self, depth: int, named: Named) -> Query:
        source = self._from(depth, named)
        if not source.exact:
            return self._select(depth, named)
        where = self._where(source, depth, named)
        calls = [self._windows.call(source) for _ in range(self._rng.randrange(1, 3))]
        kept: list[Expr] = list(self._rng.sample(source.refs, min(len(source.refs), 4)))
        return self._select_items(kept + calls, f" FROM {source.sql}{where}", source.size)

    def _ranked(self, depth: int, named: Named) -> Query:
        """The first k rows of every partition."""
        source = self._from(depth, named)
        if not source.exact:
            return self._select(depth, named)
        where = self._where(source, depth, named)
        rank, alias = self._windows.rank(source), self._new_name("t")
        kept: list[Expr] = list(self._rng.sample(source.refs, min(len(source.refs), 4)))
        inner = self._select_items([*kept, rank], f" FROM {source.sql}{where}", source.size)
        *columns, number = inner.columns
        shown = columns + ([number] if self._rng.random() < 0.4 else [])
        names = ", ".join(f"{alias}.{c.name}" for c in shown)
        text = f"SELECT {names} FROM ({inner.sql}) {alias} WHERE {alias}.{number.name} <= {self._rng.randrange(1, 4)}"
        return Query(text, tuple(shown), source.size)

    def _limited(self, depth: int, named: Named) -> Query:
        """ORDER BY all selected columns, so tied rows are equal, and LIMIT."""
        inner = self._select(depth, named)
        if not inner.exact or any(c.kind in NESTED for c in inner.columns):
            return inner
        refs = [Ref(c.name, c.kind, c.grade, c.name) for c in inner.columns]
        order = self._windows.total(refs)
        offset = f" OFFSET {self._rng.randrange(1, 4)}" if self._rng.random() < 0.15 else ""
        count = self._rng.choice([1, 2, 3, 5, 10])
        return Query(f"(SELECT * FROM ({inner.sql}) ORDER BY {order} LIMIT {count}{offset})", inner.columns, count)

    def _select_items(self, items: Sequence[Expr], rest: str, size: int) -> Query:
        columns = tuple(Column(self._new_name("c"), i.kind, i.grade) for i in items)
        select_list = ", ".join(f"{i.sql} AS {c.name}" for i, c in zip(items, columns, strict=True))
        return Query(f"SELECT {select_list}{rest}", columns, size)


def _merge_columns(branches: Sequence[Query]) -> tuple[Column, ...]:
    columns = zip(*(b.columns for b in branches), strict=True)
    return tuple(Column(same[0].name, same[0].kind, max(c.grade for c in same)) for same in columns)


def _wrap_with(sql: str) -> str:
    return f"SELECT * FROM ({sql})" if sql.startswith("WITH ") else sql
