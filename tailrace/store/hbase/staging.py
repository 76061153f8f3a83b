"""Staged writes: what an attempt wants to write in an epoch, stored before it is decided whether it counts.

They stay until the epoch is trimmed, as the record of the keys that it changed. The writes of an attempt are one Arrow
table, divided into rows of about 1 MiB.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.errors import Corrupt
from tailrace.store.base import Write
from tailrace.store.hbase.client import Deletion, HbaseTable
from tailrace.store.hbase.shard_marks import ATTEMPT, Decision

CHUNK = 1 << 20
_PREFIX = struct.Struct(">HI")  # shard, and a number that no state has
_STAGE = 0xFFFFFFFE
_PLACE = struct.Struct(f">Q{ATTEMPT}sI")  # epoch, attempt, number of the chunk
_COLUMN = b"c"
_TIMESTAMP = 1
_SCHEMA = pa.schema(
    [("state", pa.uint32()), ("key", pa.large_binary()), ("value", pa.large_binary()), ("is_new", pa.bool_())]
)
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")


class Staged(NamedTuple):
    """One staged entry. `is_new`: the key had no value before the epoch. The value None deletes the key."""

    state: int
    key: bytes
    value: bytes | None
    is_new: bool


class Staging:
    """The staged writes of one shard."""

    def __init__(self, table: HbaseTable, shard: int) -> None:
        self._table, self._prefix = table, _PREFIX.pack(shard, _STAGE)

    def write(self, epoch: int, attempt: bytes, writes: Sequence[Write]) -> int:
        """Stages writes. Returns the number of chunks."""
        content = _encode(writes)
        chunks = [content[place : place + CHUNK] for place in range(0, len(content), CHUNK)]
        rows = ((self._row(epoch, attempt, number), {_COLUMN: chunk}) for number, chunk in enumerate(chunks))
        self._table.put_many(rows, timestamp=_TIMESTAMP)
        return len(chunks)

    def read(self, decision: Decision, states: Collection[int] | None = None) -> Iterator[Staged]:
        """The entries that were decided, of some states (None: of all that the decision is about)."""
        wanted = decision.generations.keys() if states is None else decision.generations.keys() & set(states)
        rows = [self._row(decision.epoch, decision.attempt, number) for number in range(decision.chunks)]
        chunks = [cells[_COLUMN][0] for cells in self._table.get_many(rows) if cells]
        if len(chunks) != decision.chunks:
            reason = f"{len(chunks)} of {decision.chunks} chunks are there"
            raise Corrupt(where=f"the record of epoch {decision.epoch} in a shard", reason=reason)
        table = _decode(b"".join(chunks))
        table = table.filter(pc.is_in(table["state"], pa.array(sorted(wanted), pa.uint32())))
        columns = (table[name].to_pylist() for name in _SCHEMA.names)
        yield from map(Staged._make, zip(*columns, strict=True))

    def drop(self, epoch: int, attempt: bytes, chunks: int) -> None:
        """Deletes what an attempt has staged."""
        self.delete(self._row(epoch, attempt, number) for number in range(chunks))

    def drop_upto(self, epoch: int) -> None:
        """Deletes what all attempts have staged, up to an epoch; also attempts that were never decided."""
        self.delete(row for row, _ in self.staged_upto(epoch))

    def staged_upto(self, epoch: int) -> Iterator[tuple[bytes, tuple[int, bytes]]]:
        """The rows of chunks that attempts have staged, up to an epoch, each with its epoch and attempt."""
        low, high = self._prefix, self._row(epoch + 1, bytes(ATTEMPT), 0)
        for page in self._table.scan(low, high, keys_only=True, qualifiers=[_COLUMN]):
            for row, _ in page:
                number, attempt, _ = _PLACE.unpack(row[len(self._prefix) :])
                yield row, (number, attempt)

    def delete(self, rows: Iterable[bytes]) -> None:
        """Deletes chunks by their rows."""
        self._table.delete_many([Deletion(row, _TIMESTAMP) for row in rows])

    def _row(self, epoch: int, attempt: bytes, number: int) -> bytes:
        return self._prefix + _PLACE.pack(epoch, attempt, number)


def _encode(writes: Sequence[Write]) -> bytes:
    """The entries of all writes; nothing if there are none."""
    batches = [
        pa.record_batch(
            [
                pa.array([write.state] * len(write.keys), pa.uint32()),
                write.keys,
                write.values,
                write.olds.is_null() if write.olds is not None else pa.array([True] * len(write.keys), pa.bool_()),
            ],
            schema=_SCHEMA,
        )
        for write in writes
        if len(write.keys)
    ]
    if not batches:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA, options=_COMPRESSED) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def _decode(content: bytes) -> pa.Table:
    if not content:
        return _SCHEMA.empty_table()
    try:
        return pa.ipc.open_stream(content).read_all().cast(_SCHEMA)
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(where="the record of an epoch in a shard", reason=str(error)) from None
