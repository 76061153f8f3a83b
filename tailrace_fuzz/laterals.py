"""Random LATERAL subqueries, which read the relations before them in FROM."""

from __future__ import annotations

import random
from collections.abc import Callable

from tailrace_fuzz.aggregates import Aggregates
from tailrace_fuzz.expressions import SCALARS, Expr, Expressions, Ref
from tailrace_fuzz.features import Features
from tailrace_fuzz.nested import NESTED
from tailrace_fuzz.sources import MAX_JOIN_ROWS, Named, Source, Sources
from tailrace_fuzz.subqueries import comparable_pairs
from tailrace_fuzz.windows import Windows

_ONE_TYPE = ("str", "date", "ts", "ntz")  # kinds with one type: Spark limits per row only if `=` needs no cast


class Laterals:
    def __init__(
        self, rng: random.Random, features: Features, expressions: Expressions, aggregates: Aggregates,
        sources: Sources, windows: Windows, new_name: Callable[[str], str],
    ) -> None:  # fmt: skip
        self._rng, self._features, self._expressions, self._aggregates = rng, features, expressions, aggregates
        self._sources, self._windows, self._new_name = sources, windows, new_name

    def append(self, source: Source, depth: int, named: Named) -> Source:
        """The FROM clause, sometimes with one or two LATERAL subqueries. A LATERAL VIEW must be the last item."""
        for chance in (0.12, 0.3):
            if "LATERAL VIEW" in source.sql or source.size > MAX_JOIN_ROWS // 12:
                break
            if not self._features.on(self._rng, "lateral", chance):
                break
            source = self._lateral(source, depth, named)
        return source

    def _lateral(self, outer: Source, depth: int, named: Named) -> Source:
        text, items, size = self._subquery(outer, depth, named)
        alias = self._new_name("t")
        names = [self._new_name("c") for _ in items]
        refs = tuple(Ref(f"{alias}.{n}", i.kind, i.grade, n) for n, i in zip(names, items, strict=True))
        lateral = f"LATERAL ({text}) AS {alias}({', '.join(names)})"
        if self._rng.random() < 0.4:
            on = "TRUE" if self._rng.random() < 0.6 else self._expressions.condition(refs, 1).sql
            joined = f"{outer.sql} LEFT JOIN {lateral} ON {on}"
        else:
            word = self._features.choose(self._rng, [(",", 1, None), (" JOIN", 1, None), (" CROSS JOIN", 1, "nonequi")])
            joined = f"{outer.sql}{word} {lateral}"
        return Source(joined, outer.refs + refs, outer.size * size, single=False)

    def _subquery(self, outer: Source, depth: int, named: Named) -> tuple[str, list[Expr], int]:
        """The text, its columns, and the estimated number of rows for each outer row."""
        qualified = [r for r in outer.refs if "." in r.sql]  # others would resolve inside the subquery
        if qualified and self._rng.random() < 0.2:
            item = self._expressions.of(self._rng.choice(SCALARS), qualified, 2)
            return f"SELECT {item.sql}", [item], 1
        inner = self._sources.factor(depth - 1, named)
        pairs = comparable_pairs(outer.refs, inner)
        forms = [("rows", 2, None), ("total", 1, "aggregates"), ("groups", 1, "aggregates"), ("first", 1, "limit")]
        form = self._features.choose(self._rng, forms)
        if form == "first":
            pairs = [(a, b) for a, b in pairs if a.kind in _ONE_TYPE]
        condition = ""
        if pairs:
            a, b = self._rng.choice([p for p in pairs if p[0].name == p[1].name] or pairs)
            condition = f" WHERE {b.sql} {'=' if self._rng.random() < 0.8 else '<'} {a.sql}"
            if self._rng.random() < 0.3:
                condition += f" AND {self._expressions.condition(inner.refs, 1).sql}"
        if form == "total":
            calls = [self._aggregates.of(inner.refs, self._rng.choice(["int", "dec", "str"])) for _ in range(2)]
            return f"SELECT {', '.join(c.sql for c in calls)} FROM {inner.sql}{condition}", list(calls), 1
        items: list[Expr] = list(self._rng.sample(inner.refs, min(len(inner.refs), 3)))
        shown = ", ".join(i.sql for i in items)
        exact = all(i.grade < 2 and i.kind not in NESTED for i in items)
        if form == "groups" and exact:
            call = self._aggregates.of(inner.refs, "int")
            return f"SELECT {shown}, {call.sql} FROM {inner.sql}{condition} GROUP BY {shown}", [*items, call], 4
        if form == "first" and exact:
            order = self._windows.total([r for r in inner.refs if r in items])
            limit = f"ORDER BY {order} LIMIT {self._rng.choice([1, 2, 3])}"
            return f"SELECT {shown} FROM {inner.sql}{condition} {limit}", items, 2
        distinct = "DISTINCT " if exact and self._features.on(self._rng, "distinct", 0.3) else ""
        return f"SELECT {distinct}{shown} FROM {inner.sql}{condition}", items, 4 if condition else inner.size
