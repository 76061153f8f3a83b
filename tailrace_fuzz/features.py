"""The constructs that queries may use. Each has a weight; weight 0 turns it off."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

FEATURES: dict[str, float] = {
    "where": 1,
    "time": 1,  # conditions on now()
    "joins": 1,  # inner equi-joins
    "outer": 1,  # LEFT, RIGHT, FULL
    "semi": 1,  # SEMI, ANTI
    "nonequi": 1,  # CROSS, joins on inequalities
    "residual": 1,  # join conditions in addition to the equality
    "using": 1,  # USING, NATURAL
    "aggregates": 1,
    "filter": 1,  # aggregates with FILTER
    "distinct_aggregates": 1,
    "generic": 1,  # aggregates recomputed for the touched groups
    "having": 1,
    "grouping_sets": 1,  # ROLLUP, CUBE, GROUPING SETS
    "distinct": 1,
    "union": 1,
    "setops": 1,  # INTERSECT, EXCEPT
    "subqueries": 1,  # in FROM
    "cte": 1,
    "scalar": 1,  # scalar subqueries
    "checked": 1,  # scalar subqueries that nothing proves to have one row
    "lateral": 1,  # LATERAL subqueries
    "in": 1,
    "exists": 1,
    "correlated": 1,
    "explode": 1,
    "windows": 1,
    "limit": 1,
    "rank": 1,  # row_number() <= k
    "values": 1,
    "views": 1,  # views over views
    "specials": 1,  # NaN and infinities
    "nested": 1,  # a table with arrays, maps, structs and intervals
}


@dataclass(frozen=True)
class Features:
    """The weights of all features."""

    weights: Mapping[str, float] = field(default_factory=lambda: dict(FEATURES))

    @classmethod
    def of(cls, only: Iterable[str] = (), without: Iterable[str] = ()) -> Features:
        """All features, or only those in `only` (`name` or `name=weight`), minus those in `without`."""
        chosen = dict(_parse_weight(text) for text in only)
        weights = {name: chosen.get(name, 0.0) for name in FEATURES} if chosen else dict(FEATURES)
        return cls(weights | dict.fromkeys(map(_require_known, without), 0.0))

    def weight(self, name: str) -> float:
        return self.weights[name]

    def on(self, rng: random.Random, name: str, chance: float) -> bool:
        return rng.random() < chance * self.weights[name]

    def choose(self, rng: random.Random, options: Sequence[tuple[T, float, str | None]]) -> T:
        """A random option out of (value, weight, required feature or None)."""
        weights = [w * (self.weights[f] if f else 1) for _, w, f in options]
        return rng.choices([o[0] for o in options], weights)[0]


def _parse_weight(text: str) -> tuple[str, float]:
    name, _, weight = text.partition("=")
    return _require_known(name), float(weight or 1)


def _require_known(name: str) -> str:
    if name not in FEATURES:
        raise ValueError(f"no feature {name!r}; known features: {', '.join(FEATURES)}")
    return name
