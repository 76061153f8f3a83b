"""The canonical form in which view rows are compared: JSON values, indexed by the text that identifies a record.

    view with a key      text of the key's values                → the row
    view without a key   text of the row's values                → the number of copies
      ... with floats    text of the row's values but the floats → the floats of all such rows, sorted

Rows from a recording and rows from Spark are both brought into this form, so that equal values compare equal however
they were written: decimals have all their digits, times are in UTC, maps are sorted, zeros in keys have no sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from tailrace import types
from tailrace.codec import text
from tailrace.delta import WEIGHT
from tailrace.types import Column

State = dict[str, Any]


def convert_row(row: Mapping[str, Any], columns: Sequence[Column]) -> dict[str, Any]:
    """Converts a JSON row to its columns' types. Missing columns become None. ValueError: a value does not fit."""
    if extra := row.keys() - {c.name for c in columns}:
        raise ValueError(f"no column named {min(extra)!r}")
    values = {}
    for column in columns:
        try:
            values[column.name] = text.value_from_json(row.get(column.name), types.arrow(column.type))
        except ValueError:
            value = text.to_json(row[column.name])
            raise ValueError(f"column {column.name!r}: {value} does not fit {column.type.upper()}") from None
    return values


@dataclass(frozen=True)
class Shape:
    """A view's columns, and the positions of its key columns (None: no key)."""

    columns: tuple[Column, ...]
    key: tuple[int, ...] | None

    @cached_property
    def _schema(self) -> pa.Schema:
        return types.schema(self.columns)

    @cached_property
    def floats(self) -> list[int]:
        return [i for i, c in enumerate(self.columns) if types.is_float(c.type)]

    @cached_property
    def _identity(self) -> list[int]:
        """The positions of the columns that identify a record."""
        return [i for i in range(len(self.columns)) if i not in self.floats] if self.key is None else list(self.key)

    def to_plain(self, row: Sequence[Any]) -> list[Any]:
        """Converts a row's values to their JSON form."""
        return [_plain(value, field.type) for value, field in zip(row, self._schema, strict=True)]

    def record_text(self, row: Sequence[Any]) -> str:
        """The text that identifies the record of a plain row."""
        return text.to_json([_unsigned(row[i]) for i in self._identity])

    def key_text(self, key: Sequence[Any]) -> str:
        """The text that identifies the record with this key; the key is a list of JSON values."""
        columns = [self.columns[p] for p in self.key or ()]
        values = convert_row(dict(zip([c.name for c in columns], key, strict=True)), columns)
        kinds = [types.arrow(c.type) for c in columns]
        return text.to_json([_unsigned(_plain(v, k)) for v, k in zip(values.values(), kinds, strict=True)])

    def named(self, row: Sequence[Any]) -> dict[str, Any]:
        return {c.name: value for c, value in zip(self.columns, row, strict=True)}

    def build_state(self, rows: Iterable[Sequence[Any]]) -> State:
        """The state of a view with these rows. Raises ValueError if two rows have the same key."""
        bag = Bag(self)
        by_key: State = {}
        for row in map(self.to_plain, rows):
            record = self.record_text(row)
            if self.key is None:
                bag.add(row)
            elif record in by_key:
                raise ValueError(f"two rows have the key {record}")
            else:
                by_key[record] = self.named(row)
        return by_key if self.key is not None else {record: bag.value(record) for record in bag.records}


@dataclass
class Bag:
    """The rows of a view without a key, grouped by record, each with its number of copies."""

    shape: Shape
    records: dict[str, dict[str, tuple[tuple[Any, ...], int]]] = field(default_factory=dict)

    def add(self, row: Sequence[Any]) -> None:
        """Adds one copy of the row."""
        self.put(row, self._rows_of(row).get(text.to_json(row), ((), 0))[1] + 1)

    def put(self, row: Sequence[Any], weight: int) -> None:
        """Sets the number of copies of the row."""
        rows, row_text = self._rows_of(row), text.to_json(row)
        rows.pop(row_text, None)
        if weight:
            rows[row_text] = tuple(_unsigned(row[i]) for i in self.shape.floats), weight

    def value(self, record: str) -> Any:
        """The value of a record; None if it has no rows."""
        rows = self.records.get(record, {}).values()
        if not rows:
            return None
        if not self.shape.floats:
            return {WEIGHT: sum(weight for _, weight in rows)}
        return tuple(sorted((floats for floats, weight in rows for _ in range(weight)), key=_sort_key))

    def _rows_of(self, row: Sequence[Any]) -> dict[str, tuple[tuple[Any, ...], int]]:
        return self.records.setdefault(self.shape.record_text(row), {})


def _sort_key(row: tuple[Any, ...]) -> list[tuple[str, float]]:
    """A sort key for floats that ignores their last digits, because these may differ within the tolerance."""
    return [("", float(f"{v:.9g}")) if isinstance(v, int | float) else (str(v), 0.0) for v in row]


def _unsigned(value: Any) -> Any:
    """The JSON value with zeros that have no sign, in nested values too."""
    if isinstance(value, float):
        return 0.0 if value == 0 else value
    if isinstance(value, list):
        return [_unsigned(part) for part in value]
    return {name: _unsigned(part) for name, part in value.items()} if isinstance(value, dict) else value


def _plain(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        entries = [[_plain(k, kind.key_type), _plain(v, kind.item_type)] for k, v in value]
        return sorted(entries, key=text.to_json)
    if pa.types.is_list(kind):
        return [_plain(v, kind.value_type) for v in value]
    if pa.types.is_struct(kind):
        return {f.name: _plain(value.get(f.name), f.type) for f in kind}
    return text.plain(value)
