"""Encodes the variable-width columns of a row (strings, structs, arrays, maps) as cells of bytes, and decodes them.

A nested type encodes its children with a row codec of their own. Any nesting depth uses the same code, and
each level is encoded as whole columns.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tailrace.codec import arrays
from tailrace.codec.arrays import LARGE_BINARY, Vector
from tailrace.errors import Corrupt

_COUNT = np.dtype("<u4")


class Rows(Protocol):
    """The part of `rows.RowCodec` that nested cells use for their children."""

    @property
    def width(self) -> int | None: ...
    def encode_columns(self, columns: list[Any], count: int) -> pa.LargeBinaryArray: ...
    def decode_spans(self, data: pa.Buffer, starts: Vector, ends: Vector) -> list[pa.Array]: ...
    def decode_one(self, row: bytes | memoryview) -> dict[str, Any]: ...


class Cell(Protocol):
    """The codec of one variable-width column."""

    intake: pa.DataType  # the Arrow type that `encode` expects

    def encode(self, array: pa.Array) -> pa.LargeBinaryArray:
        """The bytes of each cell; a NULL is an empty cell."""

    def decode(self, data: pa.Buffer, starts: Vector, ends: Vector, mask: Vector | None) -> pa.Array:
        """The array of the cells `data[starts[i]:ends[i]]`, NULL where the mask is False."""

    def decode_one(self, cell: bytes | memoryview) -> Any:
        """The Python value of one cell."""


class TextCell:
    """Strings and binaries: the bytes themselves."""

    def __init__(self, kind: pa.DataType) -> None:
        self.intake = LARGE_BINARY
        self._kind = kind
        self._is_text = arrays.is_text(kind)

    def encode(self, array: pa.Array) -> pa.LargeBinaryArray:
        return arrays.to_binary(array)

    def decode(self, data: pa.Buffer, starts: Vector, ends: Vector, mask: Vector | None) -> pa.Array:
        texts = arrays.cut_spans(data, starts, ends)
        if mask is not None:
            buffers = [arrays.validity_buffer(mask), *texts.buffers()[1:]]
            texts = pa.Array.from_buffers(LARGE_BINARY, len(texts), buffers, offset=texts.offset)
        if self._is_text:
            try:
                texts = texts.cast(pa.large_string())
            except pa.ArrowInvalid as error:
                raise _damaged("a string is not UTF-8") from error
        return texts.cast(self._kind)

    def decode_one(self, cell: bytes | memoryview) -> str | bytes:
        if not self._is_text:
            return bytes(cell)
        try:
            return str(cell, "utf-8")
        except UnicodeDecodeError as error:
            raise _damaged("a string is not UTF-8") from error


class StructCell:
    """Structs: the fields, encoded as a row."""

    def __init__(self, kind: pa.DataType, rows: Rows) -> None:
        self.intake = kind
        self._rows = rows

    def encode(self, array: pa.Array) -> pa.LargeBinaryArray:
        columns = [array.field(i) for i in range(self.intake.num_fields)]
        return arrays.blank_nulls(self._rows.encode_columns(columns, len(array)), array)

    def decode(self, data: pa.Buffer, starts: Vector, ends: Vector, mask: Vector | None) -> pa.Array:
        count = len(starts)
        if mask is None:
            children = self._rows.decode_spans(data, starts, ends)
        else:
            # A NULL struct has no row: decode the others, then insert NULLs between them.
            present = self._rows.decode_spans(data, starts[mask], ends[mask])
            indices = pa.array(np.cumsum(mask) - 1, mask=~mask)
            children = [child.take(indices) for child in present]
        return pa.Array.from_buffers(self.intake, count, [arrays.validity_buffer(mask)], children=children)

    def decode_one(self, cell: bytes | memoryview) -> dict[str, Any]:
        return self._rows.decode_one(cell)


class ListCell:
    """Arrays and maps: element count, element lengths, then the elements, each encoded as a row."""

    def __init__(self, kind: pa.DataType, rows: Rows) -> None:
        self.intake = kind
        self._rows = rows
        self._width = rows.width
        self._is_map = pa.types.is_map(kind)
        self._edge = np.dtype("<i8" if pa.types.is_large_list(kind) else "<i4")

    def encode(self, array: pa.Array) -> pa.LargeBinaryArray:
        edges = array.offsets.to_numpy().astype(np.int64) if len(array) else np.zeros(1, np.int64)
        first, count = int(edges[0]), int(edges[-1] - edges[0])
        children = [array.keys, array.items] if self._is_map else [array.values]
        elements = self._rows.encode_columns([child.slice(first, count) for child in children], count)
        edges = edges - first
        ends = arrays.offsets(elements)
        parts = [arrays.pack_records(np.diff(edges).astype(_COUNT))]
        if self._width is None:
            parts.append(arrays.cut_cells(np.diff(ends).astype(_COUNT), edges * _COUNT.itemsize))
        parts.append(arrays.cut_cells(arrays.content(elements), ends[edges]))
        return arrays.blank_nulls(arrays.join_cells(parts), array)

    def decode(self, data: pa.Buffer, starts: Vector, ends: Vector, mask: Vector | None) -> pa.Array:
        counts, begins = self._read_counts(data, starts, ends, mask)
        lengths, begins = self._read_lengths(data, counts, begins, ends)
        edges = np.append(0, np.cumsum(counts))
        after = np.append(0, np.cumsum(lengths))
        if not np.array_equal(begins + after[edges[1:]] - after[edges[:-1]], ends):
            raise _damaged("the elements of an array do not add up to its length")
        child_starts = np.repeat(begins - after[edges[:-1]], counts) + after[:-1]
        children = self._rows.decode_spans(data, child_starts, child_starts + lengths)
        if self._is_map:
            if children[0].null_count:
                raise _damaged("a map key is NULL")
            entries = pa.struct([self.intake.key_field, self.intake.item_field])
            children = [pa.Array.from_buffers(entries, len(lengths), [None], children=children)]
        buffers = [arrays.validity_buffer(mask), pa.py_buffer(edges.astype(self._edge))]
        return pa.Array.from_buffers(self.intake, len(starts), buffers, children=children)

    def _read_counts(self, data: pa.Buffer, starts: Vector, ends: Vector, mask: Vector | None) -> tuple[Vector, Vector]:
        """The element count of each cell, and where the bytes after it begin. A NULL cell is empty and counts 0."""
        head = np.full(len(starts), _COUNT.itemsize) if mask is None else mask * _COUNT.itemsize
        begins = starts + head
        if np.any(begins > ends):
            raise _damaged("an array is too short for its element count")
        counts = np.zeros(len(starts), np.int64)
        counts[slice(None) if mask is None else mask] = arrays.gather_items(data, starts, begins, _COUNT)
        return counts, begins

    def _read_lengths(self, data: pa.Buffer, counts: Vector, begins: Vector, ends: Vector) -> tuple[Vector, Vector]:
        """The length of every element of every cell, and where the elements of each cell begin."""
        after = begins + counts * (_COUNT.itemsize if self._width is None else self._width)
        if np.any(after > ends):
            raise _damaged("an array is too short for its elements")
        if self._width is not None:
            return np.full(int(counts.sum()), self._width, np.int64), begins
        return arrays.gather_items(data, begins, after, _COUNT).astype(np.int64), after

    def decode_one(self, cell: bytes | memoryview) -> list[Any]:
        size, at = len(cell), _COUNT.itemsize
        if size < at:
            raise _damaged("an array is too short for its element count")
        count = int.from_bytes(cell[:at], "little")
        if at + count * (self._width or _COUNT.itemsize) > size:
            raise _damaged("an array is too short for its elements")
        if self._width is None:
            lengths = np.frombuffer(cell, _COUNT, count=count, offset=at).tolist()
            at += count * _COUNT.itemsize
        else:
            lengths = [self._width] * count
        if at + sum(lengths) != size:
            raise _damaged("the elements of an array do not add up to its length")
        elements: list[Any] = []
        for length in lengths:
            values = tuple(self._rows.decode_one(cell[at : at + length]).values())
            elements.append(values if self._is_map else values[0])
            at += length
        if self._is_map and any(key is None for key, _ in elements):
            raise _damaged("a map key is NULL")
        return elements


def _damaged(reason: str) -> Corrupt:
    return Corrupt(where="a stored row", reason=reason)
