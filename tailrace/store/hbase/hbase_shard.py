"""Shards on HBase: states whose cells have epochs as timestamps, so that every retained epoch can be read.

`apply` takes four steps. A process may die after each of them, and any other may go on:

    stage     the writes are stored, under the id of this attempt
    decide    the marks of the shard say that they are the epoch's, unless another attempt was faster; a fenced term
              is refused here
    write     the entries are put. Whoever does it writes the same
    mark      the marks say that the epoch is written
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow.compute as pc

from tailrace import faults
from tailrace.errors import Corrupt, EntryTooLarge
from tailrace.store.base import Shard, Write
from tailrace.store.hbase.client import Client, Deletion
from tailrace.store.hbase.long_values import LARGEST
from tailrace.store.hbase.namespace import STATES
from tailrace.store.hbase.recent_entries import RecentEntries
from tailrace.store.hbase.shard_content import Entry, ShardContent, require_term
from tailrace.store.hbase.shard_marks import (
    ATTEMPT,
    DECISION,
    FENCE,
    OLDEST,
    STATE,
    Decision,
    ShardMarks,
    StateMark,
    cell_timestamp,
    encode_fence,
    encode_mark,
    encode_oldest,
    state_column,
)
from tailrace.store.hbase.shard_snapshot import HbaseShardSnapshot, SeenMarks
from tailrace.store.hbase.state_rows import COLUMN, state_prefix, state_range
from tailrace.store.hbase.trimming import GRACE, Trimmer
from tailrace.store.hbase.versioned_row import Known, Update, Values


class HbaseShard(Shard):
    def __init__(self, client: Client, namespace: str, shard: int, grace: float = GRACE, table: str = STATES) -> None:
        self.content = ShardContent(client, namespace, shard, table)
        self._trimmer = Trimmer(self.content, grace)
        self._last: Known | None = None  # what is known of the row of marks since the last epoch
        self._recent = RecentEntries()

    @contextmanager
    def at(self, epoch: int) -> Iterator[HbaseShardSnapshot]:
        yield HbaseShardSnapshot(self.content, epoch, SeenMarks(self.content), self._recent)

    def fence(self, term: int) -> None:
        def decide(values: Values) -> Update | None:
            return Update({FENCE: encode_fence(term)}) if ShardMarks(values).fence < term else None

        self.content.row.change([FENCE], decide)

    # applying

    def apply(self, epoch: int, writes: Sequence[Write], keep: int, term: int = 0) -> bool:
        _require_sizes(writes)
        content, attempt = self.content, os.urandom(ATTEMPT)
        columns = [FENCE, OLDEST, *(state_column(write.state) for write in writes)]
        known = self._read_marks(epoch, writes, columns, term)
        wanted = [write for write in writes if ShardMarks(known.values).of(write.state).decided < epoch]
        chunks = content.staging.write(epoch, attempt, wanted) if wanted else 0
        faults.point("shard.commit")
        decision, before = Decision(epoch, attempt, chunks, {}), ShardMarks({})

        def decide(values: Values) -> Update | None:
            nonlocal decision, before
            before = marks = ShardMarks(values)
            require_term(marks, term)
            decision, new_marks = _decide(marks, epoch, attempt, chunks, wanted)
            puts = {state_column(state): encode_mark(mark) for state, mark in new_marks.items()}
            if new_marks:
                puts[decision.column] = decision.encode()
            if (oldest := min(keep, epoch - 1)) > marks.oldest:
                puts[OLDEST] = encode_oldest(oldest, marks.trimmed)
            return Update(puts) if puts else None

        marks = ShardMarks((known := self._change(columns, decide, known)).values)
        faults.point("shard.decided")
        if decision.generations:
            entries = (entry for write in wanted if write.state in decision.generations for entry in _entries(write))
            content.write(decision, entries, check=lambda: content.require_term(term))
            faults.point("shard.written")
            known = content.mark_written(decision, columns, term, known)
            self._note(decision, before, ShardMarks(known.values), wanted)
        elif chunks:
            content.staging.drop(epoch, attempt, chunks)
        if others := [w.state for w in writes if w.state not in decision.generations and marks.of(w.state).is_open]:
            content.finish(others)
        faults.point("shard.committed")
        self._last = Known(known.version, {column: known.values.get(column, b"") for column in columns})
        self._trimmer.trim_if_due(marks)
        return bool(decision.generations)

    def _note(self, decision: Decision, before: ShardMarks, after: ShardMarks, writes: Sequence[Write]) -> None:
        """Keeps what this attempt has written, unless the marks have moved on."""
        for write in writes:
            mark = after.of(write.state)
            is_own = write.state in decision.generations and (mark.applied, mark.attempt) == decision[:2]
            if is_own and self._recent.is_wanted(write.state):
                entries = zip(write.keys.to_pylist(), write.values.to_pylist(), strict=True)
                self._recent.note(write.state, before.of(write.state), mark, entries)

    def _change(self, columns: Sequence[bytes], decide: Callable[[Values], Update | None], known: Known) -> Known:
        """Changes the marks, after writing earlier epochs that were left open."""
        begin: Known | None = known
        while True:
            try:
                return self.content.row.change(columns, decide, begin)
            except _LeftOpen as found:
                self.content.finish(found.states)
                begin = None

    def _read_marks(self, epoch: int, writes: Sequence[Write], columns: Sequence[bytes], term: int) -> Known:
        """What is known of the marks.

        Mostly this process has applied the last epoch, too. Then it begins with what it knew at the end of that. If it
        is no longer true, the decision fails, and the marks are read.
        """
        last, self._last = self._last, None
        if writes and last is not None and last.values.keys() >= set(columns):
            known = Known(last.version, {column: value for column, value in last.values.items() if value})
            marks = ShardMarks(known.values)
            if all(marks.of(write.state).decided < epoch for write in writes):
                return known
        known = self.content.row.read_known(columns)
        require_term(ShardMarks(known.values), term)
        return known

    # taking back

    def roll_back(self, epoch: int, states: Sequence[int] | None = None) -> list[int]:
        marks = ShardMarks(self.content.row.read(prefixes=[OLDEST, STATE, DECISION]))
        ahead = {s for s, m in marks.states.items() if m.decided > epoch and (states is None or s in states)}
        later = [d for d in marks.decisions if d.epoch > epoch and ahead & d.generations.keys()]
        recorded = {state for decision in later for state in decision.generations}
        lost = ahead if marks.oldest > epoch else ahead - recorded
        for decision in later:
            try:
                self._undo(decision, ahead - lost)
            except Corrupt:
                lost |= ahead & decision.generations.keys()
        self.content.row.change(
            [*map(state_column, sorted(ahead)), *(decision.column for decision in marks.decisions)],
            lambda values: _take_back(ShardMarks(values), epoch, ahead),
        )
        for decision in later:
            if decision.generations.keys() <= ahead:
                self.content.staging.drop(*decision[:3])
        return sorted(lost)

    def _undo(self, decision: Decision, states: set[int]) -> None:
        """Deletes the entries that an epoch wrote, even those that a task may still put later."""
        deletions = []
        for state, key, *_ in self.content.staging.read(decision, states):
            timestamp = cell_timestamp(decision.epoch, decision.generations[state])
            row = state_prefix(self.content.shard, state) + key
            deletions.append(Deletion(row, timestamp, [COLUMN], "version"))
        self.content.entries.delete_many(deletions)

    def drop(self, state: int) -> None:
        start, stop = state_range(state_prefix(self.content.shard, state), b"", None)
        for page in self.content.entries.scan(start, stop or None, keys_only=True):
            newest = [(row, timestamp) for row, cells in page for _, timestamp in cells.values()]
            self.content.entries.delete_many([Deletion(row, timestamp, [COLUMN]) for row, timestamp in newest])
        self._recent.forget(state)
        column = state_column(state)
        self.content.row.change([column], lambda values: Update(deletes=[column]) if values else None)


def _require_sizes(writes: Sequence[Write]) -> None:
    """Raises `EntryTooLarge` if a value does not fit into a cell. HBase would refuse it only after the decision."""
    for write in writes:
        sizes = pc.fill_null(pc.binary_length(write.values), 0)
        largest = pc.max(sizes).as_py() or 0
        if largest > LARGEST:
            key = write.keys[pc.index(sizes, largest).as_py()].as_py()
            raise EntryTooLarge(key=key.hex(), size=largest, limit=LARGEST)


class _LeftOpen(Exception):
    """An earlier epoch of some states is decided, but was not written completely."""

    def __init__(self, states: Sequence[int]) -> None:
        super().__init__(states)
        self.states = states


def _decide(
    marks: ShardMarks, epoch: int, attempt: bytes, chunks: int, writes: Sequence[Write]
) -> tuple[Decision, dict[int, StateMark]]:
    """The decision that this attempt can make, and the new marks of the states that it is about.

    Raises `_LeftOpen` if an earlier epoch must be written first.
    """
    if left := [w.state for w in writes if marks.of(w.state).is_open and marks.of(w.state).decided < epoch]:
        raise _LeftOpen(left)
    generations, new_marks = {}, {}
    for write in writes:
        mark = marks.of(write.state)
        if mark.decided < epoch:
            generations[write.state] = mark.generation_of(epoch)
            first = epoch if write.olds is None else mark.first
            new_marks[write.state] = mark._replace(decided=epoch, attempt=attempt, first=first)
    return Decision(epoch, attempt, chunks, generations), new_marks


def _entries(write: Write) -> Iterator[Entry]:
    for key, value in zip(write.keys.to_pylist(), write.values.to_pylist(), strict=True):
        yield Entry(write.state, key, value)


def _take_back(marks: ShardMarks, epoch: int, states: set[int]) -> Update | None:
    """Takes the marks of states back to an epoch, and removes later decisions about them."""
    puts: dict[bytes, bytes] = {}
    deletes: list[bytes] = []
    for state in sorted(states & marks.states.keys()):
        mark = marks.of(state)
        earlier = [d.epoch for d in marks.decisions if d.epoch <= epoch and state in d.generations]
        applied = mark.applied if mark.applied <= epoch else max(earlier, default=epoch)
        generation = mark.generation + 1 if epoch < mark.burnt else 1
        taken = StateMark(
            applied, applied, first=min(mark.first, epoch), burnt=max(mark.burnt, mark.decided), generation=generation
        )
        puts[state_column(state)] = encode_mark(taken)
    for decision in marks.decisions:
        if decision.epoch > epoch and states & decision.generations.keys():
            left = {s: g for s, g in decision.generations.items() if s not in states}
            if left:
                puts[decision.column] = decision._replace(generations=left).encode()
            else:
                deletes.append(decision.column)
    return Update(puts, deletes) if puts or deletes else None
