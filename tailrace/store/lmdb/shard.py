"""Shards in LMDB: entries of all states, and undo records to see them as they were.

    data   state, key              → value
    undo   state, epoch            → how many chunks
           state, epoch, chunk     → Arrow batch of (key, old value), sorted by key
    marks  state                   → the last epoch applied, the oldest epoch that can still be read
    fence  "term"                  → the oldest term of the epoch lock whose writes are accepted

`at(epoch)` lays the undo records of all later epochs over the data, the earliest of them first. That one
mechanism makes a retried task see what its first attempt saw, and a reader the last committed epoch.
"""

from __future__ import annotations

import struct
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from tailrace import faults
from tailrace.codec import arrays, batches
from tailrace.codec.keys import after_prefix, prefix_range
from tailrace.errors import Corrupt, Fenced, SnapshotGone
from tailrace.store.base import Shard, ShardSnapshot, Write
from tailrace.store.inspection import Mark
from tailrace.store.lmdb.environment import Environment

DATABASES = ("data", "undo", "marks", "fence")
CHUNK = 4096  # undo entries per chunk: large enough to write fast, small enough for a point read
KEPT = 8  # chunks of an undo record that a snapshot holds on to
# Each put gives up Python's interpreter lock: threads that put at the same time would hand it to and fro. Commits,
# which wait for the disk, run side by side.
_putting = threading.Lock()
_STATE = struct.Struct(">I")
_EPOCH = struct.Struct(">IQ")
_CHUNK = struct.Struct(">IQI")
_MARK = struct.Struct("<QQ")
_COUNT = struct.Struct("<I")
_NUMBER = struct.Struct("<Q")
_TERM = b"term"
_UNDO = pa.schema([pa.field("key", pa.large_binary()), pa.field("old", pa.large_binary())])


def decode_mark(value: bytes | None) -> Mark | None:
    """The mark that a value stands for; None if there is none, or none that can be read."""
    return Mark(*_MARK.unpack(value)) if value is not None and len(value) == _MARK.size else None


def encode_mark(mark: Mark) -> bytes:
    return _MARK.pack(*mark)


def state_prefix(state: int) -> bytes:
    """What all keys of a state begin with."""
    return _STATE.pack(state)


def undo_epochs(cursor: Any, state: int, first: int, last: int) -> Iterator[int]:
    """The epochs of a state's undo records from `first` to `last`."""
    while first <= last and cursor.set_range(_EPOCH.pack(state, first)):
        found, epoch = _EPOCH.unpack_from(cursor.key())
        if found != state or epoch > last:
            return
        yield epoch
        first = epoch + 1


def undo_keys(txn: Any, db: Any, state: int, epoch: int) -> list[bytes]:
    """The keys under which an undo record lies, whatever there is of it."""
    prefix = _EPOCH.pack(state, epoch)
    found = []
    with txn.cursor(db) as cursor:
        more = cursor.set_range(prefix)
        while more and cursor.key().startswith(prefix):
            found.append(bytes(cursor.key()))
            more = cursor.next()
    return found


class Undo:
    """What one epoch's keys of one state held before it."""

    def __init__(self, txn: Any, db: Any, state: int, epoch: int) -> None:
        self._txn, self._db, self._at = txn, db, (state, epoch)
        self._where = f"undo record of epoch {epoch} of state {state}"
        self._read: dict[int, pa.RecordBatch] = {}
        count = txn.get(_EPOCH.pack(state, epoch), db=db)
        if count is not None and len(count) != _COUNT.size:
            raise Corrupt(where=self._where, reason="its number of chunks is none")
        self.chunks = _COUNT.unpack(count)[0] if count else 0

    def _chunk(self, number: int) -> pa.RecordBatch:
        """One of the chunks; a few are kept, as a search comes back to them."""
        chunk = self._read.get(number)
        if chunk is None:
            value = self._txn.get(_CHUNK.pack(*self._at, number), db=self._db)
            if value is None:
                raise Corrupt(where=self._where, reason=f"chunk {number} of {self.chunks} is missing")
            chunk = batches.read(value, _UNDO, self._where)
            if not chunk.num_rows or chunk.column(0).null_count:
                raise Corrupt(where=self._where, reason=f"chunk {number} has no keys")
            if len(self._read) >= KEPT:
                self._read.clear()
            self._read[number] = chunk
        return chunk

    def require(self) -> None:
        """ValueError if a part of it is missing, or one more is there."""
        kept = undo_keys(self._txn, self._db, *self._at)
        wanted = [_EPOCH.pack(*self._at), *(_CHUNK.pack(*self._at, n) for n in range(self.chunks))]
        if kept != wanted:
            raise ValueError(f"{len(kept)} parts instead of {len(wanted)}")

    def find(self, key: bytes) -> tuple[bool, bytes | None]:
        """Whether the epoch changed this key, and what it held before."""
        number = bisect_right(range(self.chunks), key, key=lambda n: self._chunk(n).column(0)[0].as_py()) - 1
        if number < 0:
            return False, None
        chunk = self._chunk(number)
        keys = chunk.column(0)
        at = bisect_right(range(len(keys)), key, key=lambda i: keys[i].as_py()) - 1
        if at >= 0 and keys[at].as_py() == key:
            return True, chunk.column(1)[at].as_py()
        return False, None

    def items(self) -> Iterator[tuple[bytes, bytes | None]]:
        for number in range(self.chunks):
            chunk = self._chunk(number)
            yield from zip(chunk.column(0).to_pylist(), chunk.column(1).to_pylist(), strict=True)


