"""Undo records: the values that an epoch replaced in one state of one shard.

    undo   state, epoch                  → number of chunks
           state, epoch, chunk           → first piece of a chunk: (key, old value), sorted by key
           state, epoch, chunk, piece    → its other pieces

A chunk is an Arrow batch, compressed: size | LZ4 block. Each piece but the last fills one page. LMDB stores a larger
value in adjacent pages, and the pages that epochs free are rarely adjacent, so every record would make the file longer.
In stores of format 2 (`packed` is False) a chunk is an Arrow batch in one piece.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tailrace.codec import batches
from tailrace.errors import Corrupt

CHUNK = 4096  # entries per chunk: large enough for fast writes, small enough for point reads
CACHED_CHUNKS = 8  # per undo record and snapshot
PIECE = 4096 - 16  # bytes that fit one overflow page, beside its header
MOST_EXPANSION = 256  # LZ4 makes nothing smaller than that; protects against a damaged size
_EPOCH = struct.Struct(">IQ")  # key of an undo record: state, epoch
_CHUNK = struct.Struct(">IQI")  # key of a chunk: state, epoch, chunk
_PIECE = struct.Struct(">IQII")  # key of another piece of a chunk: state, epoch, chunk, piece (from 1)
_COUNT = struct.Struct("<I")
_LZ4 = pa.Codec("lz4_raw")
_SCHEMA = pa.schema([pa.field("key", pa.large_binary()), pa.field("old", pa.large_binary())])
LAST_EPOCH = 2**64 - 1  # no epoch has a greater number


def undo_epochs(cursor: Any, state: int, first: int, last: int) -> Iterator[int]:
    """The epochs of a state's undo records from `first` to `last`."""
    while first <= last and cursor.set_range(_EPOCH.pack(state, first)):
        key_state, epoch = _EPOCH.unpack_from(cursor.key())
        if key_state != state or epoch > last:
            return
        yield epoch
        first = epoch + 1


def undo_keys(txn: Any, db: Any, state: int, epoch: int) -> list[bytes]:
    """All stored keys of an undo record, even if it is incomplete."""
    prefix = _EPOCH.pack(state, epoch)
    keys = []
    with txn.cursor(db) as cursor:
        more = cursor.set_range(prefix)
        while more and cursor.key().startswith(prefix):
            keys.append(bytes(cursor.key()))
            more = cursor.next()
    return keys


