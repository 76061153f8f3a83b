"""Decodes keys that `codec/keys.py` has encoded, with ascending columns and without NULLs: primary keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tailrace.codec import arrays
from tailrace.codec.arrays import LONG_DIGITS, Vector

_ESCAPED = re.compile(b"\\x01(.?)", re.DOTALL)
_LOW = 2**64 - 1
_PLAIN = {b"\1": b"\0", b"\2": b"\1"}


def decode_keys(kinds: Sequence[pa.DataType], keys: pa.LargeBinaryArray) -> tuple[list[pa.Array], Vector]:
    """The columns of encoded keys, and which keys are none of these types. The columns are NULL there."""
    widths = [_width(kind) for kind in kinds]
    fixed = [width for width in widths if width is not None]
    parts = _cut_fixed(keys, fixed) if len(fixed) == len(widths) else _cut_each(keys, widths)
    columns, bad = [], np.zeros(len(keys), bool)
    for part, kind, width in zip(parts, kinds, widths, strict=True):
        column, wrong = _bytes_column(part, kind) if width is None else _fixed_column(part, kind, width)
        columns.append(column)
        bad |= wrong
    return columns, bad


def _width(kind: pa.DataType) -> int | None:
    """The length of an encoded value without its marker; None if lengths vary."""
    item = arrays.storage_type(kind)
    if item is None and not arrays.is_bytes(kind):
        raise ValueError(f"a primary key of type {kind}")
    return None if item is None else int(item.itemsize)


def _cut_fixed(keys: pa.LargeBinaryArray, widths: list[int]) -> list[pa.LargeBinaryArray]:
    """The values of each column, NULL in keys that are no such keys. All columns have fixed widths."""
    whole = sum(widths) + len(widths)
    edges = arrays.offsets(keys)
    good = np.diff(edges) == whole
    cells = keys if good.all() else keys.filter(pa.array(good))
    matrix = arrays.cell_matrix(cells, whole) if len(cells) else np.zeros((0, whole), np.uint8)
    at, ends = np.where(good, np.cumsum(good) - 1, -1), np.cumsum([width + 1 for width in widths])
    marked = np.ones(len(matrix), bool)
    for end, width in zip(ends, widths, strict=True):
        marked &= matrix[:, end - width - 1] == 1
    if not marked.all():
        at[at >= 0] = np.where(marked, np.arange(len(matrix)), -1)
    parts = []
    for end, width in zip(ends, widths, strict=True):
        column = np.ascontiguousarray(matrix[:, end - width : end])
        parts.append(arrays.take_cells(arrays.cut_cells(column.reshape(-1), np.arange(len(matrix) + 1) * width), at))
    return parts


def _cut_each(keys: pa.LargeBinaryArray, widths: Sequence[int | None]) -> list[pa.LargeBinaryArray]:
    cut = [_cut_one(key, widths) for key in keys.to_pylist()]
    return [pa.array([None if c is None else c[i] for c in cut], arrays.LARGE_BINARY) for i in range(len(widths))]


def _cut_one(key: bytes, widths: Sequence[int | None]) -> list[bytes] | None:
    """The value of each column; None if the bytes are no key."""
    values, at = [], 0
    for width in widths:
        if key[at : at + 1] != b"\1":
            return None
        end = key.find(b"\0", at + 1) if width is None else at + 1 + width
        if end < 0 or end > len(key):
            return None
        value = key[at + 1 : end] if width is not None else _unescaped(key[at + 1 : end])
        if value is None:
            return None
        values.append(value)
        at = end + (width is None)
    return values if at == len(key) else None


def _unescaped(value: bytes) -> bytes | None:
    if b"\1" not in value:
        return value
    if any(match[1] not in _PLAIN for match in _ESCAPED.finditer(value)):
        return None
    return _ESCAPED.sub(lambda match: _PLAIN[match[1]], value)


def _bytes_column(part: pa.LargeBinaryArray, kind: pa.DataType) -> tuple[pa.Array, Vector]:
    bad = part.is_null().to_numpy(zero_copy_only=False)
    if not arrays.is_text(kind):
        return part.cast(kind), bad
    texts, wrong = to_text(part)
    return texts.cast(kind), bad | wrong


def to_text(cells: pa.LargeBinaryArray) -> tuple[pa.Array, Vector]:
    """Cells as texts, and which are not valid UTF-8 (they are NULL)."""
    try:
        texts = cells.cast(pa.large_string())
        texts.validate(full=True)
        return texts, np.zeros(len(cells), bool)
    except pa.ArrowInvalid:
        values = [_text(cell) for cell in cells.to_pylist()]
        wrong = [value is None and cell.is_valid for value, cell in zip(values, cells, strict=True)]
        return pa.array(values, pa.large_string()), np.array(wrong, bool)


def _text(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None


def _fixed_column(part: pa.LargeBinaryArray, kind: pa.DataType, width: int) -> tuple[pa.Array, Vector]:
    bad = part.is_null().to_numpy(zero_copy_only=False)
    cells = part if not bad.any() else part.fill_null(bytes(width))
    matrix = arrays.cell_matrix(cells, width) if len(cells) else np.zeros((0, width), np.uint8)
    values: Any
    if pa.types.is_boolean(kind):
        values = matrix[:, 0]
        bad |= values > 1
    elif width == 16:
        words = np.ascontiguousarray(matrix).view(">u8").astype(np.uint64)
        values = np.stack([words[:, 1], words[:, 0] ^ np.uint64(1 << 63)], axis=1).view(np.int64)
        numbers = [int(high) << 64 | int(low) & _LOW for low, high in values.tolist()]
        bad |= np.array([abs(number) >= 10**kind.precision for number in numbers], bool)
    else:
        bits = np.ascontiguousarray(matrix).view(f">u{width}")[:, 0].astype(f"<u{width}")
        sign = bits.dtype.type(1 << (8 * width - 1))
        if pa.types.is_floating(kind):
            values = np.where(bits & sign, bits ^ sign, ~bits).view(f"<f{width}")
        else:
            values = (bits ^ sign).view(f"<i{width}")
        if pa.types.is_decimal128(kind) and kind.precision < LONG_DIGITS + 1:
            bad |= np.abs(values) >= 10**kind.precision
    column = arrays.build_array(kind, values, ~bad if bad.any() else None)
    return column, bad
