"""Shards in LMDB: the entries of all states, and undo records to read them at earlier epochs.

    data     state, key      → value, both packed (`entries.py`)
    shapes   state, number   → a shape of the state's values (`shapes.py`)
    undo     state, epoch    → the values that an epoch replaced (`undo.py`)
    marks    state           → last epoch applied, oldest epoch still readable, number of entries, template of the keys
    fence    "term"          → oldest term of the epoch lock whose writes are accepted

`at(epoch)` overlays the undo records of all later epochs on the data; for a key in several of them the earliest wins.
So a retried task reads what its first attempt read, and readers see the last committed epoch.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from tailrace import faults
from tailrace.codec.keys import prefix_range
from tailrace.errors import Corrupt, Fenced, SnapshotGone
from tailrace.store.base import Shard, ShardSnapshot, Write
from tailrace.store.inspection import UNREADABLE, Mark
from tailrace.store.lmdb.entries import Entries
from tailrace.store.lmdb.environment import Environment
from tailrace.store.lmdb.form import Form
from tailrace.store.lmdb.templates import Template, decode_template
from tailrace.store.lmdb.undo import LAST_EPOCH, Undo, drop_undos, remove_undo, undo_epochs, write_undo

DATABASES = ("data", "undo", "marks", "fence", "shapes")
# The pages that one transaction may change, as a share of all, and at least. LMDB reuses the pages that a transaction
# frees only two transactions later. So a large epoch is applied in several, or half of the file would be free pages.
BUDGET_SHARE, SMALLEST_BUDGET = 16, 512
FEW = 64  # entries of a write whose size does not matter
_STATE = struct.Struct(">I")  # prefix of all keys of a state
_MARK = struct.Struct("<QQ")
_COUNTED_MARK = struct.Struct("<QQQ")
_NUMBER = struct.Struct("<Q")
_UNCOUNTED = 2**64 - 1  # in a mark: the number of entries is unknown
_TERM = b"term"


def decode_mark(value: bytes | None) -> Mark | None:
    """The mark that a value encodes; None if it is missing or unreadable."""
    if value is not None and len(value) == _MARK.size:
        return Mark(*_MARK.unpack(value))
    if value is None or len(value) < _COUNTED_MARK.size:
        return None
    applied, oldest, entries = _COUNTED_MARK.unpack_from(value)
    form = bytes(value[_COUNTED_MARK.size :])
    if form and decode_template(form) is None:
        return None
    return Mark(applied, oldest, None if entries == _UNCOUNTED else entries, form)


def encode_mark(mark: Mark) -> bytes:
    if mark.entries is None and not mark.form:
        return _MARK.pack(mark.applied, mark.oldest)
    entries = _UNCOUNTED if mark.entries is None else mark.entries
    return _COUNTED_MARK.pack(mark.applied, mark.oldest, entries) + mark.form


def _template(mark: Mark | None) -> Template:
    """The template of a state's keys."""
    return (decode_template(mark.form) if mark is not None else None) or Template()


def state_prefix(state: int) -> bytes:
    """The prefix of all keys of a state."""
    return _STATE.pack(state)


