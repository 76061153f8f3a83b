"""Encodes rows as the bytes that the store keeps under a key.

    row   = null bits | fixed part | bytes of the variable-width columns
    fixed = one packed little-endian value per column; for a variable-width column, its length (uint32)

    string, binary   its bytes
    struct           the row of its fields
    array            element count (uint32) | length of each element (uint32) | elements, as rows of one column
    map              as an array of rows (key, value)

An array of a fixed-width element type stores no element lengths. The bytes under a NULL are zero or empty, so
identical rows have identical bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from tailrace.codec import arrays
from tailrace.codec.arrays import LARGE_BINARY, Vector
from tailrace.codec.cells import Cell, ListCell, StructCell, TextCell
from tailrace.codec.scalars import UNPACK, reader
from tailrace.errors import BadValue, Corrupt, DataError

__all__ = ["RowCodec"]

_LENGTH = np.dtype("<u4")
_MAX_LENGTH = 2**32 - 1


class RowCodec:
    """Encodes rows of one schema and decodes them to the same bits.

    A `canonical` codec first normalises zeros and NaNs (see `arrays.normalise`), in nested values too. Its bytes are
    equal exactly if the rows are equal in SQL, but decoding loses the sign of a zero.
    """

    def __init__(self, schema: pa.Schema, *, canonical: bool = False) -> None:
        self.schema = schema
        self._canonical = canonical
        self._cells = [self._make_cell(field.type) for field in schema]
        items = [arrays.storage_type(field.type) or _LENGTH for field in schema]
        nulls = (len(schema) + 7) // 8
        self._head = np.dtype([("nulls", "u1", (nulls,)), *((f"c{i}", item) for i, item in enumerate(items))])
        self._width = self._head.itemsize
        self._unpack = struct.Struct("<" + f"{nulls}s" + "".join(UNPACK[item] for item in items))
        self._readers: list[tuple[str, Callable[[Any], Any], bool]] = [
            (field.name, cell.decode_one if cell else reader(field.type), cell is not None)
            for field, cell in zip(schema, self._cells, strict=True)
        ]

    @property
    def width(self) -> int | None:
        """The length of every row; None if a column varies in width."""
        return None if any(self._cells) else self._width

    def _make_cell(self, kind: pa.DataType) -> Cell | None:
        if arrays.storage_type(kind) is not None:
            return None
        if arrays.is_bytes(kind):
            return TextCell(kind)
        if pa.types.is_struct(kind):
            return StructCell(kind, self._child_codec(list(kind)))
        if pa.types.is_map(kind):
            return ListCell(kind, self._child_codec([kind.key_field, kind.item_field]))
        return ListCell(kind, self._child_codec([kind.value_field]))

    def _child_codec(self, fields: list[pa.Field]) -> RowCodec:
        return RowCodec(pa.schema(fields), canonical=self._canonical)

    def encode(self, batch: pa.RecordBatch | pa.Table) -> pa.LargeBinaryArray:
        """The encoded rows of a batch, one cell per row."""
        if batch.schema.names != self.schema.names:
            batch = batch.select(self.schema.names)
        return self.encode_columns(batch.columns, batch.num_rows)

    def encode_columns(self, columns: list[Any], count: int) -> pa.LargeBinaryArray:
        """The encoded rows of columns given in schema order."""
        head = np.zeros(count, self._head)
        tails = []
        for i, (column, field, cell) in enumerate(zip(columns, self.schema, self._cells, strict=True)):
            array = arrays.as_array(column, field.type if cell is None else cell.intake)
            mask = arrays.valid_mask(array)
            if mask is not None:
                head["nulls"][:, i >> 3] |= np.where(mask, 0, 1 << (i & 7)).astype(np.uint8)
            if cell is None:
                head[f"c{i}"] = arrays.fixed_values(arrays.normalise(array) if self._canonical else array)
            else:
                tails.append(cell.encode(array))
                head[f"c{i}"] = _lengths(tails[-1], field)
        if not self._width:
            return arrays.cut_cells(pa.py_buffer(b""), np.zeros(count + 1, np.int64))
        return arrays.join_cells([arrays.pack_records(head), *tails])

    def decode(self, rows: pa.LargeBinaryArray | pa.BinaryArray | list[bytes]) -> pa.RecordBatch:
        """The batch of encoded rows; `Corrupt` if the bytes are not rows of this schema."""
        if isinstance(rows, list):
            rows = pa.array(rows, LARGE_BINARY)
        edges = arrays.offsets(rows)
        columns = self.decode_spans(arrays.content(rows), edges[:-1], edges[1:])
        if columns:
            return pa.RecordBatch.from_arrays(columns, schema=self.schema)
        empty = pa.Array.from_buffers(pa.struct([]), len(rows), [None], children=[])
        return pa.RecordBatch.from_struct_array(empty).replace_schema_metadata(self.schema.metadata)

    def decode_spans(self, data: pa.Buffer, starts: Vector, ends: Vector) -> list[pa.Array]:
        """The columns of the rows `data[starts[i]:ends[i]]`; unsafe if the spans do not ascend or overlap.

        Every length is checked against the end of its row before it is used to read.
        """
        at = starts + self._width
        if np.any(at > ends):
            raise _damaged("a row is shorter than its fixed part")
        head = arrays.gather_items(data, starts, at, self._head) if self._width else np.zeros(0, self._head)
        nulls = head["nulls"] if head["nulls"].any() else None
        columns = []
        for i, (field, cell) in enumerate(zip(self.schema, self._cells, strict=True)):
            values = head[f"c{i}"]
            present = None if nulls is None else (nulls[:, i >> 3] >> (i & 7) & 1) == 0
            if cell is None:
                columns.append(arrays.build_array(field.type, values, present))
                continue
            begin, at = at, at + values
            if np.any(at > ends) or (present is not None and np.any(values[~present])):
                raise _damaged(f"the length of column {field.name!r} does not fit the row")
            columns.append(cell.decode(data, begin, at, present))
        if not np.array_equal(at, ends):
            raise _damaged("a row has bytes after its last column")
        return columns

    def decode_one(self, row: bytes | memoryview) -> dict[str, Any]:
        """One row as Python values. Gives the same values as `decode(...).to_pylist()`, without Arrow."""
        at = self._width
        if len(row) < at:
            raise _damaged("a row is shorter than its fixed part")
        bits, *values = self._unpack.unpack_from(row)
        nulls = int.from_bytes(bits, "little")
        values_by_name: dict[str, Any] = {}
        for (name, read, varies), value in zip(self._readers, values, strict=True):
            null, nulls = nulls & 1, nulls >> 1
            if varies:
                begin, at = at, at + value
                if at > len(row) or (null and value):
                    raise _damaged(f"the length of column {name!r} does not fit the row")
                value = row[begin:at]
            try:
                values_by_name[name] = None if null else read(value)
            except (ValueError, OverflowError):  # SQL years range further than Python's
                message = f"column {name!r} holds a date or time outside the years 1 to 9999; read it by SQL"
                raise DataError(message=message, column=name) from None
        if at != len(row):
            raise _damaged("a row has bytes after its last column")
        return values_by_name


def _lengths(tail: pa.LargeBinaryArray, field: pa.Field) -> Vector:
    lengths = np.diff(arrays.offsets(tail))
    if len(lengths) and lengths.max() > _MAX_LENGTH:
        row = int(lengths.argmax())
        value = f"a value of {lengths[row]:,} bytes"
        raise BadValue(row=row + 1, column=field.name, value=value, type=f"the limit of {_MAX_LENGTH:,} bytes")
    return lengths


def _damaged(reason: str) -> Corrupt:
    return Corrupt(where="a stored row", reason=reason)
