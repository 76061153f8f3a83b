"""How the value of a column is written into a cell of HBase, so that other clients of HBase read and write it, too.

    binary    as org.apache.hadoop.hbase.util.Bytes does: integers and floats big-endian, BOOLEAN one byte (-1 or 0),
              DECIMAL a scale of four bytes and the unscaled value, STRING its UTF-8, BINARY its bytes;
              DATE the days since 1970 (four bytes), TIMESTAMP and INTERVAL microseconds (eight bytes)
    string    the value as text (`codec/text.py`); ARRAY, MAP and STRUCT as JSON

A NULL has no cell. Encoding and decoding work on whole columns; only decimals and texts of other types than numbers
take a loop over the values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tailrace.codec import arrays, text
from tailrace.codec.arrays import LARGE_BINARY, Vector, to_decimal, to_unscaled
from tailrace.codec.key_reading import to_text
from tailrace.codec.nested_arrays import is_nested
from tailrace.errors import DataError

Encoding = Literal["binary", "string"]
ENCODINGS: tuple[Encoding, ...] = ("binary", "string")
_SCALE = struct.Struct(">i")


def default_encoding(kind: pa.DataType) -> Encoding:
    return "string" if is_nested(kind) else "binary"


def encode(array: pa.Array, encoding: Encoding) -> pa.LargeBinaryArray:
    """The cell of each value, NULL for a NULL."""
    kind = array.type
    if arrays.is_text(kind) or (arrays.is_bytes(kind) and encoding == "binary"):
        return arrays.as_array(array, LARGE_BINARY)
    if encoding == "string":
        return _to_texts(array)
    if pa.types.is_decimal128(kind):
        decimals = [None if v is None else _encode_decimal(v, kind.scale) for v in array.to_pylist()]
        return pa.array(decimals, LARGE_BINARY)
    values = arrays.fixed_values(array)
    if pa.types.is_boolean(kind):
        values = np.where(values != 0, np.uint8(255), np.uint8(0))
    cells = arrays.pack_records(values.astype(values.dtype.newbyteorder(">")))
    mask = arrays.valid_mask(array)
    return cells if mask is None else arrays.take_cells(cells, np.where(mask, np.arange(len(mask)), -1))


def decode(cells: pa.LargeBinaryArray, kind: pa.DataType, encoding: Encoding) -> tuple[pa.Array, Vector]:
    """The value of each cell, and which cells have none of this type. Those are NULL, and NULL cells stay NULL."""
    if arrays.is_bytes(kind) and not arrays.is_text(kind) and encoding == "binary":
        return cells.cast(kind), np.zeros(len(cells), bool)
    if arrays.is_text(kind):
        texts, bad = to_text(cells)
        return texts.cast(kind), bad
    if encoding == "string":
        return _from_texts(cells, kind)
    if pa.types.is_decimal128(kind):
        return _decode_each(cells, kind, lambda cell: _decode_decimal(cell, kind))
    return _decode_fixed(cells, kind)


def _decode_fixed(cells: pa.LargeBinaryArray, kind: pa.DataType) -> tuple[pa.Array, Vector]:
    item = arrays.storage_type(kind)
    assert item is not None
    present = cells.is_valid().to_numpy(zero_copy_only=False)
    good = present & (np.diff(arrays.offsets(cells)) == item.itemsize)
    chosen = cells if good.all() else cells.filter(pa.array(good))
    matrix = arrays.cell_matrix(chosen, item.itemsize) if len(chosen) else np.zeros((0, item.itemsize), np.uint8)
    decoded = np.ascontiguousarray(matrix).view(item.newbyteorder(">"))[:, 0].astype(item)
    if pa.types.is_boolean(kind):
        decoded = (decoded != 0).astype(item)
    if good.all():
        return arrays.build_array(kind, decoded, None), ~good
    values = np.zeros(len(cells), item)
    values[good] = decoded
    return arrays.build_array(kind, values, good), present & ~good


def _encode_decimal(value: Decimal, scale: int) -> bytes:
    number = to_unscaled(value, scale)
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return _SCALE.pack(scale) + number.to_bytes(size, "big", signed=True)


def _decode_decimal(cell: bytes, kind: pa.DataType) -> Any:
    """The decimal with the scale of the column. ValueError if digits would be lost or are too many."""
    if len(cell) <= _SCALE.size or len(cell) > 64:
        raise ValueError("no decimal")
    (scale,) = _SCALE.unpack_from(cell)
    if abs(scale) > 1000:
        raise ValueError("no decimal of this type")
    number = int.from_bytes(cell[_SCALE.size :], "big", signed=True)
    shift = kind.scale - scale
    whole, rest = (number * 10**shift, 0) if shift >= 0 else divmod(number, 10**-shift)
    if rest or abs(whole) >= 10**kind.precision:
        raise ValueError("no decimal of this type")
    return to_decimal(whole, kind.scale)


def _to_texts(array: pa.Array) -> pa.LargeBinaryArray:
    if pa.types.is_integer(array.type):
        return arrays.as_array(array.cast(pa.large_string()), LARGE_BINARY)
    nested = is_nested(array.type)
    format_value = text.to_json if nested else text.format_cell
    texts = [None if value is None else format_value(value) for value in array.to_pylist()]
    return arrays.as_array(pa.array(texts, pa.large_string()), LARGE_BINARY)


def _from_texts(cells: pa.LargeBinaryArray, kind: pa.DataType) -> tuple[pa.Array, Vector]:
    texts, bad = to_text(cells)
    try:
        return text.array_of(texts.cast(pa.string()), "", kind), bad
    except DataError:
        array, wrong = _decode_each(texts, kind, lambda value: text.value_of(value, kind))
        return array, bad | wrong


def _decode_each(cells: pa.Array, kind: pa.DataType, decode_one: Callable[[Any], Any]) -> tuple[pa.Array, Vector]:
    values, bad = [], np.zeros(len(cells), bool)
    for i, cell in enumerate(cells.to_pylist()):
        try:
            values.append(None if cell is None else decode_one(cell))
        except (ValueError, ArithmeticError, RecursionError):
            values.append(None)
            bad[i] = True
    return pa.array(values, kind), bad
