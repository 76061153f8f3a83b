"""What a shard on HBase has stored: entries, marks and staged writes; and how a decided epoch gets written.

An epoch's writes are staged, then decided, then written. The decision is one step in the row of marks. From then on the
content of the epoch is fixed: whoever finds it unfinished writes what was staged. All entries have the epoch as their
timestamp, so writing them twice changes nothing.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tailrace.errors import Fenced
from tailrace.store.hbase.client import Cells, Client
from tailrace.store.hbase.namespace import STATES
from tailrace.store.hbase.shard_marks import (
    DECISION,
    FENCE,
    OLDEST,
    STATE,
    Decision,
    ShardMarks,
    cell_timestamp,
    decision_column,
    encode_mark,
    state_column,
)
from tailrace.store.hbase.staging import Staging
from tailrace.store.hbase.state_rows import COLUMN, encode_value, state_prefix
from tailrace.store.hbase.versioned_row import Known, Update, Values, VersionedRow

WRITTEN = 20_000  # entries that are written between two checks
LATEST = 2**63 - 1  # no cell has this timestamp
CHECKED = 1.0  # seconds for which a check counts
_MARKS = struct.Struct(">HI4s")


class Entry(NamedTuple):
    """A key of a state, with its new value. None deletes it."""

    state: int
    key: bytes
    value: bytes | None


class ShardContent:
    """One shard in the table `state` of a namespace."""

    def __init__(self, client: Client, namespace: str, shard: int, table: str = STATES) -> None:
        self.shard = shard
        name = f"{namespace}:{table}"
        self._table, self.entries = client.table(name, None), client.table(name, b"s")
        marks = client.table(name, b"m")
        self.staging = Staging(marks, shard)
        self._marks_key = _MARKS.pack(shard, 0xFFFFFFFF, b"meta")
        self.row = VersionedRow(marks, self._marks_key)

    def read_marks(self) -> ShardMarks:
        """All marks, without decisions."""
        return ShardMarks(self.row.read(prefixes=[FENCE, OLDEST, STATE]))

    def read_few(self, state: int, rows: Sequence[bytes], before: int) -> tuple[ShardMarks, list[Cells]]:
        """The marks that concern a state, and the cells of some rows of entries before a time, in one call."""
        marks = [OLDEST, state_column(state)]
        columns = [*(b"m:" + column for column in marks), b"s:" + COLUMN]
        keys, times = [self._marks_key, *rows], [LATEST, *[before] * len(rows)]
        found, *entries = self._table.get_many(keys, before=times, qualifiers=columns)
        values = {column: found[b"m:" + column][0] for column in marks if b"m:" + column in found}
        return ShardMarks(values), [{name[2:]: cell for name, cell in cells.items()} for cells in entries]

    def read_decisions(self, epoch: int | None = None) -> list[Decision]:
        """The decisions of an epoch (None: of all), by epoch."""
        prefix = DECISION if epoch is None else decision_column(epoch, b"")
        return ShardMarks(self.row.read(prefixes=[prefix])).decisions

    def require_term(self, term: int) -> None:
        """Raises `Fenced` if writes of a term are no longer accepted."""
        require_term(ShardMarks(self.row.read([FENCE])), term)

    def write(self, decision: Decision, entries: Iterable[Entry], check: Callable[[], None]) -> None:
        """Writes the entries of a decided epoch. If that takes long, calls `check` again and again."""
        rows: dict[int, list[tuple[bytes, dict[bytes, bytes]]]] = {}
        prefixes = {state: state_prefix(self.shard, state) for state in decision.generations}
        for state, key, value in entries:
            timestamp = cell_timestamp(decision.epoch, decision.generations[state])
            rows.setdefault(timestamp, []).append((prefixes[state] + key, {COLUMN: encode_value(value)}))
        checked = time.monotonic()
        for timestamp, puts in rows.items():
            for place in range(0, len(puts), WRITTEN):
                if time.monotonic() - checked > CHECKED:
                    check()
                    checked = time.monotonic()
                self.entries.put_many(puts[place : place + WRITTEN], timestamp=timestamp)

    def mark_written(
        self, decision: Decision, columns: Sequence[bytes], term: int | None = None, known: Known | None = None
    ) -> Known:
        """Notes that an epoch is written completely, if it is still decided. A `term` must not be fenced.

        `columns` are what the caller wants to know afterwards, the marks of the states included.
        """

        def decide(values: Values) -> Update | None:
            marks = ShardMarks(values)
            if term is not None:
                require_term(marks, term)
            written = {
                state_column(state): encode_mark(mark._replace(applied=decision.epoch))
                for state in decision.generations
                if (mark := marks.of(state)).is_open and (mark.decided, mark.attempt) == decision[:2]
            }
            return Update(written) if written else None

        return self.row.change(columns, decide, known)

    def finish(self, states: Sequence[int]) -> None:
        """Writes what was decided for states, but perhaps not written: the process that decided it may be dead."""
        marks = ShardMarks(self.row.read(list(map(state_column, states))))
        pending = [marks.of(state) for state in states if marks.of(state).is_open]
        columns = {decision_column(mark.decided, mark.attempt) for mark in pending}
        for decision in ShardMarks(self.row.read(sorted(columns))).decisions if columns else ():
            chosen = decision._replace(generations={s: g for s, g in decision.generations.items() if s in states})
            staged = self.staging.read(chosen)
            self.write(chosen, (Entry(*entry[:3]) for entry in staged), check=lambda: None)
            self.mark_written(chosen, list(map(state_column, chosen.generations)))


def require_term(marks: ShardMarks, term: int) -> None:
    if marks.fence > term:
        raise Fenced(term=term, newest=marks.fence)
