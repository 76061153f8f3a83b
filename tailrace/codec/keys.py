"""Encodes keys as bytes that sort in SQL order, so that the store's B-tree can sort and scan by them.

Each column is a marker byte, 0 for NULL (sorts first) or 1 for a value, followed by the value:

    integer, date, timestamp, interval, decimal
                                        big-endian, sign bit flipped; zeros for a NULL
    float, double                       IEEE bits, all flipped if negative; one zero, one NaN (the last)
    boolean                             one byte
    string, binary                      its bytes, 0 escaped as `01 01` and 1 as `01 02`, then the terminator `00`
    array, map, struct                  its row encoding, written as a binary: comparable for equality, not for order

The encoding is self-delimiting: the key of the first columns is a prefix of the whole key, and no encoded value
is a prefix of another. A prefix scan therefore returns exactly the rows with those values.

A descending column flips every bit of its values. A column with NULLs last uses marker 2 for NULL. Both keep the
properties above.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tailrace.codec import arrays
from tailrace.codec.arrays import LONG_DIGITS, Vector, normalise, to_unscaled
from tailrace.codec.rows import RowCodec
from tailrace.codec.scalars import days, length, micros

__all__ = ["DIGEST", "Direction", "KeyCodec", "after_prefix", "digest", "prefix_range"]

_Fields = list[tuple[str, Any]]
_SIGN = 1 << 63
_COMPLEMENT = bytes(255 - byte for byte in range(256))


DIGEST = 16  # bytes


def digest(value: bytes) -> bytes:
    """A short key that stands for a long value: the whole of a row that has no key, or a key that is too long."""
    return hashlib.blake2b(value, digest_size=DIGEST).digest()


class Direction(NamedTuple):
    """The sort order of one key column."""

    ascending: bool = True
    nulls_first: bool = True


_DEFAULT = Direction()


class KeyCodec:
    """Encodes keys with columns of these types. A key with fewer columns is encoded as a prefix.

    `directions` apply to the first columns; the others ascend, NULLs first.
    """

    def __init__(self, types: Sequence[pa.DataType], directions: Sequence[Direction] = ()) -> None:
        self.types = tuple(types)
        self._directions = [*directions, *[_DEFAULT] * (len(self.types) - len(directions))]
        self._nested = [_nested_codec(kind) for kind in self.types]
        self._writers = [
            _apply_direction(_make_writer(kind, rows), direction)
            for kind, rows, direction in zip(self.types, self._nested, self._directions, strict=True)
        ]

    def encode(self, columns: Sequence[pa.Array | pa.ChunkedArray], length: int | None = None) -> pa.LargeBinaryArray:
        """The key of each row. `length` is the number of rows, required if there are no columns.

        Adjacent fixed-width columns become records of one NumPy array. Only variable-width columns are joined row by
        row.
        """
        self._check(len(columns))
        count = len(columns[0]) if columns else length
        if count is None:
            raise ValueError("length is required for a key without columns")
        parts: list[pa.LargeBinaryArray] = []
        fields: _Fields = []
        for column, kind, rows, direction in zip(columns, self.types, self._nested, self._directions, strict=False):
            if arrays.storage_type(kind) is not None:
                fields += _apply_direction_to_fields(_fixed_fields(normalise(arrays.as_array(column, kind))), direction)
                continue
            array = arrays.as_array(column, arrays.LARGE_BINARY if rows is None else kind)
            mask = arrays.valid_mask(array)
            fields.append(_marker(1 if mask is None else mask, direction))
            text = _escape(_to_bytes(array, rows))
            parts += [_pack_fields(fields, count), text if direction.ascending else _flip_bits(text)]
            fields = [("u1", 0 if direction.ascending else 255)]
        if fields or not parts:
            parts.append(_pack_fields(fields, count))
        return arrays.join_cells(parts)

    def encode_one(self, values: Sequence[Any]) -> bytes:
        """The key of one row of Python values. Gives the same bytes as `encode`, without Arrow."""
        self._check(len(values))
        return b"".join([write(value) for write, value in zip(self._writers, values, strict=False)])

    def _check(self, count: int) -> None:
        if count > len(self.types):
            raise ValueError(f"{count} values for a key of {len(self.types)} columns")


def _nested_codec(kind: pa.DataType) -> RowCodec | None:
    """The row codec that encodes values of a nested type; None for other types."""
    if arrays.storage_type(kind) is not None or arrays.is_bytes(kind):
        return None
    return RowCodec(pa.schema([pa.field("value", kind)]), canonical=True)


def _to_bytes(array: pa.Array, rows: RowCodec | None) -> pa.LargeBinaryArray:
    """The unescaped bytes of each value, empty for a NULL."""
    if rows is None:
        return arrays.to_binary(array)
    return arrays.blank_nulls(rows.encode_columns([array], len(array)), array)


def _fixed_fields(array: pa.Array) -> _Fields:
    """The marker and value of a fixed-width column, as unsigned integers that sort in key order."""
    mask, values = arrays.valid_mask(array), arrays.fixed_values(array)
    marker = ("u1", 1 if mask is None else mask)
    if pa.types.is_boolean(array.type):
        return [marker, ("u1", values)]
    if values.ndim == 2:
        words = values.view(np.uint64)
        return [marker, (">u8", _zero_nulls(words[:, 1] ^ np.uint64(_SIGN), mask)), (">u8", words[:, 0])]
    size = values.dtype.itemsize
    bits = np.ascontiguousarray(values).view(f"<u{size}")
    sign = bits.dtype.type(1 << (8 * size - 1))
    if values.dtype.kind == "f":
        flip = np.where(bits & sign, ~bits.dtype.type(0), sign)
    else:
        flip = sign
    return [marker, (f">u{size}", _zero_nulls(bits ^ flip, mask))]


def _marker(present: Any, direction: Direction) -> tuple[str, Any]:
    """The marker field: 1 for a value; for a NULL 0, or 2 if NULLs come last."""
    return ("u1", present if direction.nulls_first else 2 - np.asarray(present, np.uint8))


def _apply_direction_to_fields(fields: _Fields, direction: Direction) -> _Fields:
    (_, present), *values = fields
    if not direction.ascending:
        values = [(item, ~v) for item, v in values]
    return [_marker(present, direction), *values]


def _flip_bits(array: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    edges = arrays.offsets(array)
    data = np.frombuffer(arrays.content(array), np.uint8, count=int(edges[-1] - edges[0]), offset=int(edges[0]))
    return arrays.cut_cells(~data, edges - edges[0])


def _zero_nulls(values: Vector, mask: Vector | None) -> Vector:
    return values if mask is None else np.where(mask, values, values.dtype.type(0))


def _pack_fields(fields: _Fields, count: int) -> pa.LargeBinaryArray:
    """One cell per row: the fields of the row, packed as a record."""
    if not fields:
        return arrays.cut_cells(pa.py_buffer(b""), np.zeros(count + 1, np.int64))
    records = np.empty(count, np.dtype([(f"f{i}", item) for i, (item, _) in enumerate(fields)]))
    for i, (_, values) in enumerate(fields):
        records[f"f{i}"] = values
    return arrays.pack_records(records)


def _escape(array: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Escapes bytes 0 and 1 as pairs. A single 0 can then end a value, and the order of values is kept."""
    edges = arrays.offsets(array)
    first = int(edges[0])
    data = np.frombuffer(arrays.content(array), np.uint8, count=int(edges[-1]) - first, offset=first)
    special = data <= 1
    if not special.any():
        return array
    after = np.append(0, np.cumsum(special + np.int64(1)))
    escaped = np.repeat(data, special + np.int64(1))
    ends = after[1:][special]
    escaped[ends - 2] = 1
    escaped[ends - 1] = data[special] + 1
    return arrays.cut_cells(escaped, after[edges - first])


