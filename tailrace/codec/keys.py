"""Keys as bytes whose order is the order of SQL, so that the store's B-tree sorts and scans by it.

Per column a marker, 0 for NULL (which sorts first) and 1 for a value, then the value:

    integer, date, timestamp, decimal   big-endian, sign bit flipped; zeros for a NULL
    float, double                       IEEE bits, all flipped if negative; one zero, one NaN (the last)
    boolean                             one byte
    string, binary                      its bytes, 0 as `01 01` and 1 as `01 02`, then `00`
    array, map, struct                  the bytes of its row, written as a binary: equal, not ordered

Each column ends by itself, so the key of the first columns is a prefix of the whole key, and no value
is a prefix of another: a scan of a prefix sees the rows that have it, and no others.

A column may be ordered otherwise: descending flips every bit of its values, and NULLs that come last have
the marker 2. Both keep all of the above.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tailrace.codec import arrays
from tailrace.codec.arrays import LONG_DIGITS, Vector, normalise, to_unscaled
from tailrace.codec.rows import RowCodec
from tailrace.codec.scalars import days, micros

__all__ = ["Direction", "KeyCodec", "normalise"]

_Fields = list[tuple[str, Any]]
_SIGN = 1 << 63
_FLIPS = bytes(255 - byte for byte in range(256))


class Direction(NamedTuple):
    """How a column of a key is ordered."""

    ascending: bool = True
    nulls_first: bool = True


_USUAL = Direction()


class KeyCodec:
    """Encodes keys whose columns have these types; a shorter key is encoded as a prefix.

    `directions` are those of the first columns; all others ascend, NULLs first.
    """

    def __init__(self, types: Sequence[pa.DataType], directions: Sequence[Direction] = ()) -> None:
        self.types = tuple(types)
        self._directions = [*directions, *[_USUAL] * (len(self.types) - len(directions))]
        self._nested = [_nested(kind) for kind in self.types]
        self._writers = [
            _directed(_writer(kind, rows), direction)
            for kind, rows, direction in zip(self.types, self._nested, self._directions, strict=True)
        ]

    def encode(self, columns: Sequence[pa.Array | pa.ChunkedArray], length: int | None = None) -> pa.LargeBinaryArray:
        """The key of each row; `length` is the number of rows, needed when there are no columns.

        Neighbouring fixed-width columns are laid out as records of one NumPy array; only columns that
        vary in length are joined row by row.
        """
        self._check(len(columns))
        count = len(columns[0]) if columns else length
        if count is None:
            raise ValueError("a key without columns needs a length")
        parts: list[pa.LargeBinaryArray] = []
        fields: _Fields = []
        for column, kind, rows, way in zip(columns, self.types, self._nested, self._directions, strict=False):
            if arrays.storage(kind) is not None:
                fields += _directed_fields(_fixed_fields(normalise(arrays.flat(column, kind))), way)
                continue
            array = arrays.flat(column, arrays.LARGE_BINARY if rows is None else kind)
            mask = arrays.valid(array)
            fields.append(_marker(1 if mask is None else mask, way))
            text = _escaped(_bytes(array, rows))
            parts += [_packed(fields, count), text if way.ascending else _flipped(text)]
            fields = [("u1", 0 if way.ascending else 255)]
        if fields or not parts:
            parts.append(_packed(fields, count))
        return arrays.join_cells(parts)

    def encode_one(self, values: Sequence[Any]) -> bytes:
        """The key of one row of Python values, the same bytes as `encode`, without Arrow."""
        self._check(len(values))
        return b"".join([write(value) for write, value in zip(self._writers, values, strict=False)])

    def _check(self, count: int) -> None:
        if count > len(self.types):
            raise ValueError(f"{count} values for a key of {len(self.types)} columns")


def _nested(kind: pa.DataType) -> RowCodec | None:
    if arrays.storage(kind) is not None or arrays.is_bytes(kind):
        return None
    return RowCodec(pa.schema([pa.field("value", kind)]), canonical=True)


def _bytes(array: pa.Array, rows: RowCodec | None) -> pa.LargeBinaryArray:
    """The bytes that stand for each value, empty for a NULL."""
    if rows is None:
        return arrays.bytes_of(array)
    return arrays.blank_nulls(rows.encode_columns([array], len(array)), array)


def _fixed_fields(array: pa.Array) -> _Fields:
    """Marker and value of a fixed-width column, as unsigned numbers in key order."""
    mask, values = arrays.valid(array), arrays.fixed(array)
    marker = ("u1", 1 if mask is None else mask)
    if pa.types.is_boolean(array.type):
        return [marker, ("u1", values)]
    if values.ndim == 2:
        words = values.view(np.uint64)
        return [marker, (">u8", _present(words[:, 1] ^ np.uint64(_SIGN), mask)), (">u8", words[:, 0])]
    size = values.dtype.itemsize
    bits = np.ascontiguousarray(values).view(f"<u{size}")
    sign = bits.dtype.type(1 << (8 * size - 1))
    if values.dtype.kind == "f":
        flip = np.where(bits & sign, ~bits.dtype.type(0), sign)
    else:
        flip = sign
    return [marker, (f">u{size}", _present(bits ^ flip, mask))]


def _marker(present: Any, way: Direction) -> tuple[str, Any]:
    """0 or, where NULLs come last, 2 for a NULL; 1 for a value."""
    return ("u1", present if way.nulls_first else 2 - np.asarray(present, np.uint8))


def _directed_fields(fields: _Fields, way: Direction) -> _Fields:
    (_, present), *values = fields
    if not way.ascending:
        values = [(item, ~v) for item, v in values]
    return [_marker(present, way), *values]


def _flipped(array: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    edges = arrays.offsets(array)
    data = np.frombuffer(arrays.content(array), np.uint8, count=int(edges[-1] - edges[0]), offset=int(edges[0]))
    return arrays.cells(~data, edges - edges[0])


def _present(values: Vector, mask: Vector | None) -> Vector:
    return values if mask is None else np.where(mask, values, values.dtype.type(0))


def _packed(fields: _Fields, count: int) -> pa.LargeBinaryArray:
    """Records of the fields, as the bytes of one cell per row."""
    if not fields:
        return arrays.cells(pa.py_buffer(b""), np.zeros(count + 1, np.int64))
    records = np.empty(count, np.dtype([(f"f{i}", item) for i, (item, _) in enumerate(fields)]))
    for i, (_, values) in enumerate(fields):
        records[f"f{i}"] = values
    return arrays.pack_records(records)


def _escaped(array: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Bytes 0 and 1 written as pairs, which frees a single 0 to end the value and keeps the order."""
    edges = arrays.offsets(array)
    first = int(edges[0])
    data = np.frombuffer(arrays.content(array), np.uint8, count=int(edges[-1]) - first, offset=first)
    special = data <= 1
    if not special.any():
        return array
    after = np.append(0, np.cumsum(special + np.int64(1)))
    escaped = np.repeat(data, special + np.int64(1))
    places = after[1:][special]
    escaped[places - 2] = 1
    escaped[places - 1] = data[special] + 1
    return arrays.cells(escaped, after[edges - first])


def _writer(kind: pa.DataType, rows: RowCodec | None) -> Callable[[Any], bytes]:
    """The encoder of one Python value of a type."""
    if rows is not None:
        return _bytes_writer(lambda value: _opaque(value, kind, rows))
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
    return _integer_writer(kind.bit_width // 8, days if pa.types.is_date32(kind) else None)


def _directed(write: Callable[[Any], bytes], way: Direction) -> Callable[[Any], bytes]:
    if way == _USUAL:
        return write
    null = b"\0" if way.nulls_first else b"\2"

    def directed(value: Any) -> bytes:
        rest = write(value)[1:]
        return (null if value is None else b"\1") + (rest if way.ascending else rest.translate(_FLIPS))

    return directed


def _opaque(value: Any, kind: pa.DataType, rows: RowCodec) -> bytes:
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
