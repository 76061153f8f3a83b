"""What the contract tests share. `conftest.py` has the kinds of store that they run on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tailrace.codec.schema import TableDef
from tailrace.store.base import Cut, Store
from tailrace.store.lmdb import settings
from tailrace.store.lmdb.store import LmdbStore
from tailrace.types import Column

ITEMS = TableDef(1, "items", (Column("id", "int"), Column("tag", "string"), Column("v", "bigint")), ("id",))
PAIRS = TableDef(2, "pairs", (Column("a", "string"), Column("b", "int"), Column("v", "double")), ("a", "b"))
TEXTS = TableDef(5, "texts", (Column("t", "string"), Column("v", "int")), ("t",))
TABLES = (ITEMS, PAIRS, TEXTS)


def caught_up(store: Store) -> Cut:
    """The cut after everything that was written so far."""
    store.catch_up()
    return store.newest_cut()


def embedded(path: Path) -> Store:
    settings.create(path, settings.Settings(map_size=1 << 28))
    return LmdbStore(path)


def rows_at(store: Store, cut: Cut | None, table: TableDef = ITEMS) -> list[tuple[Any, ...]]:
    everything = range(len(table.columns))
    batches = (b for n in range(store.nodes) for b in store.rows(table, n, cut, everything))
    return sorted(tuple(row.values()) for b in batches for row in b.to_pylist())


def delta(store: Store, start: Cut, end: Cut, table: TableDef = ITEMS) -> list[tuple[Any, ...]]:
    everything = range(len(table.columns))
    batches = (b for n in range(store.nodes) for b in store.deltas(table, n, start, end, everything))
    return sorted(tuple(row.values()) for b in batches for row in b.to_pylist())