def _make_writer(kind: pa.DataType, rows: RowCodec | None) -> Callable[[Any], bytes]:
    """A function that encodes one Python value of a type, with its marker."""
    if rows is not None:
        return _bytes_writer(lambda value: _encode_nested(value, kind, rows))
    if arrays.is_text(kind):
        return _bytes_writer(str.encode)
    if arrays.is_bytes(kind):
        return _bytes_writer(bytes)
    if pa.types.is_boolean(kind):
        return lambda value: b"\0\0" if value is None else b"\1\1" if value else b"\1\0"
    if pa.types.is_floating(kind):
        return _float_writer("f" if pa.types.is_float32(kind) else "d")
    if pa.types.is_decimal128(kind):
        scale = kind.scale
        return _integer_writer(8 if kind.precision <= LONG_DIGITS else 16, lambda value: to_unscaled(value, scale))
    if pa.types.is_timestamp(kind):
        return _integer_writer(8, micros)
    if pa.types.is_duration(kind):
        return _integer_writer(8, length)
    return _integer_writer(kind.bit_width // 8, days if pa.types.is_date32(kind) else None)


def _apply_direction(write: Callable[[Any], bytes], direction: Direction) -> Callable[[Any], bytes]:
    if direction == _DEFAULT:
        return write
    null = b"\0" if direction.nulls_first else b"\2"

    def write_directed(value: Any) -> bytes:
        rest = write(value)[1:]
        return (null if value is None else b"\1") + (rest if direction.ascending else rest.translate(_COMPLEMENT))

    return write_directed


def _encode_nested(value: Any, kind: pa.DataType, rows: RowCodec) -> bytes:
    encoded: bytes = rows.encode_columns([pa.array([value], kind)], 1)[0].as_py()
    return encoded


def _bytes_writer(convert: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    def write(value: Any) -> bytes:
        if value is None:
            return b"\0\0"
        data = convert(value)
        if b"\0" in data or b"\1" in data:
            data = data.replace(b"\1", b"\1\2").replace(b"\0", b"\1\1")
        return b"\1" + data + b"\0"

    return write


def _integer_writer(size: int, convert: Callable[[Any], int] | None) -> Callable[[Any], bytes]:
    bias, null = 1 << (8 * size - 1), bytes(size + 1)

    def write(value: Any) -> bytes:
        if value is None:
            return null
        number: int = value if convert is None else convert(value)
        return b"\1" + (number + bias).to_bytes(size, "big")

    return write


def _float_writer(code: str) -> Callable[[Any], bytes]:
    pack, size = struct.Struct(">" + code).pack, struct.calcsize(code)
    null, ones, sign = bytes(size + 1), (1 << 8 * size) - 1, 1 << (8 * size - 1)
    nan = b"\1" + (int.from_bytes(pack(float("nan")), "big") | sign).to_bytes(size, "big")

    def write(value: float | None) -> bytes:
        if value is None:
            return null
        if value != value:
            return nan
        bits = int.from_bytes(pack(value + 0.0), "big")
        return b"\1" + (bits ^ (ones if bits & sign else sign)).to_bytes(size, "big")

    return write


def after_prefix(prefix: bytes) -> bytes | None:
    """The first byte string greater than all that start with `prefix`."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


def prefix_range(prefix: bytes) -> tuple[bytes, bytes | None]:
    """The bounds [low, high) of all keys that start with `prefix`."""
    return prefix, after_prefix(prefix)
