"""Converts Arrow columns to NumPy buffers and back. The row codec, the key codec and `hash_buckets` build on it.

Every function works on a whole column. Byte strings of different lengths are never indexed byte by byte:
`starts` and `ends` describe the cells inside one buffer, and Arrow copies them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.errors import Unsupported
from tailrace.types import NOT_STORED

Vector = npt.NDArray[Any]

LARGE_BINARY = pa.large_binary()
LONG_DIGITS = 18
"""The unscaled value of a decimal with at most this many digits fits 64 bits. Spark uses the same limit."""

# Not `pa.scalar`, which imports pandas: 0.3 s for everyone who imports Tailrace.
_EMPTY = pa.Array.from_buffers(LARGE_BINARY, 1, [None, pa.py_buffer(bytes(16)), pa.py_buffer(b"")])[0]
_MAX_LENGTH = 2**31 - 1
_FEW = 48  # pairs for which NumPy's overhead would be larger than its gain
_EXACT = Context(prec=76)
_STORAGE = {
    pa.bool_(): "<u1",
    pa.int8(): "<i1",
    pa.int16(): "<i2",
    pa.int32(): "<i4",
    pa.int64(): "<i8",
    pa.float32(): "<f4",
    pa.float64(): "<f8",
    pa.date32(): "<i4",
    pa.duration("us"): "<i8",
}


def storage_type(kind: pa.DataType) -> np.dtype[Any] | None:
    """The NumPy type of one value of a fixed-width type; None for a variable-width type.

    A decimal too wide for 64 bits is a pair of words, the low word first.
    """
    if kind in _STORAGE:
        return np.dtype(_STORAGE[kind])
    if pa.types.is_decimal128(kind):
        return np.dtype("<i8") if kind.precision <= LONG_DIGITS else np.dtype(("<i8", (2,)))
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return np.dtype("<i8")
    if is_bytes(kind) or is_list(kind) or pa.types.is_map(kind) or pa.types.is_struct(kind):
        return None
    raise Unsupported(construct=f"type {kind}", reason=NOT_STORED)


def is_bytes(kind: pa.DataType) -> bool:
    return is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def as_array(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """The column as one unchunked array of type `kind`."""
    if column.type != kind:
        column = column.cast(kind)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def normalise(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Replaces -0.0 by 0.0 and every NaN by one NaN, in nested values too, because SQL treats them as equal."""
    kind = array.type
    if pa.types.is_floating(kind):
        nan = pa.scalar(float("nan"), kind)
        return pc.if_else(pc.is_nan(array), nan, pc.add(array, pa.scalar(0.0, kind)))
    if not _holds_floats(kind):
        return array
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([normalise(chunk) for chunk in array.chunks], kind)
    if pa.types.is_struct(kind):
        fields = [normalise(array.field(i)) for i in range(kind.num_fields)]
        return pa.Array.from_buffers(kind, len(array), [validity_buffer(valid_mask(array))], children=fields)
    children = [normalise(array.values if is_list(kind) else _entries(array))]
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], offset=array.offset, children=children)


def _holds_floats(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or any(_holds_floats(kind.field(i).type) for i in range(kind.num_fields))


def _entries(array: pa.MapArray) -> pa.StructArray:
    """All (key, value) entries of a map array, as one struct array over the same buffers."""
    kind = pa.struct([array.type.key_field, array.type.item_field])
    return pa.Array.from_buffers(kind, len(array.keys), [None], children=[array.keys, array.items])


def valid_mask(array: pa.Array) -> Vector | None:
    """True where the array has a value; None if it has no NULL."""
    if not array.null_count:
        return None
    mask: Vector = array.is_valid().to_numpy(zero_copy_only=False)
    return mask


def fixed_values(array: pa.Array) -> Vector:
    """The values of a fixed-width array as its `storage_type`, zero where the array is NULL.

    Arrow leaves arbitrary bytes under a NULL. Zeroing them makes equal columns equal byte by byte.
    """
    kind, count = array.type, len(array)
    if pa.types.is_boolean(kind):
        return fixed_values(array.cast(pa.uint8()))
    wide = pa.types.is_decimal128(kind)
    item = np.dtype(("<i8", (2,))) if wide else storage_type(kind) if kind != pa.uint8() else np.dtype("<u1")
    assert item is not None
    data = array.buffers()[1]
    if data is None or not count:
        values = np.zeros(count, item)
    else:
        values = np.frombuffer(data, item, count=count, offset=array.offset * item.itemsize)
    if wide and kind.precision <= LONG_DIGITS:
        values = values[:, 0]
    mask = valid_mask(array)
    if mask is None:
        return values
    return np.where(mask if values.ndim == 1 else mask[:, None], values, values.dtype.type(0))


def build_array(kind: pa.DataType, values: Vector, mask: Vector | None) -> pa.Array:
    """The inverse of `fixed_values` and `valid_mask`."""
    count = len(values)
    if pa.types.is_boolean(kind):
        values = np.packbits(values.astype(bool), bitorder="little")
    elif pa.types.is_decimal128(kind) and values.ndim == 1:
        values = np.stack([values, values >> 63], axis=1)
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, count, [validity_buffer(mask), data])