class LmdbShardSnapshot(ShardSnapshot):
    """Reads in one LMDB read transaction, with the undo records of later epochs overlaid."""

    POINT_READS = 32  # for fewer keys, search each in the undo records; for more, read the records completely

    def __init__(self, env: Environment, txn: Any, epoch: int, form: Form) -> None:
        self._env, self._txn, self._epoch, self._form = env, txn, epoch, form
        self._undo, self._marks = env.databases["undo"], env.databases["marks"]
        self._states: dict[int, Entries] = {}
        self._undos: dict[int, list[Undo]] = {}
        self._overlays: dict[int, tuple[dict[bytes, bytes | None], list[bytes]]] = {}

    def _later_undos(self, state: int) -> list[Undo]:
        """Non-empty undo records of epochs after this snapshot's, earliest first."""
        if state not in self._undos:
            mark = _read_mark(self._txn, self._marks, state) or Mark(0, 0)
            if self._epoch < mark.oldest:
                raise SnapshotGone(epoch=self._epoch, name=f"state {state}", oldest=mark.oldest)
            undos = (self._undo_of(state, epoch) for epoch in self._later_epochs(state, mark.applied))
            self._undos[state] = [u for u in undos if u.chunks]
        return self._undos[state]

    def _later_epochs(self, state: int, applied: int) -> Iterator[int]:
        """Epochs after this snapshot's that have an undo record. Seeks, because a damaged mark may name any number."""
        if applied > self._epoch:
            with self._txn.cursor(self._undo) as cursor:
                yield from undo_epochs(cursor, state, self._epoch + 1, applied)

    def _undo_of(self, state: int, epoch: int) -> Undo:
        return Undo(self._txn, self._undo, state, epoch, packed=self._form.packed)

    def _entries(self, state: int) -> Entries:
        """The entries of a state as they are now: after all epochs."""
        if state not in self._states:
            mark = _read_mark(self._txn, self._marks, state)
            self._states[state] = Entries(self._txn, self._env.databases, self._form, state, _template(mark))
        return self._states[state]

    def applied(self, state: int) -> int | None:
        mark = _read_mark(self._txn, self._marks, state)
        return mark.applied if mark else None

    def moved_to(self, epoch: int) -> LmdbShardSnapshot:
        return LmdbShardSnapshot(self._env, self._txn, epoch, self._form)

    def changed(self, state: int, epoch: int) -> list[bytes]:
        self._later_undos(state)  # raises SnapshotGone if undo records were dropped
        return [key for key, _ in self._undo_of(state, epoch).items()]

    def _overlay(self, state: int) -> tuple[dict[bytes, bytes | None], list[bytes]]:
        """All keys changed by later epochs, with their values at this snapshot's epoch; and the keys, sorted."""
        if state not in self._overlays:
            overlay: dict[bytes, bytes | None] = {}
            for undo in reversed(self._later_undos(state)):  # the earliest last, so that it wins
                overlay.update(undo.items())
            self._overlays[state] = overlay, sorted(overlay)
        return self._overlays[state]

    def get_many(self, state: int, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        undos = self._later_undos(state)
        if undos and len(keys) < self.POINT_READS:
            return {k: v for k in keys if (v := self._get(state, k)) is not None}
        values = {k: v for k, v in zip(keys, self._entries(state).get(keys), strict=True) if v is not None}
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
        key_list = keys.to_pylist()
        if not self._later_undos(state):
            return self._entries(state).get(key_list)
        values = self.get_many(state, key_list)
        return [values.get(key) for key in key_list]

    def _get(self, state: int, key: bytes) -> bytes | None:
        for undo in self._later_undos(state):
            is_changed, old = undo.find(key)
            if is_changed:
                return old
        return self._entries(state).get([key])[0]

    def scan(
        self, state: int, low: bytes = b"", high: bytes | None = None, size: int = 20_000
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        if not self._later_undos(state):
            yield from self._entries(state).scan(low, high, size)
            return
        overlay, changed = self._overlay(state)
        pending = changed[bisect_left(changed, low) : len(changed) if high is None else bisect_left(changed, high)]
        for run in self._entries(state).scan(low, high, size):
            last = run[-1][0]
            until = bisect_right(pending, last)
            yield _merge(run, pending[:until], overlay)
            pending = pending[until:]
        yield _merge([], pending, overlay)

    def under(self, state: int, prefixes: Sequence[bytes]) -> Iterator[list[bytes]]:
        if self._later_undos(state):
            for prefix in prefixes:
                yield [value for run in self.scan(state, *prefix_range(prefix)) for _, value in run]
            return
        yield from self._entries(state).under(prefixes)

    def scan_back(self, state: int, low: bytes, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        if self._later_undos(state):
            yield from reversed([entry for run in self.scan(state, low, high) for entry in run])
            return
        yield from self._entries(state).scan_back(low, high)


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


class LmdbShard(Shard):
    def __init__(self, env: Environment, form: Form) -> None:
        self._env, self._form = env, form
        self._data, self._undo, self._marks, self._fence, self._shapes = (env.databases[n] for n in DATABASES)

    @property
    def environment(self) -> Environment:
        """The LMDB environment, for inspections and repairs."""
        return self._env

    def entries(self, txn: Any, state: int) -> Entries:
        """The newest entries of a state, for inspections."""
        mark = _read_mark(txn, self._marks, state)
        return Entries(txn, self._env.databases, self._form, state, _template(mark))

    def undo(self, txn: Any, state: int, epoch: int) -> Undo:
        """The undo record of an epoch, for inspections and repairs."""
        return Undo(txn, self._undo, state, epoch, packed=self._form.packed)

    @contextmanager
    def at(self, epoch: int) -> Iterator[LmdbShardSnapshot]:
        with self._env.read() as txn:
            yield LmdbShardSnapshot(self._env, txn, epoch, self._form)

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
        self._env.handle.reader_check()  # else killed readers keep LMDB from reusing freed pages
        waiting = deque(sorted(writes, key=lambda write: write.state))  # in key order, so that new states are appended
        while True:
            with self._env.write() as txn:
                if (newest := self._oldest_term(txn)) > term:
                    raise Fenced(term=term, newest=newest)
                leaves = int(txn.stat(self._data)["leaf_pages"])
                budget = max(leaves // BUDGET_SHARE, SMALLEST_BUDGET)
                while waiting and budget > 0:
                    budget -= _estimate_pages(waiting[0], leaves)
                    wrote |= self._apply_one(txn, epoch, waiting.popleft(), keep)
                faults.point("shard.commit")
            faults.point("shard.committed")
            if not waiting:
                return wrote

    def _apply_one(self, txn: Any, epoch: int, write: Write, keep: int) -> bool:
        mark = _read_mark(txn, self._marks, write.state)
        if mark is not None and mark.applied >= epoch:
            return False
        template = _template(mark)
        oldest, entries = epoch, len(write.keys) - write.values.null_count if mark is None else None
        if write.olds is not None:
            mark = mark or Mark(0, 0, 0)
            drop_undos(txn, self._undo, write.state, keep)
            oldest = max(mark.oldest, min(keep, mark.applied))
            write_undo(txn, self._undo, write.state, epoch, write.keys, write.olds, packed=self._form.packed)
            added = write.olds.null_count - write.values.null_count
            entries = None if mark.entries is None else max(0, mark.entries + added)
        form = self._put(txn, write.state, template, write.keys, write.values)
        new_mark = Mark(epoch, oldest, entries if self._form.packed else None, form)
        txn.put(_STATE.pack(write.state), encode_mark(new_mark), db=self._marks)
        return True

    def _put(
        self, txn: Any, state: int, template: Template, keys: pa.LargeBinaryArray, values: pa.LargeBinaryArray
    ) -> bytes:
        """Writes entries of a state; a NULL value deletes its key. The keys are sorted. Returns the mark's `form`."""
        entries = Entries(txn, self._env.databases, self._form, state, template)
        entries.put(keys, values)
        return entries.template.encoded

    def roll_back(self, epoch: int, states: Sequence[int] | None = None) -> list[int]:
        with self._env.write() as txn:
            ahead = {state: mark for state, mark in self._all_marks(txn) if mark.applied > epoch}
            wanted = ahead if states is None else sorted(ahead.keys() & set(states))
            return [state for state in wanted if not self._roll_back(txn, state, ahead[state], epoch)]

    def _roll_back(self, txn: Any, state: int, mark: Mark, epoch: int) -> bool:
        """Takes a state back to an epoch. Returns False, and keeps its values, if undo records are damaged or gone."""
        with txn.cursor(self._undo) as cursor:
            later = list(undo_epochs(cursor, state, epoch + 1, LAST_EPOCH))
        olds = self._read_olds(txn, state, later) if mark.oldest <= epoch and mark.applied in later else None
        if olds:
            keys, values = (pa.array([entry[i] for entry in sorted(olds.items())], pa.large_binary()) for i in (0, 1))
            mark = mark._replace(form=self._put(txn, state, _template(mark), keys, values))
        for undone in later:
            remove_undo(txn, self._undo, state, undone)
        write_mark(txn, self._env, state, epoch, mark.oldest if olds is not None else epoch, mark.form)
        return olds is not None

    def _read_olds(self, txn: Any, state: int, epochs: Sequence[int]) -> dict[bytes, bytes | None] | None:
        """The values before the first of these epochs, of all keys that they changed; None if a record is damaged."""
        olds: dict[bytes, bytes | None] = {}
        try:
            for epoch in reversed(epochs):  # the earliest last, so that it wins
                undo = self.undo(txn, state, epoch)
                undo.check_complete()
                olds.update(undo.items())
        except UNREADABLE:
            return None
        return olds

    def _all_marks(self, txn: Any) -> list[tuple[int, Mark]]:
        """All states with a readable mark."""
        with txn.cursor(self._marks) as cursor:
            marks = [(int.from_bytes(key), decode_mark(value)) for key, value in cursor.iternext()]
        return [(state, mark) for state, mark in marks if mark is not None]

    def drop(self, state: int) -> None:
        delete_range(self._env, self._data, *prefix_range(self._form.prefix(state)))
        for db in (self._shapes, self._undo, self._marks):
            delete_range(self._env, db, *prefix_range(_STATE.pack(state)))


def _estimate_pages(write: Write, leaves: int) -> int:
    """How many pages a write changes, at most about: those of its keys, and new ones."""
    if len(write.keys) < FEW:
        return len(write.keys)
    return min(len(write.keys), leaves) + int(write.keys.nbytes + write.values.nbytes) // 4096


def write_mark(txn: Any, environment: Environment, state: int, applied: int, oldest: int, form: bytes) -> None:
    """Sets a mark. Its last applied epoch is that of the newest undo record, else `applied`."""
    with txn.cursor(environment.databases["undo"]) as cursor:
        undos = list(undo_epochs(cursor, state, 0, applied))
    last = undos[-1] if undos else applied
    mark = Mark(last, min(oldest, last), None, form)
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