class LmdbShardSnapshot(ShardSnapshot):
    """Reads inside one LMDB read transaction, with undo records laid over it."""

    FEW = 32  # keys: below this look each one up in the undo record, above read the record whole

    def __init__(self, env: Environment, txn: Any, epoch: int) -> None:
        self._env, self._txn, self._epoch = env, txn, epoch
        self._data, self._undo, self._marks, _ = (env.databases[n] for n in DATABASES)
        self._undos: dict[int, list[Undo]] = {}
        self._overlays: dict[int, tuple[dict[bytes, bytes | None], list[bytes]]] = {}

    def _later_undos(self, state: int) -> list[Undo]:
        """Undo records of epochs after ours, the earliest first."""
        if state not in self._undos:
            mark = _mark(self._txn, self._marks, state) or Mark(0, 0)
            if self._epoch < mark.oldest:
                raise SnapshotGone(epoch=self._epoch, name=f"state {state}", oldest=mark.oldest)
            undos = (Undo(self._txn, self._undo, state, epoch) for epoch in self._later(state, mark.applied))
            self._undos[state] = [u for u in undos if u.chunks]
        return self._undos[state]

    def _later(self, state: int, applied: int) -> Iterator[int]:
        """Epochs after ours that have an undo record; found by seeking, as a damaged mark may name any number."""
        if applied > self._epoch:
            with self._txn.cursor(self._undo) as cursor:
                yield from undo_epochs(cursor, state, self._epoch + 1, applied)

    def applied(self, state: int) -> int | None:
        mark = _mark(self._txn, self._marks, state)
        return mark.applied if mark else None

    def moved_to(self, epoch: int) -> LmdbShardSnapshot:
        return LmdbShardSnapshot(self._env, self._txn, epoch)

    def changed(self, state: int, epoch: int) -> list[bytes]:
        self._later_undos(state)  # which says if what it takes is gone
        return [key for key, _ in Undo(self._txn, self._undo, state, epoch).items()]

    def _overlay(self, state: int) -> tuple[dict[bytes, bytes | None], list[bytes]]:
        """What later epochs changed, as it was before them, and those keys in order."""
        if state not in self._overlays:
            overlay: dict[bytes, bytes | None] = {}
            for undo in reversed(self._later_undos(state)):
                overlay.update(undo.items())
            self._overlays[state] = overlay, sorted(overlay)
        return self._overlays[state]

    def get_many(self, state: int, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        prefix = _STATE.pack(state)
        undos = self._later_undos(state)
        if len(keys) < self.FEW:
            return {k: v for k in keys if (v := self._get(state, prefix, k)) is not None}
        got = self._txn.cursor(self._data).getmulti([prefix + k for k in keys])
        found = {k[4:]: v for k, v in got}
        if undos:
            overlay, _ = self._overlay(state)
            for key in overlay.keys() & set(keys):
                old = overlay[key]
                if old is None:
                    found.pop(key, None)
                else:
                    found[key] = old
        return found

    def values(self, state: int, keys: pa.LargeBinaryArray) -> list[bytes | None]:
        if self._later_undos(state):
            listed = keys.to_pylist()
            found = self.get_many(state, listed)
        else:
            listed = _prefixed(state, keys).to_pylist()
            found = dict(self._txn.cursor(self._data).getmulti(listed))
        return [found.get(key) for key in listed]

    def _get(self, state: int, prefix: bytes, key: bytes) -> bytes | None:
        for undo in self._later_undos(state):
            known, old = undo.find(key)
            if known:
                return old
        value: bytes | None = self._txn.get(prefix + key, db=self._data)
        return value

    def scan(
        self, state: int, low: bytes = b"", high: bytes | None = None, size: int = 20_000
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        if not self._later_undos(state):
            yield from self._scan_data(state, low, high, size)
            return
        overlay, ordered = self._overlay(state)
        pending = ordered[bisect_left(ordered, low) : len(ordered) if high is None else bisect_left(ordered, high)]
        for run in self._scan_data(state, low, high, size):
            last = run[-1][0]
            until = bisect_right(pending, last)
            yield _merged(run, pending[:until], overlay)
            pending = pending[until:]
        yield _merged([], pending, overlay)

    def _scan_data(self, state: int, low: bytes, high: bytes | None, size: int) -> Iterator[list[tuple[bytes, bytes]]]:
        prefix = _STATE.pack(state)
        stop = prefix + high if high is not None else after_prefix(prefix)
        cursor = self._txn.cursor(self._data)
        if not cursor.set_range(prefix + low):
            return
        run: list[tuple[bytes, bytes]] = []
        for key, value in cursor.iternext():
            if stop is not None and key >= stop:
                break
            run.append((key[4:], value))
            if len(run) == size:
                yield run
                run = []
        if run:
            yield run

    def under(self, state: int, prefixes: Sequence[bytes]) -> Iterator[list[bytes]]:
        if self._later_undos(state):
            for prefix in prefixes:
                yield [value for run in self.scan(state, *prefix_range(prefix)) for _, value in run]
            return
        with self._txn.cursor(self._data) as cursor:
            for prefix in prefixes:
                low, found = _STATE.pack(state) + prefix, []
                if cursor.set_range(low):
                    for key, value in cursor.iternext():
                        if not key.startswith(low):
                            break
                        found.append(value)
                yield found

    def scan_back(self, state: int, low: bytes, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        if self._later_undos(state):
            yield from reversed([entry for run in self.scan(state, low, high) for entry in run])
            return
        prefix = _STATE.pack(state)
        cursor = self._txn.cursor(self._data)
        stop = prefix + high if high is not None else after_prefix(prefix)
        beyond = stop is not None and cursor.set_range(stop)
        positioned = cursor.prev() if beyond else cursor.last()
        if not positioned:
            return
        for key, value in cursor.iterprev():
            if key < prefix + low:
                return
            yield key[4:], value


def _mark(txn: Any, db: Any, state: int) -> Mark | None:
    """How far a state is; None if it never was applied."""
    value = txn.get(_STATE.pack(state), db=db)
    if value is None:
        return None
    mark = decode_mark(value)
    if mark is None:
        raise Corrupt(where=f"the mark of state {state}", reason=f"{len(value)} bytes cannot be one")
    if not mark.oldest <= mark.applied < 1 << 63:
        raise Corrupt(where=f"the mark of state {state}", reason=f"it says {mark.oldest} to {mark.applied}")
    return mark


def _merged(
    run: list[tuple[bytes, bytes]], keys: list[bytes], overlay: dict[bytes, bytes | None]
) -> list[tuple[bytes, bytes]]:
    if not keys:
        return run
    entries: dict[bytes, bytes | None] = dict(run)
    entries.update((k, overlay[k]) for k in keys)
    return sorted((k, v) for k, v in entries.items() if v is not None)


def _prefixed(state: int, keys: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """The keys of a state as they lie in the shard."""
    return arrays.join_cells([pa.scalar(_STATE.pack(state), pa.large_binary()), keys])


class LmdbShard(Shard):
    def __init__(self, env: Environment) -> None:
        self._env = env
        self._data, self._undo, self._marks, self._fence = (env.databases[n] for n in DATABASES)

    @property
    def environment(self) -> Environment:
        """Where it lies, for those who check and mend it."""
        return self._env

    @contextmanager
    def at(self, epoch: int) -> Iterator[LmdbShardSnapshot]:
        with self._env.read() as txn:
            yield LmdbShardSnapshot(self._env, txn, epoch)

    def fence(self, term: int) -> None:
        with self._env.write() as txn:
            if self._fenced(txn) < term:
                txn.put(_TERM, _NUMBER.pack(term), db=self._fence)

    def _fenced(self, txn: Any) -> int:
        value = txn.get(_TERM, db=self._fence)
        if value is not None and len(value) != _NUMBER.size:
            raise Corrupt(where="the fence of a shard", reason=f"{len(value)} bytes instead of {_NUMBER.size}")
        return 0 if value is None else int(_NUMBER.unpack(value)[0])

    def apply(self, epoch: int, writes: Sequence[Write], keep: int, term: int = 0) -> bool:
        wrote = False
        with self._env.write() as txn:
            if (newest := self._fenced(txn)) > term:
                raise Fenced(term=term, newest=newest)
            self._env.handle.reader_check()  # a killed reader would keep freed pages from being used again
            for write in writes:
                wrote |= self._apply_one(txn, epoch, write, keep)
            faults.point("shard.commit")
        faults.point("shard.committed")
        return wrote

    def _apply_one(self, txn: Any, epoch: int, write: Write, keep: int) -> bool:
        found = _mark(txn, self._marks, write.state)
        if found is not None and found.applied >= epoch:
            return False
        mark, oldest = found or Mark(0, 0), epoch
        if write.olds is not None:
            oldest = self._drop_undos(txn, write.state, mark, keep)
            self._write_undo(txn, epoch, write, write.olds)
        self._write_data(txn, write)
        txn.put(_STATE.pack(write.state), _MARK.pack(epoch, oldest), db=self._marks)
        return True

    def _drop_undos(self, txn: Any, state: int, mark: Mark, keep: int) -> int:
        """Delete undo records of epochs up to `keep`; the oldest readable epoch from now on."""
        with txn.cursor(self._undo) as cursor:
            alive = cursor.set_range(_EPOCH.pack(state, 0))
            while alive and bytes(cursor.key()) < _EPOCH.pack(state, keep + 1):
                alive = cursor.delete() and bool(cursor.key())
        return max(mark.oldest, min(keep, mark.applied))

    def _write_undo(self, txn: Any, epoch: int, write: Write, olds: pa.LargeBinaryArray) -> None:
        chunks = 0
        for start in range(0, len(write.keys), CHUNK):
            part = [write.keys.slice(start, CHUNK), olds.slice(start, CHUNK)]
            batch = pa.RecordBatch.from_arrays(part, schema=_UNDO)
            txn.put(_CHUNK.pack(write.state, epoch, chunks), batch.serialize().to_pybytes(), db=self._undo)
            chunks += 1
        txn.put(_EPOCH.pack(write.state, epoch), _COUNT.pack(chunks), db=self._undo)

    def _write_data(self, txn: Any, write: Write) -> None:
        keys, values = write.keys, write.values
        if values.null_count:
            keys, values = keys.filter(values.is_valid()), values.drop_null()
        if len(keys):
            prefix = _STATE.pack(write.state)
            first = prefix + keys[0].as_py()
            entries = arrays.pairs([pa.scalar(prefix, pa.large_binary()), keys], values)
            with _putting, txn.cursor(self._data) as cursor:
                beyond = not cursor.last() or cursor.key() < first  # then pages are filled one by one
                cursor.putmulti(entries, append=beyond)
        if write.values.null_count:
            for key in _prefixed(write.state, write.keys.filter(write.values.is_null())).to_pylist():
                txn.delete(key, db=self._data)

    def drop(self, state: int) -> None:
        for db in (self._data, self._undo, self._marks):
            delete_range(self._env, db, *prefix_range(_STATE.pack(state)))


def delete_range(env: Environment, db: Any, low: bytes, high: bytes | None, size: int = 50_000) -> None:
    """Delete keys in [low, high), a bounded number in each transaction so that other writers get their turn."""
    more = True
    while more:
        with env.write() as txn, txn.cursor(db) as cursor:
            deleted = 0
            more = cursor.set_range(low)
            while more and (high is None or bytes(cursor.key()) < high) and deleted < size:
                more = cursor.delete() and bool(cursor.key())
                deleted += 1
            more = more and deleted == size
