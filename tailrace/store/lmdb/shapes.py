"""Shapes: values of states are stored without the bytes that are equal in all of them.

    stored value = number of its shape (1 byte) | packed value
    shapes       state, number → a template (`templates.py`)

The numbers, weights and lengths in a value have a fixed width, and most of their bytes are always zero: a BIGINT below
65,536 has six. A state's newest shape is used for every write that it fits. If a write does not fit, a shape that fits
more values is added. Values of one write get one shape, so values of one length stay that way and are packed as a
matrix. Shape 0 has no bytes, so every value fits it. In stores of format 3, shapes have only bytes that are zero.

A damaged value is read as an empty one, which every codec of values refuses. So a reader gets an error that says what
is damaged, and an audit can name it and go on.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tailrace.codec import arrays
from tailrace.store.lmdb.templates import FEW, Template, decode_template

MOST = 255  # shapes of a state, whose number is one byte
_KEY = struct.Struct(">IB")
_LEADS = [bytes([number]) for number in range(MOST + 1)]
DAMAGED = _LEADS[0]  # an empty value, packed


class Shapes:
    """The shapes of one state, read in a transaction. `zeros`: they have only bytes that are zero."""

    def __init__(self, txn: Any, db: Any, state: int, *, zeros: bool) -> None:
        self._txn, self._db, self._state, self._zeros = txn, db, state, zeros
        self._known: dict[int, Template | None] = {0: Template()}
        self._newest: int | None = None

    def _shape(self, number: int) -> Template | None:
        """A shape; None if it does not exist or is damaged."""
        if number not in self._known:
            value = self._txn.get(_KEY.pack(self._state, number), db=self._db)
            self._known[number] = None if value is None else decode_template(bytes(value))
        return self._known[number]

    def _newest_number(self) -> int:
        """The number of the newest shape, 0 if there is none."""
        if self._newest is None:
            self._newest = 0
            with self._txn.cursor(self._db) as cursor:
                last = _KEY.pack(self._state, MOST)
                is_found = cursor.set_range(last)
                if not is_found or bytes(cursor.key()) != last:
                    is_found = cursor.prev() if is_found else cursor.last()
                if is_found and bytes(cursor.key())[:-1] == last[:-1]:
                    self._newest = bytes(cursor.key())[-1]
        return self._newest

    def pack(self, values: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        """Stored forms of values, none of them NULL. Adds a shape to the state if its newest one does not fit."""
        number = self._newest_number()
        shape = self._shape(number)
        if number and shape is not None and len(values) <= FEW:
            stored = shape.pack_each(values.to_pylist(), _LEADS[number])
            if None not in stored:
                return pa.array(stored, arrays.LARGE_BINARY)
        number = self._choose(values)
        fitting = self._shape(number)
        assert fitting is not None
        return fitting.pack(values, _LEADS[number])

    def _choose(self, values: pa.LargeBinaryArray) -> int:
        """The number of a shape that the values fit."""
        newest = self._newest_number()
        shape = self._shape(newest) if newest else None
        chosen = Template.of(values, zeros=self._zeros) if shape is None else shape.narrowed(values)
        if chosen is shape:
            return newest
        if newest == MOST or not chosen.fixed:
            return 0
        self._newest = newest + 1
        self._txn.put(_KEY.pack(self._state, self._newest), chosen.encoded, db=self._db)
        self._known[self._newest] = chosen
        return self._newest

    def _unpack_one(self, stored: bytes) -> bytes:
        shape = self._shape(stored[0]) if stored else None
        return b"" if shape is None or len(stored) <= shape.size else shape.unpack_one(stored, 1)

    def unpack(self, stored: Sequence[bytes]) -> list[bytes]:
        """The values of stored forms."""
        if len(stored) <= FEW:
            return [self._unpack_one(value) for value in stored]
        if not all(stored):
            stored = [value or DAMAGED for value in stored]
        cells = pa.array(stored, arrays.LARGE_BINARY)
        edges = arrays.offsets(cells)
        numbers = np.frombuffer(arrays.content(cells), np.uint8)[edges[:-1]]
        if (numbers == numbers[0]).all():
            return self._unpack_alike(cells, int(numbers[0]))
        values: list[bytes] = [b""] * len(stored)
        for number in np.unique(numbers).tolist():
            at = np.flatnonzero(numbers == number)
            for i, value in zip(at.tolist(), self._unpack_alike(arrays.take_cells(cells, at), number), strict=True):
                values[i] = value
        return values

    def _unpack_alike(self, cells: pa.LargeBinaryArray, number: int) -> list[bytes]:
        """The values of stored forms of one shape."""
        shape = self._shape(number)
        if shape is None or int(np.diff(arrays.offsets(cells)).min()) <= shape.size:
            return [self._unpack_one(value) for value in cells.to_pylist()]
        values: list[bytes] = shape.unpack(cells, 1).to_pylist()
        return values