def validity_buffer(mask: Vector | None) -> pa.Buffer | None:
    return None if mask is None else pa.py_buffer(np.packbits(mask, bitorder="little"))


def offsets(array: pa.Array) -> Vector:
    """The n + 1 boundaries of the cells of a (large) binary array in its data buffer."""
    buffer, item = array.buffers()[1], np.dtype("<i8" if pa.types.is_large_binary(array.type) else "<i4")
    if buffer is None or not buffer.size:
        return np.zeros(len(array) + 1, np.int64)
    edges = np.frombuffer(buffer, item, count=len(array) + 1, offset=array.offset * item.itemsize)
    return edges.astype(np.int64, copy=False)


def content(array: pa.Array) -> pa.Buffer:
    """The data buffer that `offsets` index."""
    return array.buffers()[2] or pa.py_buffer(b"")


def cut_cells(data: pa.Buffer | Vector, edges: Vector) -> pa.LargeBinaryArray:
    """The binary array whose cell i is `data[edges[i]:edges[i + 1]]`, without a copy."""
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(np.ascontiguousarray(data))
    edges = np.ascontiguousarray(edges, np.int64)
    return pa.LargeBinaryArray.from_buffers(LARGE_BINARY, len(edges) - 1, [None, pa.py_buffer(edges), buffer])


def pack_records(records: Vector) -> pa.LargeBinaryArray:
    """The binary array whose cell i is the bytes of record i."""
    width = records.dtype.itemsize
    return cut_cells(records.view(np.uint8), np.arange(len(records) + 1, dtype=np.int64) * width)


def cut_spans(data: pa.Buffer, starts: Vector, ends: Vector) -> pa.LargeBinaryArray:
    """The binary array whose cell i is `data[starts[i]:ends[i]]`; unsafe if the spans do not ascend or overlap.

    Builds a zero-copy array in which cells and gaps alternate, then takes every other element. Arrow's copy
    loop costs a tenth of indexing each byte.
    """
    if not len(starts):
        return cut_cells(data, np.zeros(1, np.int64))
    if np.array_equal(starts[1:], ends[:-1]):
        return cut_cells(data, np.append(starts, ends[-1]))
    edges = np.empty(2 * len(starts), np.int64)
    edges[0::2] = starts
    edges[1::2] = ends
    return cut_cells(data, edges).take(pa.array(np.arange(0, len(edges) - 1, 2)))


def gather_items(data: pa.Buffer, starts: Vector, ends: Vector, item: np.dtype[Any]) -> Vector:
    """The items in all spans, concatenated into one vector; unsafe under the same conditions as `cut_spans`."""
    spans = cut_spans(data, starts, ends)
    edges = offsets(spans)
    count = int(edges[-1] - edges[0]) // item.itemsize
    return np.frombuffer(content(spans), item, count=count, offset=int(edges[0]))


def join_cells(parts: Sequence[pa.LargeBinaryArray | pa.Scalar]) -> pa.LargeBinaryArray:
    """Concatenates the parts row by row; a scalar part is repeated in every row."""
    if len(parts) == 1:
        return parts[0]
    widths = _fixed_widths(parts)
    return pc.binary_join_element_wise(*parts, _EMPTY) if widths is None else _join_fixed(parts, widths)


