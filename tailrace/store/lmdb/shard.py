"""Shards in LMDB: the entries of all states, and undo records to read them at earlier epochs.

    data   state, key              → value
    undo   state, epoch            → number of chunks
           state, epoch, chunk     → Arrow batch of (key, old value), sorted by key
    marks  state                   → last epoch applied, oldest epoch still readable
    fence  "term"                  → oldest term of the epoch lock whose writes are accepted

`at(epoch)` overlays the undo records of all later epochs on the data; for a key in several of them the earliest wins.
So a retried task reads what its first attempt read, and readers see the last committed epoch.
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
from tailrace.store.inspection import UNREADABLE, Mark
from tailrace.store.lmdb.environment import Environment

DATABASES = ("data", "undo", "marks", "fence")
LAST_EPOCH = 2**64 - 1  # no epoch has a greater number
CHUNK = 4096  # undo entries per chunk: large enough for fast writes, small enough for point reads
CACHED_CHUNKS = 8  # per undo record and snapshot
# Serialises puts of all threads: every put releases Python's interpreter lock, so concurrent puts would slow each other
# down by switching. Commits, which wait for the disk, still run in parallel.
_putting = threading.Lock()
_STATE = struct.Struct(">I")  # prefix of all keys of a state
_EPOCH = struct.Struct(">IQ")  # key of an undo record: state, epoch
_CHUNK = struct.Struct(">IQI")  # key of a chunk of an undo record: state, epoch, chunk
_MARK = struct.Struct("<QQ")
_COUNT = struct.Struct("<I")
_NUMBER = struct.Struct("<Q")
_TERM = b"term"
_UNDO = pa.schema([pa.field("key", pa.large_binary()), pa.field("old", pa.large_binary())])


def decode_mark(value: bytes | None) -> Mark | None:
    """The mark that a value encodes; None if it is missing or unreadable."""
    return Mark(*_MARK.unpack(value)) if value is not None and len(value) == _MARK.size else None


def encode_mark(mark: Mark) -> bytes:
    return _MARK.pack(*mark)


def state_prefix(state: int) -> bytes:
    """The prefix of all keys of a state."""
    return _STATE.pack(state)


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

    def __init__(self, txn: Any, db: Any, state: int, epoch: int) -> None:
        self._txn, self._db, self._id = txn, db, (state, epoch)
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
            value = self._txn.get(_CHUNK.pack(*self._id, number), db=self._db)
            if value is None:
                raise Corrupt(where=self._where, reason=f"chunk {number} of {self.chunks} is missing")
            chunk = batches.read(value, _UNDO, self._where)
            if not chunk.num_rows or chunk.column(0).null_count:
                raise Corrupt(where=self._where, reason=f"chunk {number} has no keys or NULL keys")
            if len(self._cache) >= CACHED_CHUNKS:
                self._cache.clear()
            self._cache[number] = chunk
        return chunk

    def check_complete(self) -> None:
        """Raises ValueError if a chunk is missing or superfluous."""
        keys = undo_keys(self._txn, self._db, *self._id)
        expected = [_EPOCH.pack(*self._id), *(_CHUNK.pack(*self._id, n) for n in range(self.chunks))]
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


class LmdbShardSnapshot(ShardSnapshot):
    """Reads in one LMDB read transaction, with the undo records of later epochs overlaid."""

    POINT_READS = 32  # for fewer keys, search each in the undo records; for more, read the records completely

    def __init__(self, env: Environment, txn: Any, epoch: int) -> None:
        self._env, self._txn, self._epoch = env, txn, epoch
        self._data, self._undo, self._marks, _ = (env.databases[n] for n in DATABASES)
        self._undos: dict[int, list[Undo]] = {}
        self._overlays: dict[int, tuple[dict[bytes, bytes | None], list[bytes]]] = {}

    def _later_undos(self, state: int) -> list[Undo]:
        """Non-empty undo records of epochs after this snapshot's, earliest first."""
        if state not in self._undos:
            mark = _read_mark(self._txn, self._marks, state) or Mark(0, 0)
            if self._epoch < mark.oldest:
                raise SnapshotGone(epoch=self._epoch, name=f"state {state}", oldest=mark.oldest)
            undos = (Undo(self._txn, self._undo, state, epoch) for epoch in self._later_epochs(state, mark.applied))
            self._undos[state] = [u for u in undos if u.chunks]
        return self._undos[state]

    def _later_epochs(self, state: int, applied: int) -> Iterator[int]:
        """Epochs after this snapshot's that have an undo record. Seeks, because a damaged mark may name any number."""
        if applied > self._epoch:
            with self._txn.cursor(self._undo) as cursor:
                yield from undo_epochs(cursor, state, self._epoch + 1, applied)

    def applied(self, state: int) -> int | None:
        mark = _read_mark(self._txn, self._marks, state)
        return mark.applied if mark else None

    def moved_to(self, epoch: int) -> LmdbShardSnapshot:
        return LmdbShardSnapshot(self._env, self._txn, epoch)

    def changed(self, state: int, epoch: int) -> list[bytes]:
        self._later_undos(state)  # raises SnapshotGone if undo records were dropped
        return [key for key, _ in Undo(self._txn, self._undo, state, epoch).items()]

    def _overlay(self, state: int) -> tuple[dict[bytes, bytes | None], list[bytes]]:
        """All keys changed by later epochs, with their values at this snapshot's epoch; and the keys, sorted."""
        if state not in self._overlays:
            overlay: dict[bytes, bytes | None] = {}
            for undo in reversed(self._later_undos(state)):  # the earliest last, so that it wins
                overlay.update(undo.items())
            self._overlays[state] = overlay, sorted(overlay)
        return self._overlays[state]

    def get_many(self, state: int, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        prefix = _STATE.pack(state)
        undos = self._later_undos(state)
        if len(keys) < self.POINT_READS:
            return {k: v for k in keys if (v := self._get(state, prefix, k)) is not None}
        entries = self._txn.cursor(self._data).getmulti([prefix + k for k in keys])
        values = {k[4:]: v for k, v in entries}
        if undos:
            overlay, _ = self._overlay(state)
            for key in overlay.keys() & set(keys):
                old = overlay[key]
                if old is None:
                    values.pop(key, None)
                else:
                    values[key] = old
        return values

    def values(self, state: int, keys: pa.LargeBinaryArray) -> list[bytes | None]:
        if self._later_undos(state):
            key_list = keys.to_pylist()
            values = self.get_many(state, key_list)
        else:
            key_list = _add_prefix(state, keys).to_pylist()
            values = dict(self._txn.cursor(self._data).getmulti(key_list))
        return [values.get(key) for key in key_list]

    def _get(self, state: int, prefix: bytes, key: bytes) -> bytes | None:
        for undo in self._later_undos(state):
            is_changed, old = undo.find(key)
            if is_changed:
                return old
        value: bytes | None = self._txn.get(prefix + key, db=self._data)
        return value

    def scan(
        self, state: int, low: bytes = b"", high: bytes | None = None, size: int = 20_000
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        if not self._later_undos(state):
            yield from self._scan_data(state, low, high, size)
            return
        overlay, changed = self._overlay(state)
        pending = changed[bisect_left(changed, low) : len(changed) if high is None else bisect_left(changed, high)]
        for run in self._scan_data(state, low, high, size):
            last = run[-1][0]
            until = bisect_right(pending, last)
            yield _merge(run, pending[:until], overlay)
            pending = pending[until:]
        yield _merge([], pending, overlay)

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
                low, values = _STATE.pack(state) + prefix, []
                if cursor.set_range(low):
                    for key, value in cursor.iternext():
                        if not key.startswith(low):
                            break
                        values.append(value)
                yield values

    def scan_back(self, state: int, low: bytes, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        if self._later_undos(state):
            yield from reversed([entry for run in self.scan(state, low, high) for entry in run])
            return
        prefix = _STATE.pack(state)
        cursor = self._txn.cursor(self._data)
        stop = prefix + high if high is not None else after_prefix(prefix)
        is_past_range = stop is not None and cursor.set_range(stop)
        has_entry = cursor.prev() if is_past_range else cursor.last()
        if not has_entry:
            return
        for key, value in cursor.iterprev():
            if key < prefix + low:
                return
            yield key[4:], value


def _read_mark(txn: Any, db: Any, state: int) -> Mark | None:
    """The mark of a state; None if no epoch was applied to it. Raises `Corrupt` if it is invalid."""
    value = txn.get(_STATE.pack(state), db=db)
    if value is None:
        return None
    mark = decode_mark(value)
    if mark is None:
        raise Corrupt(where=f"the mark of state {state}", reason=f"{len(value)} bytes instead of {_MARK.size}")
    if not mark.oldest <= mark.applied < 1 << 63:
        raise Corrupt(where=f"the mark of state {state}", reason=f"impossible epochs {mark.oldest} to {mark.applied}")
    return mark


def _merge(
    run: list[tuple[bytes, bytes]], keys: list[bytes], overlay: dict[bytes, bytes | None]
) -> list[tuple[bytes, bytes]]:
    """Entries of the data, with the overlay's values for `keys`; sorted."""
    if not keys:
        return run
    entries: dict[bytes, bytes | None] = dict(run)
    entries.update((k, overlay[k]) for k in keys)
    return sorted((k, v) for k, v in entries.items() if v is not None)


def _add_prefix(state: int, keys: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """The keys of a state as stored in the shard."""
    return arrays.join_cells([pa.scalar(_STATE.pack(state), pa.large_binary()), keys])


class LmdbShard(Shard):
    def __init__(self, env: Environment) -> None:
        self._env = env
        self._data, self._undo, self._marks, self._fence = (env.databases[n] for n in DATABASES)

    @property
    def environment(self) -> Environment:
        """The LMDB environment, for inspections and repairs."""
        return self._env

    @contextmanager
    def at(self, epoch: int) -> Iterator[LmdbShardSnapshot]:
        with self._env.read() as txn:
            yield LmdbShardSnapshot(self._env, txn, epoch)

    def fence(self, term: int) -> None:
        with self._env.write() as txn:
            if self._oldest_term(txn) < term:
                txn.put(_TERM, _NUMBER.pack(term), db=self._fence)

    def _oldest_term(self, txn: Any) -> int:
        """The oldest term whose writes are accepted."""
        value = txn.get(_TERM, db=self._fence)
        if value is not None and len(value) != _NUMBER.size:
            raise Corrupt(where="the fence of a shard", reason=f"{len(value)} bytes instead of {_NUMBER.size}")
        return 0 if value is None else int(_NUMBER.unpack(value)[0])

    def apply(self, epoch: int, writes: Sequence[Write], keep: int, term: int = 0) -> bool:
        wrote = False
        with self._env.write() as txn:
            if (newest := self._oldest_term(txn)) > term:
                raise Fenced(term=term, newest=newest)
            self._env.handle.reader_check()  # else killed readers keep LMDB from reusing freed pages
            for write in writes:
                wrote |= self._apply_one(txn, epoch, write, keep)
            faults.point("shard.commit")
        faults.point("shard.committed")
        return wrote

    def _apply_one(self, txn: Any, epoch: int, write: Write, keep: int) -> bool:
        mark = _read_mark(txn, self._marks, write.state)
        if mark is not None and mark.applied >= epoch:
            return False
        oldest = epoch
        if write.olds is not None:
            oldest = self._drop_undos(txn, write.state, mark or Mark(0, 0), keep)
            self._write_undo(txn, epoch, write, write.olds)
        self._write_data(txn, write)
        txn.put(_STATE.pack(write.state), _MARK.pack(epoch, oldest), db=self._marks)
        return True

    def _drop_undos(self, txn: Any, state: int, mark: Mark, keep: int) -> int:
        """Deletes undo records of epochs up to `keep`. Returns the oldest epoch that stays readable."""
        with txn.cursor(self._undo) as cursor:
            more = cursor.set_range(_EPOCH.pack(state, 0))
            while more and bytes(cursor.key()) < _EPOCH.pack(state, keep + 1):
                more = cursor.delete() and bool(cursor.key())
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
                is_append = not cursor.last() or cursor.key() < first  # appends fill pages completely, without splits
                cursor.putmulti(entries, append=is_append)
        if write.values.null_count:
            for key in _add_prefix(write.state, write.keys.filter(write.values.is_null())).to_pylist():
                txn.delete(key, db=self._data)

    def roll_back(self, epoch: int, states: Sequence[int] | None = None) -> list[int]:
        with self._env.write() as txn:
            ahead = {state: mark for state, mark in self._all_marks(txn) if mark.applied > epoch}
            wanted = ahead if states is None else sorted(ahead.keys() & set(states))
            return [state for state in wanted if not _roll_back(txn, self._env, state, ahead[state], epoch)]

    def _all_marks(self, txn: Any) -> list[tuple[int, Mark]]:
        """All states with a readable mark."""
        with txn.cursor(self._marks) as cursor:
            marks = [(int.from_bytes(key), decode_mark(value)) for key, value in cursor.iternext()]
        return [(state, mark) for state, mark in marks if mark is not None]

    def drop(self, state: int) -> None:
        for db in (self._data, self._undo, self._marks):
            delete_range(self._env, db, *prefix_range(_STATE.pack(state)))


def _roll_back(txn: Any, environment: Environment, state: int, mark: Mark, epoch: int) -> bool:
    """Takes one state back to an epoch. Returns False, and keeps its values, if an undo record is damaged or gone."""
    data, undo_db = environment.databases["data"], environment.databases["undo"]
    with txn.cursor(undo_db) as cursor:
        later = list(undo_epochs(cursor, state, epoch + 1, LAST_EPOCH))
    olds = _read_olds(txn, undo_db, state, later) if mark.oldest <= epoch and mark.applied in later else None
    for key, old in (olds or {}).items():
        if old is None:
            txn.delete(state_prefix(state) + key, db=data)
        else:
            txn.put(state_prefix(state) + key, old, db=data)
    for undone in later:
        remove_undo(txn, undo_db, state, undone)
    write_mark(txn, environment, state, epoch, mark.oldest if olds is not None else epoch)
    return olds is not None


def _read_olds(txn: Any, undo_db: Any, state: int, epochs: Sequence[int]) -> dict[bytes, bytes | None] | None:
    """The values before the first of these epochs, of all keys that they changed; None if a record is damaged."""
    olds: dict[bytes, bytes | None] = {}
    try:
        for epoch in reversed(epochs):  # the earliest last, so that it wins
            undo = Undo(txn, undo_db, state, epoch)
            undo.check_complete()
            olds.update(undo.items())
    except UNREADABLE:
        return None
    return olds


def remove_undo(txn: Any, db: Any, state: int, epoch: int) -> None:
    for key in undo_keys(txn, db, state, epoch):
        txn.delete(key, db=db)


def write_mark(txn: Any, environment: Environment, state: int, applied: int, oldest: int) -> None:
    """Sets a mark. Its last applied epoch is that of the newest undo record, else `applied`."""
    with txn.cursor(environment.databases["undo"]) as cursor:
        undos = list(undo_epochs(cursor, state, 0, applied))
    mark = Mark(undos[-1] if undos else applied, min(oldest, undos[-1] if undos else applied))
    txn.put(state_prefix(state), encode_mark(mark), db=environment.databases["marks"])


def delete_range(env: Environment, db: Any, low: bytes, high: bytes | None, size: int = 50_000) -> None:
    """Deletes keys in [low, high), at most `size` per transaction, so that other writers do not wait long."""
    more = True
    while more:
        with env.write() as txn, txn.cursor(db) as cursor:
            deleted = 0
            more = cursor.set_range(low)
            while more and (high is None or bytes(cursor.key()) < high) and deleted < size:
                more = cursor.delete() and bool(cursor.key())
                deleted += 1
            more = more and deleted == size
