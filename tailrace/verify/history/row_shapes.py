"""Rows of views in the form in which histories are compared: as JSON has them, under the key of their record.

    with a key       text of the key's values        → the row
    without one      text of the row's values        → how often it is there
                     (all but floats, if it has any)   → the floats of each such row, in order

Both what a recording says and what Spark computes take this form, so equal rows are equal however they were written:
decimals with all their digits, times in UTC, maps in the order of their keys, zeros in keys without a sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from tailrace import types
from tailrace.codec import text
from tailrace.codec.convert import to_value
from tailrace.delta import WEIGHT
from tailrace.types import Column

State = dict[str, Any]


def typed(row: Mapping[str, Any], columns: Sequence[Column]) -> dict[str, Any]:
    """A row from JSON with values of its columns' types, None where it has none; ValueError says what does not fit."""
    if extra := row.keys() - {c.name for c in columns}:
        raise ValueError(f"there is no column {min(extra)!r}")
    found = {}
    for column in columns:
        try:
            found[column.name] = _typed(row.get(column.name), types.arrow(column.type))
        except (ValueError, TypeError, ArithmeticError, AttributeError):
            value = text.to_json(row[column.name])
            raise ValueError(f"column {column.name!r}: {value} does not fit {column.type.upper()}") from None
    return found


def _typed(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, Mapping) else value
        return [(_typed(k, kind.key_type), _typed(v, kind.item_type)) for k, v in pairs]
    if pa.types.is_list(kind):
        return [_typed(v, kind.value_type) for v in value]
    if pa.types.is_struct(kind):
        return {f.name: _typed(value.get(f.name), f.type) for f in kind}
    if isinstance(value, str) and (pa.types.is_binary(kind) or pa.types.is_floating(kind)):
        return text.value_of(value, kind)
    return to_value(value, kind)


@dataclass(frozen=True)
class Shape:
    """A view's columns, and the positions of those that are its key."""

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
        """The positions that tell records apart."""
        return [i for i in range(len(self.columns)) if i not in self.floats] if self.key is None else list(self.key)

    def plain(self, row: Sequence[Any]) -> list[Any]:
        """A row's values as JSON has them."""
        return [_plain(value, field.type) for value, field in zip(row, self._schema, strict=True)]

    def record(self, row: Sequence[Any]) -> str:
        """The text of the record that a plain row belongs to."""
        return text.to_json([_unsigned(row[i]) for i in self._identity])

    def key_text(self, key: Sequence[Any]) -> str:
        """The same of a key alone, as JSON has it."""
        columns = [self.columns[p] for p in self.key or ()]
        values = typed(dict(zip([c.name for c in columns], key, strict=True)), columns)
        kinds = [types.arrow(c.type) for c in columns]
        return text.to_json([_unsigned(_plain(v, k)) for v, k in zip(values.values(), kinds, strict=True)])

    def shown(self, row: Sequence[Any]) -> dict[str, Any]:
        return {c.name: value for c, value in zip(self.columns, row, strict=True)}

    def state(self, rows: Iterable[Sequence[Any]]) -> State:
        """What a view with these rows shows; ValueError if two of them have one key."""
        bag = Bag(self)
        found: State = {}
        for row in map(self.plain, rows):
            record = self.record(row)
            if self.key is None:
                bag.add(row)
            elif record in found:
                raise ValueError(f"two rows have the key {record}")
            else:
                found[record] = self.shown(row)
        return found if self.key is not None else {record: bag.value(record) for record in bag.records}


@dataclass
class Bag:
    """Rows of a view without a key, each with how often it is there, by record."""

    shape: Shape
    records: dict[str, dict[str, tuple[tuple[Any, ...], int]]] = field(default_factory=dict)

    def add(self, row: Sequence[Any]) -> None:
        """The row is there once more."""
        self.put(row, self._held(row).get(text.to_json(row), ((), 0))[1] + 1)

    def put(self, row: Sequence[Any], weight: int) -> None:
        """From now on the row is there so often."""
        held, same = self._held(row), text.to_json(row)
        held.pop(same, None)
        if weight:
            held[same] = tuple(_unsigned(row[i]) for i in self.shape.floats), weight

    def value(self, record: str) -> Any:
        """What there is of a record; None if nothing."""
        held = self.records.get(record, {}).values()
        if not held:
            return None
        if not self.shape.floats:
            return {WEIGHT: sum(weight for _, weight in held)}
        return tuple(sorted((floats for floats, weight in held for _ in range(weight)), key=_order))

    def _held(self, row: Sequence[Any]) -> dict[str, tuple[tuple[Any, ...], int]]:
        return self.records.setdefault(self.shape.record(row), {})


def _order(row: tuple[Any, ...]) -> list[tuple[str, float]]:
    """Floats in an order that their last digits do not decide."""
    return [("", float(f"{v:.9g}")) if isinstance(v, int | float) else (str(v), 0.0) for v in row]


def _unsigned(value: Any) -> Any:
    return 0.0 if isinstance(value, float) and value == 0 else value


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
