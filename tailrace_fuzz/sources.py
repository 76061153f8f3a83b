"""Random FROM clauses: tables, views, subqueries, CTEs, VALUES, joins and LATERAL VIEW."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tailrace_fuzz.expressions import Expr, Expressions, Ref
from tailrace_fuzz.features import Features
from tailrace_fuzz.schemas import TableSchema

TABLE_SIZE = 12
MAX_JOIN_ROWS = 4000  # estimated rows


@dataclass(frozen=True)
class Column:
    name: str
    kind: str
    grade: int = 0


@dataclass(frozen=True)
class Query:
    """A query's text, its columns, and the estimated number of rows."""

    sql: str
    columns: tuple[Column, ...]
    size: int

    @property
    def exact(self) -> bool:
        return all(c.grade < 2 for c in self.columns)


@dataclass(frozen=True)
class Source:
    """The content of a FROM clause. `order`: columns that are unique per row, if known.

    `exact`: whether its rows can be put in one order. Spark cannot sort by maps.
    """

    sql: str
    refs: tuple[Ref, ...]
    size: int
    order: tuple[Ref, ...] | None = None
    single: bool = True

    @property
    def exact(self) -> bool:
        return all(r.grade < 2 for r in self.refs) and (bool(self.order) or not self.has_maps)

    @property
    def has_maps(self) -> bool:
        return any(r.kind == "map" for r in self.refs)


@dataclass(frozen=True)
class Named:
    """The relations that a query may name: tables, earlier views, and CTEs in scope."""

    tables: tuple[TableSchema, ...]
    views: tuple[tuple[str, Query], ...] = ()
    ctes: tuple[tuple[str, Query], ...] = ()

    def with_cte(self, name: str, query: Query) -> Named:
        return replace(self, ctes=(*self.ctes, (name, query)))


MakeQuery = Callable[[int, Named], Query]


