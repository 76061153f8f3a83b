"""A scenario: a schema, views over it, and epochs of writes. Seed and group number determine all of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tailrace_fuzz import nested
from tailrace_fuzz.data import Epoch, Writer
from tailrace_fuzz.features import Features
from tailrace_fuzz.queries import random_query
from tailrace_fuzz.schemas import TableSchema, random_schema
from tailrace_fuzz.sources import Named, Query

PER_STORE = 20
EPOCHS = 3


@dataclass(frozen=True)
class View:
    """A view to maintain. `loose`: positions of columns whose last digits depend on row order."""

    number: int
    sql: str
    loose: frozenset[int]
    uses: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return f"v{self.number}"


@dataclass(frozen=True)
class Scenario:
    """`late` views are created after half of the epochs, over tables that have changed."""

    tables: tuple[TableSchema, ...]
    views: tuple[View, ...]
    late: frozenset[int]
    fill: Epoch
    epochs: tuple[Epoch, ...]

    def only(self, numbers: Sequence[int]) -> Scenario:
        """The same scenario with only these views and the views that they read."""
        kept, views_by_number = set(numbers), {v.number: v for v in self.views}
        pending = list(numbers)
        while pending:
            uses = views_by_number[pending.pop()].uses
            pending += [u for u in uses if u not in kept]
            kept.update(uses)
        return Scenario(
            self.tables, tuple(v for v in self.views if v.number in kept), self.late, self.fill, self.epochs
        )


def scenario(seed: int | str, group: int, features: Features, count: int = PER_STORE) -> Scenario:
    """The scenario of queries `group * PER_STORE` to `group * PER_STORE + count - 1`."""
    rng = random.Random(f"{seed}/schema/{group}")
    tables = random_schema(rng)
    if features.on(random.Random(f"{seed}/nested/{group}"), "nested", 0.3):
        tables = (*tables[:2], nested.TABLE)
    writer = Writer(rng, tables, specials=features.on(rng, "specials", 0.2))
    fill, epochs = writer.fill(), tuple(writer.epochs(EPOCHS))
    views: list[View] = []
    made: list[tuple[str, Query]] = []
    for number in range(group * PER_STORE, group * PER_STORE + count):
        query = random_query(random.Random(f"{seed}/query/{number}"), features, Named(tables, tuple(made[-3:])))
        uses = tuple(v.number for v in views if f" {v.name} " in query.sql)
        loose = frozenset(i for i, c in enumerate(query.columns) if c.grade == 2)
        views.append(View(number, query.sql, loose, uses))
        made.append((views[-1].name, query))
    return Scenario(tables, tuple(views), _choose_late(rng, views), fill, epochs)


def _choose_late(rng: random.Random, views: Sequence[View]) -> frozenset[int]:
    late: set[int] = set()
    for view in views:
        if rng.random() < 0.2 or late.intersection(view.uses):
            late.add(view.number)
    return frozenset(late)
