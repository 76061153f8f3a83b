"""Arrow columns as NumPy buffers and back: the layer under the row codec, the key codec and `hash_buckets`.

Everything here works on whole columns. Bytes of different lengths ("ragged") are never indexed one by
one: a run of cells inside a buffer is described by `starts` and `ends`, and Arrow copies it.
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

Vector = npt.NDArray[Any]

LARGE_BINARY = pa.large_binary()
LONG_DIGITS = 18
"""Decimals of up to this many digits have an unscaled value that fits 64 bits (Spark's limit, too)."""

_NOTHING = pa.scalar(b"", LARGE_BINARY)
_LONGEST = 2**31 - 1
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
}


def storage(kind: pa.DataType) -> np.dtype[Any] | None:
    """The NumPy type that holds one value of a fixed-width type; None if its values vary in length.

    A decimal too wide for 64 bits is a pair of words, the low one first.
    """
    if kind in _STORAGE:
        return np.dtype(_STORAGE[kind])
    if pa.types.is_decimal128(kind):
        return np.dtype("<i8") if kind.precision <= LONG_DIGITS else np.dtype(("<i8", (2,)))
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return np.dtype("<i8")
    if is_bytes(kind) or is_list(kind) or pa.types.is_map(kind) or pa.types.is_struct(kind):
        return None
    raise Unsupported(construct=f"type {kind}", reason="a table or view cannot store it")