class Sources:
    """Generates FROM clauses; `query` generates their subqueries."""

    def __init__(
        self, rng: random.Random, features: Features, expressions: Expressions, new_name: Callable[[str], str],
        query: MakeQuery,
    ) -> None:  # fmt: skip
        self._rng, self._features, self._expressions = rng, features, expressions
        self._new_name, self._query = new_name, query

    def clause(self, depth: int, named: Named) -> Source:
        """One source or a join of up to four, sometimes with a LATERAL VIEW."""
        source = self.factor(depth, named)
        for chance in (0.5, 0.25, 0.15):
            if self._rng.random() > chance or source.size > MAX_JOIN_ROWS // 4:
                break
            source = self._join(source, self.factor(depth - 1, named))
            if any("." not in ref.sql for ref in source.refs):
                break  # a USING column has no qualifier and would be ambiguous in a further join
        if self._features.on(self._rng, "explode", 0.1):
            source = self._explode(source)
        return source

    def factor(self, depth: int, named: Named) -> Source:
        options: list[tuple[str, float, str | None]] = [("table", 3, None)]
        if named.ctes:
            options.append(("cte", 9, None))
        if named.views:
            options.append(("view", 0.7, "views"))
        if depth > 0:
            options += [("subquery", 4, "subqueries"), ("values", 0.4, "values")]
        kind = self._features.choose(self._rng, options)
        if kind == "table":
            return self.table(self._rng.choice(named.tables))
        if kind == "values":
            return self._values()
        alias = self._new_name("t")
        if kind == "subquery":
            query = self._query(depth - 1, named)
            return self._from_query(f"({query.sql}) {alias}", alias, query)
        name, query = self._rng.choice(named.ctes if kind == "cte" else named.views)
        return self._from_query(f"{name} {alias}", alias, query)

    def table(self, table: TableSchema) -> Source:
        alias = self._new_name("t")
        refs = tuple(Ref(f"{alias}.{f.name}", f.kind, 0, f.name) for f in table.fields)
        return Source(f"{table.name} {alias}", refs, TABLE_SIZE, refs[: len(table.key)])

    @staticmethod
    def _from_query(text: str, alias: str, query: Query) -> Source:
        refs = tuple(Ref(f"{alias}.{c.name}", c.kind, c.grade, c.name) for c in query.columns)
        return Source(text, refs, query.size)

    def _values(self) -> Source:
        alias = self._new_name("t")
        kinds = self._rng.sample(["int", "str", "dec", "date", "bool"], self._rng.randrange(1, 4))
        names = [self._new_name("c") for _ in kinds]
        rows = [", ".join(self._expressions.literal(k).sql for k in kinds) for _ in range(self._rng.randrange(1, 4))]
        values = ", ".join(f"({row})" for row in rows)
        refs = tuple(Ref(f"{alias}.{n}", k, 0, n) for n, k in zip(names, kinds, strict=True))
        return Source(f"(VALUES {values}) AS {alias}({', '.join(names)})", refs, len(rows))

    def _join(self, left: Source, right: Source) -> Source:
        options: list[tuple[str, float, str | None]] = [
            ("INNER", 3, "joins"),
            ("LEFT", 2, "outer"),
            ("RIGHT", 1, "outer"),
            ("FULL", 1.5, "outer"),
            ("LEFT SEMI", 1, "semi"),
            ("LEFT ANTI", 1, "semi"),
            ("CROSS", 0.5, "nonequi"),
        ]
        if not any(w * self._features.weight(f) for _, w, f in options if f):
            return left
        kind = self._features.choose(self._rng, options)
        shared = self._shared_columns(left, right)
        if shared and kind != "CROSS" and self._features.on(self._rng, "using", 0.35):
            return self._using(left, right, kind, shared)
        on, by_key = ("", False) if kind == "CROSS" else self._condition(left, right)
        if (kind == "CROSS" or not by_key) and (
            left.size * right.size > MAX_JOIN_ROWS or not self._features.weight("nonequi")
        ):
            return left
        refs = left.refs if kind in ("LEFT SEMI", "LEFT ANTI") else left.refs + right.refs
        word = "" if kind == "INNER" and self._rng.random() < 0.5 else f"{kind} "
        text = f"{left.sql} {word}JOIN {right.sql}" + (f" ON {on}" if on else "")
        return Source(text, refs, self._size(left, right, kind, by_key), _join_order(left, right, kind), single=False)

    def _condition(self, left: Source, right: Source) -> tuple[str, bool]:
        """An ON condition, and whether it contains an equality."""
        pairs = [
            (a, b) for a in left.refs for b in right.refs
            if a.kind == b.kind and a.grade < 2 and b.grade < 2 and a.kind not in ("bool", "bin", "map")
        ]  # fmt: skip
        parts = []
        if pairs and not self._features.on(self._rng, "nonequi", 0.12):
            alike = [p for p in pairs if p[0].name == p[1].name] or pairs
            for a, b in self._rng.sample(alike, 1 if self._rng.random() < 0.75 else min(2, len(alike))):
                parts.append(f"{a.sql} {'<=>' if self._rng.random() < 0.1 else '='} {b.sql}")
        by_key = bool(parts)
        if not by_key or self._features.on(self._rng, "residual", 0.2):
            parts.append(self._residual(left, right, pairs))
        return " AND ".join(parts), by_key

    def _residual(self, left: Source, right: Source, pairs: Sequence[tuple[Ref, Ref]]) -> str:
        if pairs and self._rng.random() < 0.6:
            a, b = self._rng.choice(pairs)
            return f"{a.sql} {self._rng.choice(['<', '<=', '<>', '>'])} {b.sql}"
        return self._expressions.condition(left.refs + right.refs, 2).sql

    @staticmethod
    def _size(left: Source, right: Source, kind: str, by_key: bool) -> int:
        if kind in ("LEFT SEMI", "LEFT ANTI"):
            return left.size
        return max(left.size * right.size // (4 if by_key else 1), left.size + right.size)

    @staticmethod
    def _shared_columns(left: Source, right: Source) -> list[tuple[Ref, Ref]]:
        """Pairs of columns with the same name and kind, if both sides are single relations."""
        if not (left.single and right.single):
            return []
        pairs = [(a, b) for a in left.refs for b in right.refs if a.name == b.name]
        alike = all(a.kind == b.kind != "map" and a.grade < 2 and b.grade < 2 for a, b in pairs)
        return pairs if alike else []

    def _using(self, left: Source, right: Source, kind: str, shared: Sequence[tuple[Ref, Ref]]) -> Source:
        natural = len(shared) <= 2 and kind not in ("LEFT SEMI", "LEFT ANTI") and self._rng.random() < 0.3
        chosen = shared if natural else self._rng.sample(shared, self._rng.randrange(1, min(3, len(shared) + 1)))
        names = [a.name for a, _ in chosen]
        merged = tuple(replace(a, sql=a.name) for a, _ in chosen)
        if kind in ("LEFT SEMI", "LEFT ANTI"):
            refs = left.refs
        else:
            # A shared column that USING does not merge keeps its qualifier.
            refs = merged + tuple(r for r in left.refs + right.refs if r.name not in names)
        join = f"{left.sql} {'NATURAL ' if natural else ''}{kind} JOIN {right.sql}"
        text = join if natural else f"{join} USING ({', '.join(names)})"
        return Source(text, refs, self._size(left, right, kind, True), single=False)

    def _explode(self, source: Source) -> Source:
        kind = self._rng.choice(["arr:int", "arr:str"])
        array: Expr = self._expressions.of(kind, source.refs, 2)
        alias, item, outer = self._new_name("t"), self._new_name("c"), "OUTER " if self._rng.random() < 0.4 else ""
        refs = [Ref(f"{alias}.{item}", kind.removeprefix("arr:"), 0, item)]
        names, word = [item], "explode"
        if self._rng.random() < 0.3:
            word, place = "posexplode", self._new_name("c")
            names.insert(0, place)
            refs.append(Ref(f"{alias}.{place}", "int", 0, place))
        text = f"{source.sql} LATERAL VIEW {outer}{word}({array.sql}) {alias} AS {', '.join(names)}"
        return Source(text, (*source.refs, *refs), source.size * 2, single=False)


def _join_order(left: Source, right: Source, kind: str) -> tuple[Ref, ...] | None:
    """Columns that are unique per row of a join: for an inner join, those of both sides."""
    if kind in ("LEFT SEMI", "LEFT ANTI"):
        return left.order
    if kind in ("INNER", "CROSS") and left.order and right.order:
        return left.order + right.order
    return None
