"""Random subqueries in expressions: scalar, IN and EXISTS, correlated or not."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tailrace_fuzz.aggregates import Aggregates
from tailrace_fuzz.expressions import Expr, Expressions, Ref
from tailrace_fuzz.features import Features
from tailrace_fuzz.sources import Named, Source, Sources

_COMPARED = ("int", "dec", "dbl", "str", "date", "ts", "ntz")
_SCALAR_KINDS = ("int", "dec", "str", "date")


class Subqueries:
    def __init__(
        self, rng: random.Random, features: Features, expressions: Expressions, aggregates: Aggregates, sources: Sources
    ) -> None:
        self._rng, self._features, self._expressions = rng, features, expressions
        self._aggregates, self._sources = aggregates, sources

    def condition(self, scope: Sequence[Ref], depth: int, named: Named) -> str | None:
        """A condition with a subquery, or None."""
        for feature, make in (("exists", self._exists), ("in", self._in), ("scalar", self._compared)):
            if self._features.on(self._rng, feature, 0.1):
                return make(scope, depth, named)
        return None

    def scalar(self, scope: Sequence[Ref], depth: int, named: Named) -> Expr:
        """`(SELECT max(x) FROM b WHERE b.k = a.k)`: always exactly one row."""
        source = self._sources.factor(depth - 1, named)
        kind = self._rng.choice(_SCALAR_KINDS)
        call = self._aggregates.of(source.refs, kind)
        conditions = self._correlated(source, scope, equal=True)
        if self._rng.random() < 0.3:
            conditions.append(self._expressions.condition(source.refs, 1).sql)
        return Expr(f"(SELECT {call.sql} FROM {source.sql}{_where(conditions)})", kind, call.grade)

    def checked(self, scope: Sequence[Ref], depth: int, named: Named) -> Expr:
        """A scalar subquery that returns at most one row, which Tailrace cannot prove: over a union of two groupings.

        The second grouping has no rows.
        """
        source = self._sources.factor(depth - 1, named)
        pairs = comparable_pairs(scope, source)
        if not pairs or not self._features.weight("union"):
            return self.scalar(scope, depth, named)
        outer, inner = self._rng.choice(pairs)
        kind = self._rng.choice(_SCALAR_KINDS)
        call = self._aggregates.of(source.refs, kind)
        grouped = f"SELECT {inner.sql} AS k, {call.sql} AS v FROM {source.sql}"
        both = f"{grouped} GROUP BY 1 UNION ALL {grouped} WHERE 1 = 0 GROUP BY 1"
        return Expr(f"(SELECT u.v FROM ({both}) u WHERE u.k = {outer.sql})", kind, call.grade)

    def _compared(self, scope: Sequence[Ref], depth: int, named: Named) -> str:
        checked = self._features.on(self._rng, "checked", 0.3)
        scalar = self.checked(scope, depth, named) if checked else self.scalar(scope, depth, named)
        value = self._expressions.of(scalar.kind, scope, 1)
        return f"{value.sql} {self._rng.choice(['=', '<', '>=', '<>'])} {scalar.sql}"

    def _exists(self, scope: Sequence[Ref], depth: int, named: Named) -> str:
        source = self._sources.factor(depth - 1, named)
        conditions = self._correlated(source, scope, equal=self._rng.random() < 0.8)
        if self._rng.random() < 0.4:
            conditions.append(self._expressions.condition(source.refs, 1).sql)
        return f"{self._not()}EXISTS (SELECT 1 FROM {source.sql}{_where(conditions)})"

    def _in(self, scope: Sequence[Ref], depth: int, named: Named) -> str:
        source = self._sources.factor(depth - 1, named)
        pairs = comparable_pairs(scope, source)
        if pairs:
            outer, inner = self._rng.choice(pairs)
            value, selected = outer.sql, inner.sql
        else:
            value = self._expressions.of("int", scope, 1).sql
            selected = self._expressions.of("int", source.refs, 1).sql
        conditions = self._correlated(source, scope, equal=True) if self._rng.random() < 0.4 else []
        if self._rng.random() < 0.4:
            conditions.append(self._expressions.condition(source.refs, 1).sql)
        return f"{value} {self._not()}IN (SELECT {selected} FROM {source.sql}{_where(conditions)})"

    def _correlated(self, source: Source, scope: Sequence[Ref], *, equal: bool) -> list[str]:
        pairs = comparable_pairs(scope, source)
        if not pairs or not self._features.on(self._rng, "correlated", 0.7):
            return []
        alike = [p for p in pairs if p[0].name == p[1].name] or pairs
        outer, inner = self._rng.choice(alike)
        return [f"{inner.sql} {'=' if equal else self._rng.choice(['<', '<>'])} {outer.sql}"]

    def _not(self) -> str:
        return "NOT " if self._rng.random() < 0.4 else ""


def comparable_pairs(scope: Sequence[Ref], source: Source) -> list[tuple[Ref, Ref]]:
    """Comparable pairs of outer and inner columns. Unqualified outer columns would resolve inside the subquery."""
    outer = [r for r in scope if r.kind in _COMPARED and r.grade < 2 and "." in r.sql]
    return [(a, b) for a in outer for b in source.refs if a.kind == b.kind and b.grade < 2]


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""