def is_bytes(kind: pa.DataType) -> bool:
    return is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def flat(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """The column as one array of the type asked for, whatever its chunks and offset width."""
    if column.type != kind:
        column = column.cast(kind)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def normalise(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Floats with one zero and one NaN, in nested values too, since SQL compares by value; all else as it is."""
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
        return pa.Array.from_buffers(kind, len(array), [bitmap(valid(array))], children=fields)
    inside = normalise(array.values if is_list(kind) else _entries(array))
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], offset=array.offset, children=[inside])


def _holds_floats(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or any(_holds_floats(kind.field(i).type) for i in range(kind.num_fields))


def _entries(array: pa.MapArray) -> pa.StructArray:
    """The keys and values of all of an array's maps, as they lie in its buffers."""
    kind = pa.struct([array.type.key_field, array.type.item_field])
    return pa.Array.from_buffers(kind, len(array.keys), [None], children=[array.keys, array.items])


def valid(array: pa.Array) -> Vector | None:
    """True where the array has a value; None if it has one everywhere."""
    if not array.null_count:
        return None
    mask: Vector = array.is_valid().to_numpy(zero_copy_only=False)
    return mask


def fixed(array: pa.Array) -> Vector:
    """The values of a fixed-width array as `storage` types, zero where the array is NULL.

    Arrow leaves arbitrary bytes under a NULL; zeroing them makes equal columns equal byte by byte.
    """
    kind, count = array.type, len(array)
    if pa.types.is_boolean(kind):
        return fixed(array.cast(pa.uint8()))
    wide = pa.types.is_decimal128(kind)
    item = np.dtype(("<i8", (2,))) if wide else storage(kind) if kind != pa.uint8() else np.dtype("<u1")
    assert item is not None
    data = array.buffers()[1]
    if data is None or not count:
        values = np.zeros(count, item)
    else:
        values = np.frombuffer(data, item, count=count, offset=array.offset * item.itemsize)
    if wide and kind.precision <= LONG_DIGITS:
        values = values[:, 0]
    mask = valid(array)
    if mask is None:
        return values
    return np.where(mask if values.ndim == 1 else mask[:, None], values, values.dtype.type(0))


def build_array(kind: pa.DataType, values: Vector, mask: Vector | None) -> pa.Array:
    """The array that `fixed` took apart."""
    count = len(values)
    if pa.types.is_boolean(kind):
        values = np.packbits(values.astype(bool), bitorder="little")
    elif pa.types.is_decimal128(kind) and values.ndim == 1:
        values = np.stack([values, values >> 63], axis=1)
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, count, [bitmap(mask), data])


def bitmap(mask: Vector | None) -> pa.Buffer | None:
    """The Arrow validity buffer of a mask."""
    return None if mask is None else pa.py_buffer(np.packbits(mask, bitorder="little"))


def offsets(array: pa.Array) -> Vector:
    """Where the cells of a (large) binary array begin and end in its data buffer: n + 1 numbers."""
    edges, item = array.buffers()[1], np.dtype("<i8" if pa.types.is_large_binary(array.type) else "<i4")
    if edges is None or not edges.size:
        return np.zeros(len(array) + 1, np.int64)
    found = np.frombuffer(edges, item, count=len(array) + 1, offset=array.offset * item.itemsize)
    return found.astype(np.int64, copy=False)


def content(array: pa.Array) -> pa.Buffer:
    """The data buffer that `offsets` speak of."""
    return array.buffers()[2] or pa.py_buffer(b"")


def cells(data: pa.Buffer | Vector, edges: Vector) -> pa.LargeBinaryArray:
    """The binary array whose cell i is `data[edges[i]:edges[i + 1]]`, without a copy."""
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(np.ascontiguousarray(data))
    edges = np.ascontiguousarray(edges, np.int64)
    return pa.LargeBinaryArray.from_buffers(LARGE_BINARY, len(edges) - 1, [None, pa.py_buffer(edges), buffer])


def pack_records(records: Vector) -> pa.LargeBinaryArray:
    """The binary array whose cell i is the bytes of record i."""
    width = records.dtype.itemsize
    return cells(records.view(np.uint8), np.arange(len(records) + 1, dtype=np.int64) * width)


def ragged(data: pa.Buffer, starts: Vector, ends: Vector) -> pa.LargeBinaryArray:
    """Cell i is `data[starts[i]:ends[i]]`; unsafe if the spans do not ascend or overlap.

    Cells and the gaps between them alternate in one zero-copy array, of which every other is taken:
    Arrow's copy loop does the work, at a tenth of the cost of an index per byte.
    """
    if not len(starts):
        return cells(data, np.zeros(1, np.int64))
    if np.array_equal(starts[1:], ends[:-1]):
        return cells(data, np.append(starts, ends[-1]))
    edges = np.empty(2 * len(starts), np.int64)
    edges[0::2] = starts
    edges[1::2] = ends
    return cells(data, edges).take(pa.array(np.arange(0, len(edges) - 1, 2)))


def gather_items(data: pa.Buffer, starts: Vector, ends: Vector, item: np.dtype[Any]) -> Vector:
    """The items that fill the spans, end to end, as one vector; same conditions as `ragged`."""
    found = ragged(data, starts, ends)
    edges = offsets(found)
    count = int(edges[-1] - edges[0]) // item.itemsize
    return np.frombuffer(content(found), item, count=count, offset=int(edges[0]))


def join_cells(parts: Sequence[pa.LargeBinaryArray | pa.Scalar]) -> pa.LargeBinaryArray:
    """The cells of the parts, put end to end row by row; a scalar stands in every row."""
    if len(parts) == 1:
        return parts[0]
    widths = _widths(parts)
    return pc.binary_join_element_wise(*parts, _NOTHING) if widths is None else _side_by_side(parts, widths)


def pairs(
    parts: Sequence[pa.LargeBinaryArray | pa.Scalar], values: pa.LargeBinaryArray
) -> Iterator[tuple[bytes, bytes]]:
    """Pairs of key (parts joined as in `join_cells`) and value; all are cut from one buffer if widths are fixed."""
    widths = _widths([*parts, values])
    if widths is None:
        return zip(join_cells(parts).to_pylist(), values.to_pylist(), strict=True)
    whole = _side_by_side([*parts, values], widths)
    return struct.iter_unpack(f"{sum(widths[:-1])}s{widths[-1]}s", content(whole))


def _widths(parts: Sequence[pa.LargeBinaryArray | pa.Scalar]) -> list[int] | None:
    found = [len(p.as_py()) if isinstance(p, pa.Scalar) else width(p) for p in parts]
    known = [size for size in found if size is not None]
    return known if len(known) == len(found) else None


def _side_by_side(parts: Sequence[pa.LargeBinaryArray | pa.Scalar], widths: Sequence[int]) -> pa.LargeBinaryArray:
    count = next(len(p) for p in parts if not isinstance(p, pa.Scalar))
    whole = np.empty((count, sum(widths)), np.uint8)
    at = 0
    for part, size in zip(parts, widths, strict=True):
        one = isinstance(part, pa.Scalar)
        whole[:, at : at + size] = np.frombuffer(part.as_py(), np.uint8) if one else records(part, size)
        at += size
    return cells(whole.reshape(-1), np.arange(count + 1) * at)


def drop_prefix(array: pa.LargeBinaryArray, count: int) -> pa.LargeBinaryArray:
    """The cells less their first bytes, so many."""
    return pc.binary_slice(array, count, _LONGEST)  # Arrow 26 fails on a slice without an end


def take_cells(array: pa.LargeBinaryArray, at: Vector) -> pa.LargeBinaryArray:
    """The cells at these places, NULL at -1; those of one length are taken as records, three times faster."""
    missing = at < 0
    places = pa.array(at, mask=missing if missing.any() else None)
    size = width(array)
    if not size or not len(at):
        return array.take(places)
    whole = pa.Array.from_buffers(pa.binary(size), len(array), [None, pa.py_buffer(records(array, size))])
    there, data = whole.take(places).buffers()
    edges = np.arange(len(at) + 1) * size
    return pa.LargeBinaryArray.from_buffers(LARGE_BINARY, len(at), [there, pa.py_buffer(edges), data])


def width(array: pa.LargeBinaryArray) -> int | None:
    """How long each of the cells is; None if they differ, or one is NULL."""
    edges = offsets(array)
    if array.null_count or len(edges) < 2:
        return None
    size = int(edges[1] - edges[0])
    return size if (edges[1:] - edges[:-1] == size).all() else None


def records(array: pa.LargeBinaryArray, size: int) -> Vector:
    """Cells of one length as the rows of a matrix, without a copy."""
    first = int(offsets(array)[0])
    return np.frombuffer(content(array), np.uint8, count=len(array) * size, offset=first).reshape(len(array), size)


def bytes_of(array: pa.Array | pa.ChunkedArray) -> pa.LargeBinaryArray:
    """A string or binary column as large binary, empty where it is NULL."""
    return pc.fill_null(flat(array, LARGE_BINARY), _NOTHING)


def blank_nulls(found: pa.LargeBinaryArray, array: pa.Array) -> pa.LargeBinaryArray:
    """The cells, without what lies under the NULLs of the array they were made of."""
    return pc.if_else(array.is_valid(), found, _NOTHING) if array.null_count else found


def to_unscaled(value: Decimal, scale: int) -> int:
    """The integer that a decimal of that scale stores; `ValueError` if digits would be lost."""
    shifted = _EXACT.scaleb(value, scale)
    number = int(shifted)
    if number != shifted:
        raise ValueError(f"{value} has more than {scale} digits after the point")
    return number


def to_decimal(number: int, scale: int) -> Decimal:
    """The decimal that `to_unscaled` took apart."""
    return _EXACT.scaleb(Decimal(number), -scale)
