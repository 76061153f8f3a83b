"""Random rows and operations. Domains are small, so that groups, join matches and duplicates occur.

Doubles are multiples of a quarter. Their sums are exact in any order, so a query has exactly one answer.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tailrace_fuzz import nested
from tailrace_fuzz.schemas import Field, TableSchema

Row = dict[str, Any]

_DAY, _MOMENT = date(2026, 1, 30), datetime(2026, 1, 31, 22, 30)

DOMAINS: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [0, 1, 2, 3, -128, 127],
    "SMALLINT": [0, 1, 2, 3, -5],
    "INT": [0, 1, 2, 3, 4, -1, 1000],
    "BIGINT": [0, 1, 2, 3, -7, 2**33],
    "FLOAT": [0.0, 0.5, -1.25, 2.0, 3.0],
    "DOUBLE": [0.0, -0.0, 0.25, 1.0, 2.5, -3.75, 1000.0],
    "DECIMAL(8,2)": [Decimal(v) for v in ("0.00", "1.00", "2.50", "-2.50", "0.05", "999.99")],
    "DECIMAL(20,4)": [Decimal(v) for v in ("0.0000", "1.0000", "2.5000", "-0.0001", "123456789.1234")],
    "DECIMAL(38,6)": [Decimal(v) for v in ("0.000000", "1.000000", "-2.500000", "12345678901234.123456")],
    "STRING": ["", "a", "b", "ab", "B", " c", "ü", "1", "2026-01-31", "a\x00", "x%_"],
    "BINARY": [b"", b"a", b"ab", b"\x00\xff"],
    "DATE": [_DAY + timedelta(days=n) for n in (0, 1, 2, 3, 31, 366)],
    "TIMESTAMP": [(_MOMENT + timedelta(minutes=n)).replace(tzinfo=UTC) for n in (0, 30, 90, 1500, 50_000)],
    "TIMESTAMP_NTZ": [_MOMENT + timedelta(minutes=n, microseconds=n) for n in (0, 30, 90, 1500)],
    **nested.DOMAINS,
}
SPECIALS = [float("nan"), float("inf"), float("-inf")]
_KEYS: dict[str, list[Any]] = {
    "INT": list(range(8)),
    "BIGINT": [0, 1, 2, 3, 4, -7, 2**33, 2**62],
    "STRING": ["", "a", "b", "ab", "1", "ü", "z" * 300],
    "DATE": DOMAINS["DATE"],
    "DECIMAL(8,2)": DOMAINS["DECIMAL(8,2)"],
}


@dataclass(frozen=True)
class Operation:
    """One write. `kind` is put, update or delete; the rows of a delete have only key columns."""

    kind: str
    table: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Epoch:
    """The writes of an epoch. `spread`: whether it runs as tasks over all shards or in one task."""

    operations: tuple[Operation, ...]
    spread: bool


class Writer:
    """Generates operations and tracks which rows are present."""

    def __init__(
        self, rng: random.Random, tables: tuple[TableSchema, ...], *, specials: bool, max_rows: int = 14
    ) -> None:
        self._rng, self._tables, self._specials, self._max_rows = rng, tables, specials, max_rows
        self._present: dict[str, dict[tuple[Any, ...], Row]] = {t.name: {} for t in tables}
        self._nulls, self._spread = rng.choice([0.05, 0.15, 0.4]), rng.random() < 0.3

    def epochs(self, count: int) -> list[Epoch]:
        """Epochs of all sizes. The last but one deletes all rows, the last inserts some again.

        Most epochs touch all tables: each other set of tables needs its own plan, and planning is slow.
        """
        epochs = []
        for number in range(count):
            some = self._rng.sample(self._tables, 1) if number == 0 and self._rng.random() < 0.4 else self._tables
            steps = self._rng.choice([1, 1, 2, 4])
            if number == count - 2:
                operations = [self._clear(t) for t in some]
            else:
                operations = [self._step(t) for t in some for _ in range(steps)]
            epochs.append(Epoch(tuple(operations), self._spread))
        return epochs

    def fill(self) -> Epoch:
        """The rows before any view is created. A table may stay empty."""
        chosen = [t for t in self._tables if self._rng.random() < 0.9]
        return Epoch(tuple(self._put(t, self._rng.randrange(3, self._max_rows)) for t in chosen), self._spread)

    def _step(self, table: TableSchema) -> Operation:
        kind, present = self._rng.random(), self._present[table.name]
        if kind < 0.45 or not present:
            return self._put(table, self._rng.randrange(1, 6))
        if kind < 0.7:
            return self._update(table)
        if kind < 0.97:
            return self._delete(table, self._rng.randrange(1, 4))
        return self._clear(table)

    def _put(self, table: TableSchema, count: int) -> Operation:
        present, rows = self._present[table.name], {}
        for _ in range(count):
            row = self._row(table)
            key = tuple(row[f.name] for f in table.key)
            if key in present or len(present) < self._max_rows:
                present[key] = rows[key] = row
        if not rows:
            return self._delete(table, 2)
        return Operation("put", table.name, tuple(rows.values()))

    def _update(self, table: TableSchema) -> Operation:
        key = self._rng.choice(list(self._present[table.name]))
        changed = self._rng.sample(table.rest, min(len(table.rest), 2))
        row = self._key_row(table, key) | {f.name: self._value(f) for f in changed}
        self._present[table.name][key].update(row)
        return Operation("update", table.name, (row,))

    def _delete(self, table: TableSchema, count: int) -> Operation:
        present = self._present[table.name]
        deleted_keys = self._rng.sample(list(present), min(len(present), count))
        for key in deleted_keys:
            del present[key]
        return Operation("delete", table.name, tuple(self._key_row(table, k) for k in deleted_keys))

    def _clear(self, table: TableSchema) -> Operation:
        return self._delete(table, len(self._present[table.name]))

    def _row(self, table: TableSchema) -> Row:
        keys = {f.name: self._rng.choice(_KEYS[f.type]) for f in table.key}
        return keys | {f.name: self._value(f) for f in table.rest}

    def _value(self, field: Field) -> Any:
        if self._rng.random() < self._nulls:
            return None
        if self._specials and field.kind == "dbl" and self._rng.random() < 0.2:
            return self._rng.choice(SPECIALS)
        return self._rng.choice(DOMAINS[field.type])

    @staticmethod
    def _key_row(table: TableSchema, key: tuple[Any, ...]) -> Row:
        return {f.name: v for f, v in zip(table.key, key, strict=True)}