class Undo:
    """An undo record: the keys of a state that an epoch changed, with their values before it."""

    def __init__(self, txn: Any, db: Any, state: int, epoch: int, *, packed: bool) -> None:
        self._txn, self._db, self._id, self._packed = txn, db, (state, epoch), packed
        self._where = f"undo record of epoch {epoch} of state {state}"
        self._cache: dict[int, pa.RecordBatch] = {}
        count = txn.get(_EPOCH.pack(state, epoch), db=db)
        if count is not None and len(count) != _COUNT.size:
            raise Corrupt(where=self._where, reason="invalid number of chunks")
        self.chunks = _COUNT.unpack(count)[0] if count else 0

    def _chunk(self, number: int) -> pa.RecordBatch:
        """Reads a chunk. Some are cached, because binary searches read the same chunks again."""
        chunk = self._cache.get(number)
        if chunk is None:
            chunk = batches.read(self._read_chunk(number), _SCHEMA, self._where)
            if not chunk.num_rows or chunk.column(0).null_count:
                raise Corrupt(where=self._where, reason=f"chunk {number} has no keys or NULL keys")
            if len(self._cache) >= CACHED_CHUNKS:
                self._cache.clear()
            self._cache[number] = chunk
        return chunk

    def _read_chunk(self, number: int) -> bytes:
        """The Arrow batch of a chunk."""
        pieces = self._read_pieces(number)
        if not pieces:
            raise Corrupt(where=self._where, reason=f"chunk {number} of {self.chunks} is missing")
        try:
            return _join(pieces) if self._packed else pieces[0]
        except (ValueError, OSError) as error:
            raise Corrupt(where=self._where, reason=f"chunk {number}: {error}") from None

    def _read_pieces(self, number: int) -> list[bytes]:
        first = self._txn.get(_CHUNK.pack(*self._id, number), db=self._db)
        pieces = [] if first is None else [first]
        if pieces and len(first) == PIECE and self._packed:
            with self._txn.cursor(self._db) as cursor:
                more = cursor.set_range(_PIECE.pack(*self._id, number, 1))
                while more and cursor.key() == _PIECE.pack(*self._id, number, len(pieces)):
                    pieces.append(cursor.value())
                    more = cursor.next()
        return pieces

    def check_complete(self) -> None:
        """Raises ValueError if a chunk or a piece is missing or superfluous."""
        expected = [_EPOCH.pack(*self._id)]
        for number in range(self.chunks):
            others = range(1, len(self._read_pieces(number)))
            expected += [_CHUNK.pack(*self._id, number), *(_PIECE.pack(*self._id, number, p) for p in others)]
        keys = undo_keys(self._txn, self._db, *self._id)
        if keys != expected:
            raise ValueError(f"{len(keys)} keys instead of {len(expected)}")

    def find(self, key: bytes) -> tuple[bool, bytes | None]:
        """Whether the epoch changed this key, and its value before (None: absent)."""
        number = bisect_right(range(self.chunks), key, key=lambda n: self._chunk(n).column(0)[0].as_py()) - 1
        if number < 0:
            return False, None
        chunk = self._chunk(number)
        keys = chunk.column(0)
        row = bisect_right(range(len(keys)), key, key=lambda i: keys[i].as_py()) - 1
        if row >= 0 and keys[row].as_py() == key:
            return True, chunk.column(1)[row].as_py()
        return False, None

    def items(self) -> Iterator[tuple[bytes, bytes | None]]:
        for number in range(self.chunks):
            chunk = self._chunk(number)
            yield from zip(chunk.column(0).to_pylist(), chunk.column(1).to_pylist(), strict=True)


def write_undo(
    txn: Any, db: Any, state: int, epoch: int, keys: pa.LargeBinaryArray, olds: pa.LargeBinaryArray, *, packed: bool
) -> None:
    """Writes an undo record. The keys are sorted; an old value is NULL if its key was absent."""
    chunks = 0
    for start in range(0, len(keys), CHUNK):
        part = [keys.slice(start, CHUNK), olds.slice(start, CHUNK)]
        batch = pa.RecordBatch.from_arrays(part, schema=_SCHEMA).serialize()
        first, *others = _divide(batch) if packed else [batch.to_pybytes()]
        txn.put(_CHUNK.pack(state, epoch, chunks), first, db=db)
        for piece, content in enumerate(others, 1):
            txn.put(_PIECE.pack(state, epoch, chunks, piece), content, db=db)
        chunks += 1
    txn.put(_EPOCH.pack(state, epoch), _COUNT.pack(chunks), db=db)


def _divide(batch: pa.Buffer) -> list[bytes]:
    """The compressed batch, in pieces."""
    content = _COUNT.pack(batch.size) + _LZ4.compress(batch, asbytes=True)
    return [content[at : at + PIECE] for at in range(0, len(content), PIECE)]


def _join(pieces: Sequence[bytes]) -> bytes:
    """The inverse of `_divide`. Raises ValueError or OSError if the content is damaged."""
    content = b"".join(pieces)
    if len(content) < _COUNT.size:
        raise ValueError("a chunk is too short")
    (size,) = _COUNT.unpack_from(content)
    if size > MOST_EXPANSION * len(content):
        raise ValueError("a chunk has an impossible size")
    batch: bytes = _LZ4.decompress(content[_COUNT.size :], size, asbytes=True)
    return batch


def drop_undos(txn: Any, db: Any, state: int, last: int) -> None:
    """Deletes the undo records of epochs up to `last`."""
    with txn.cursor(db) as cursor:
        more = cursor.set_range(_EPOCH.pack(state, 0))
        while more and bytes(cursor.key()) < _EPOCH.pack(state, last + 1):
            more = cursor.delete() and bool(cursor.key())


def remove_undo(txn: Any, db: Any, state: int, epoch: int) -> None:
    """Deletes an undo record, even if it is incomplete."""
    for key in undo_keys(txn, db, state, epoch):
        txn.delete(key, db=db)