def pairs(keys: pa.LargeBinaryArray, values: pa.LargeBinaryArray) -> Iterator[tuple[bytes, bytes]]:
    """Pairs of a key and its value. Many pairs of fixed width are unpacked from one buffer."""
    widths = _fixed_widths([keys, values]) if len(keys) > _FEW else None
    if not widths or not any(widths):
        return zip(keys.to_pylist(), values.to_pylist(), strict=True)
    records = _join_fixed([keys, values], widths)
    return struct.iter_unpack(f"{widths[0]}s{widths[1]}s", content(records))


def _fixed_widths(parts: Sequence[pa.LargeBinaryArray | pa.Scalar]) -> list[int] | None:
    """The cell width of each part; None if any part varies in width."""
    widths = [len(p.as_py()) if isinstance(p, pa.Scalar) else cell_width(p) for p in parts]
    known = [width for width in widths if width is not None]
    return known if len(known) == len(widths) else None


def _join_fixed(parts: Sequence[pa.LargeBinaryArray | pa.Scalar], widths: Sequence[int]) -> pa.LargeBinaryArray:
    count = next(len(p) for p in parts if not isinstance(p, pa.Scalar))
    joined = np.empty((count, sum(widths)), np.uint8)
    at = 0
    for part, width in zip(parts, widths, strict=True):
        is_scalar = isinstance(part, pa.Scalar)
        joined[:, at : at + width] = np.frombuffer(part.as_py(), np.uint8) if is_scalar else cell_matrix(part, width)
        at += width
    return cut_cells(joined.reshape(-1), np.arange(count + 1) * at)


def drop_prefix(array: pa.LargeBinaryArray, count: int) -> pa.LargeBinaryArray:
    """The cells without their first `count` bytes."""
    return pc.binary_slice(array, count, _MAX_LENGTH)  # Arrow 26 fails on a slice without an end


def take_cells(array: pa.LargeBinaryArray, at: Vector) -> pa.LargeBinaryArray:
    """The cells at indices `at`, NULL for -1. Fixed-width cells are taken as records, three times faster."""
    missing = at < 0
    indices = pa.array(at, mask=missing if missing.any() else None)
    width = cell_width(array)
    if not width or not len(at):
        return array.take(indices)
    records = pa.Array.from_buffers(pa.binary(width), len(array), [None, pa.py_buffer(cell_matrix(array, width))])
    validity, data = records.take(indices).buffers()
    edges = np.arange(len(at) + 1) * width
    return pa.LargeBinaryArray.from_buffers(LARGE_BINARY, len(at), [validity, pa.py_buffer(edges), data])


def cell_width(array: pa.LargeBinaryArray) -> int | None:
    """The length of every cell; None if lengths differ, a cell is NULL, or there are no cells."""
    edges = offsets(array)
    if array.null_count or len(edges) < 2:
        return None
    width = int(edges[1] - edges[0])
    return width if (edges[1:] - edges[:-1] == width).all() else None


def cell_matrix(array: pa.LargeBinaryArray, width: int) -> Vector:
    """Cells of one `cell_width` as the rows of a byte matrix, without a copy."""
    first = int(offsets(array)[0])
    return np.frombuffer(content(array), np.uint8, count=len(array) * width, offset=first).reshape(len(array), width)


def to_binary(array: pa.Array | pa.ChunkedArray) -> pa.LargeBinaryArray:
    """A string or binary column as large binary, with NULLs replaced by empty cells."""
    return pc.fill_null(as_array(array, LARGE_BINARY), _EMPTY)


def blank_nulls(encoded: pa.LargeBinaryArray, array: pa.Array) -> pa.LargeBinaryArray:
    """The encoded cells of `array`, with empty cells where `array` is NULL."""
    return pc.if_else(array.is_valid(), encoded, _EMPTY) if array.null_count else encoded


def to_unscaled(value: Decimal, scale: int) -> int:
    """The integer `value * 10**scale`; ValueError if digits would be lost."""
    shifted = _EXACT.scaleb(value, scale)
    number = int(shifted)
    if number != shifted:
        raise ValueError(f"{value} has more than {scale} digits after the point")
    return number


def to_decimal(number: int, scale: int) -> Decimal:
    """The inverse of `to_unscaled`."""
    return _EXACT.scaleb(Decimal(number), -scale)
