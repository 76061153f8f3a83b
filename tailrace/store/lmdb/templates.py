"""Templates: byte strings of one kind are stored without the bytes that are equal in all of them.

    template   for each of the first positions, the byte that all cells have there, or None if they differ
    packed     the bytes of a cell at the positions where they differ, and all bytes after the template

A cell *fits* a template if it is at least as long and has its bytes. Keys and values have columns of fixed width, most
bytes of which never change: of a BIGINT key column below 65,536, seven of nine.

Packing keeps the order. Let two cells fit the template. Where they first differ, the template has no byte, so both keep
their bytes there, and the bytes kept before are equal. If one cell is a prefix of the other, so are the packed cells:
both are at least as long as the template. Hence packing is also injective. This needs no knowledge of columns; in keys
with columns of variable width, fewer positions are equal.

A bound, which need not fit, is compared with cells that do (`bound`). Up to the first position where the template has
another byte than the bound, the bytes kept decide. There, every cell that is still equal to the bound is on the same
side of it: the template's byte decides. A bound that ends inside the template is decided by the bytes before its end.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby

import numpy as np
import pyarrow as pa

from tailrace.codec import arrays
from tailrace.codec.arrays import Vector
from tailrace.codec.keys import after_prefix
from tailrace.codec.sorting import bits_in_any_and_all

WIDEST = 128  # a template covers at most that many bytes; later ones are mostly text
FEW = 48  # cells that are handled one by one, because NumPy's overhead would be larger
_WIDTH = struct.Struct("<I")


@dataclass(frozen=True)
class Template:
    """`fixed` has, for each of the first positions, the byte that all cells have there; None if they differ."""

    fixed: tuple[int | None, ...] = ()

    @classmethod
    def of(cls, cells: pa.LargeBinaryArray, *, zeros: bool = False) -> Template:
        """The template of the bytes that these cells have in common; with `zeros` only of bytes that are zero."""
        any_, all_ = _summarise(cells, WIDEST)
        is_fixed = any_ == 0 if zeros else any_ == all_
        return cls(tuple(byte if f else None for byte, f in zip(any_.tolist(), is_fixed.tolist(), strict=True)))

    def trimmed(self) -> Template:
        """Without positions at the end where cells differ, so that cells may be shorter."""
        last = max((at for at, byte in enumerate(self.fixed) if byte is not None), default=-1)
        return self.cut(last + 1)

    def narrowed(self, cells: pa.LargeBinaryArray) -> Template:
        """This template if the cells fit it, else one that they and all cells of this one fit."""
        any_, all_ = _summarise(cells, len(self.fixed))
        if (
            len(any_) == len(self.fixed)
            and not (self._is_fixed & ((any_ != self._bytes) | (all_ != self._bytes))).any()
        ):
            return self
        summary = zip(self.fixed, any_.tolist(), all_.tolist(), strict=False)
        return Template(tuple(byte if byte == one == other else None for byte, one, other in summary))

    @cached_property
    def _is_fixed(self) -> Vector:
        return np.array([byte is not None for byte in self.fixed], bool)

    @cached_property
    def _bytes(self) -> Vector:
        return np.array([byte or 0 for byte in self.fixed], np.uint8)

    @cached_property
    def _runs(self) -> tuple[tuple[slice, bytes | None], ...]:
        """The runs of positions that have bytes, with these, and of those that have none."""
        runs, at = [], 0
        for is_fixed, positions in groupby(self.fixed, lambda byte: byte is not None):
            content = list(positions)
            runs.append((slice(at, at + len(content)), bytes(b or 0 for b in content) if is_fixed else None))
            at += len(content)
        return tuple(runs)

    @cached_property
    def size(self) -> int:
        """The bytes of a packed cell that are inside the template."""
        return sum(byte is None for byte in self.fixed)

    def cut(self, length: int) -> Template:
        """The template of the first bytes of cells."""
        return self if length >= len(self.fixed) else Template(self.fixed[:length])

    # one cell

    def pack_one(self, cell: bytes, lead: bytes = b"") -> bytes | None:
        """`lead` and the packed cell, or the packed beginning of cells; None if no cell begins like that."""
        parts = [lead]
        for run, content in self._runs:
            part = cell[run]
            if content is None:
                parts.append(part)
            elif part != content and part != content[: len(part)]:
                return None
        parts.append(cell[len(self.fixed) :])
        return b"".join(parts)

    def unpack_one(self, packed: bytes, lead: int = 0) -> bytes:
        """The cell of a packed one, which has `lead` bytes in front."""
        parts, at = [], lead
        for run, content in self._runs:
            if content is None:
                size = run.stop - run.start
                content, at = packed[at : at + size], at + size
            parts.append(content)
        parts.append(packed[at:])
        return b"".join(parts)

    def bound(self, low: bytes) -> bytes | None:
        """The bound of packed cells: a cell is >= `low` exactly if its packed form is >= this. None: no cell is."""
        packed = self.pack_one(low)
        if packed is not None:
            return packed
        kept = bytearray()
        for byte, other in zip(self.fixed, low, strict=False):
            if byte is None:
                kept.append(other)
            elif byte != other:
                return bytes(kept) if byte > other else after_prefix(bytes(kept))
        raise AssertionError("a bound that differs from the template differs at a position")

    # many cells

    def pack(self, cells: pa.LargeBinaryArray, lead: bytes) -> pa.LargeBinaryArray:
        """`lead` and the packed form of each cell. All cells must fit."""
        width = arrays.cell_width(cells)
        heads = _heads(cells, len(self.fixed)) if width is None else arrays.cell_matrix(cells, width)
        rest = heads.shape[1] - len(self.fixed)
        packed = np.empty((len(heads), len(lead) + self.size + rest), np.uint8)
        packed[:, : len(lead)] = np.frombuffer(lead, np.uint8)
        at = len(lead)
        for run, content in (*self._runs, (slice(len(self.fixed), heads.shape[1]), None)):
            if content is None:
                packed[:, at : at + run.stop - run.start] = heads[:, run]
                at += run.stop - run.start
        parts = [_matrix_cells(packed)]
        if width is None:
            parts.append(arrays.drop_prefix(cells, len(self.fixed)))
        return arrays.join_cells(parts)

    def unpack(self, packed: pa.LargeBinaryArray, lead: int) -> pa.LargeBinaryArray:
        """The inverse of `pack`. No packed cell may be shorter than its lead and `size`."""
        width = arrays.cell_width(packed)
        size = lead + self.size
        stored = _heads(packed, size) if width is None else arrays.cell_matrix(packed, width)
        heads = np.empty((len(stored), len(self.fixed) + stored.shape[1] - size), np.uint8)
        at = lead
        for run, content in (*self._runs, (slice(len(self.fixed), heads.shape[1]), None)):
            if content is None:
                heads[:, run] = stored[:, at : at + run.stop - run.start]
                at += run.stop - run.start
            else:
                heads[:, run] = np.frombuffer(content, np.uint8)
        parts = [_matrix_cells(heads)]
        if width is None:
            parts.append(arrays.drop_prefix(packed, size))
        return arrays.join_cells(parts)

    def pack_each(self, cells: Sequence[bytes], lead: bytes) -> list[bytes | None]:
        """`lead` and the packed form of each cell; None for cells that do not fit."""
        width = len(self.fixed)
        if len(cells) > FEW:
            array = pa.array(cells, arrays.LARGE_BINARY)
            if self.narrowed(array) is self:
                packed: list[bytes | None] = self.pack(array, lead).to_pylist()
                return packed
        return [self.pack_one(cell, lead) if len(cell) >= width else None for cell in cells]

    def unpack_each(self, packed: Sequence[bytes], lead: int) -> list[bytes]:
        """The cells of packed ones; an empty one for those that are too short, because they are damaged."""
        size = lead + self.size
        if len(packed) > FEW:
            array = pa.array(packed, arrays.LARGE_BINARY)
            if int(np.diff(arrays.offsets(array)).min()) >= size:
                cells: list[bytes] = self.unpack(array, lead).to_pylist()
                return cells
        return [self.unpack_one(cell, lead) if len(cell) >= size else b"" for cell in packed]

    # documents

    @cached_property
    def encoded(self) -> bytes:
        """width (4 bytes), one bit per position: whether cells differ there, and the bytes if any is not zero.

        An empty template is encoded as no bytes.
        """
        if not self.fixed:
            return b""
        constant = self._bytes.tobytes()
        bits = np.packbits(~self._is_fixed).tobytes()
        return _WIDTH.pack(len(self.fixed)) + bits + (constant if any(constant) else b"")


@lru_cache(maxsize=65_536)
def decode_template(value: bytes) -> Template | None:
    """The template that a value encodes; None if it is damaged."""
    width = _WIDTH.unpack_from(value)[0] if len(value) >= _WIDTH.size else 0
    bits = (width + 7) // 8
    content = value[_WIDTH.size :]
    if not 0 < width <= WIDEST or len(content) not in (bits, bits + width):
        return None
    kept = np.unpackbits(np.frombuffer(content[:bits], np.uint8))[:width].tolist()
    constant = content[bits:] or bytes(width)
    return Template(tuple(None if is_kept else byte for byte, is_kept in zip(constant, kept, strict=True)))


def _summarise(cells: pa.LargeBinaryArray, width: int) -> tuple[Vector, Vector]:
    """For each of the first positions that all cells have, up to `width`: the bits of any cell, and of all cells."""
    same = arrays.cell_width(cells)
    if same is not None:
        any_, all_ = bits_in_any_and_all(arrays.cell_matrix(cells, same))
        return any_[:width], all_[:width]
    shortest = int(np.diff(arrays.offsets(cells)).min())
    return bits_in_any_and_all(_heads(cells, min(shortest, width)))


def _matrix_cells(matrix: Vector) -> pa.LargeBinaryArray:
    """The binary array whose cells are the rows of a byte matrix."""
    count, width = matrix.shape
    return arrays.cut_cells(matrix.reshape(-1), np.arange(count + 1) * width)


def _heads(cells: pa.LargeBinaryArray, width: int) -> Vector:
    """The first `width` bytes of each cell, as a matrix. No cell is shorter."""
    data = np.frombuffer(arrays.content(cells), np.uint8)
    windows = np.lib.stride_tricks.as_strided(data, (max(len(data) - width + 1, 1), width), (1, 1), writeable=False)
    return windows[arrays.offsets(cells)[:-1]]
