"""Reads the structures of a store on HBase for audits. Everything may be damaged, and processes go on to write.

What is read at two moments may differ without being damaged: each check below says why what it finds is damage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tailrace.codec.schema import TableDef
from tailrace.errors import Corrupt, TailraceError
from tailrace.store import log_entries
from tailrace.store.base import ROW_COUNTS, Cut
from tailrace.store.commits import read_committed
from tailrace.store.hbase.long_values import join_value
from tailrace.store.hbase.resolved_log import ENTRY, NOTE
from tailrace.store.hbase.row_audit import RowComparer
from tailrace.store.hbase.shard_content import ShardContent
from tailrace.store.hbase.shard_marks import DECISION, FENCE, OLDEST, STATE, Decision, ShardMarks, StateMark
from tailrace.store.hbase.state_rows import COLUMN, state_of, state_prefix
from tailrace.store.hbase.tail import TAIL, TRIMMED, Tail
from tailrace.store.inspection import UNREADABLE, Inspection, Mark, RowAudit, StateRecord

if TYPE_CHECKING:
    from tailrace.store.hbase.hbase_store import HbaseStore


class HbaseInspection(Inspection):
    def __init__(self, store: HbaseStore) -> None:
        self._store = store

    def documents(self) -> list[tuple[str, bytes]]:
        stored = self._store.raw_documents()
        return sorted((name.decode(errors="replace"), value) for name, value in stored.items())

    def transaction_faults(self, committed: Cut) -> tuple[list[str], tuple[int, ...] | None]:
        """Notes are written before the tail moves, and the last one up to the tail stays when others are trimmed."""
        tail = self._tail()
        faults: list[str] = []
        last = 0
        ends = tuple(0 for _ in tail.ends)
        size = len(log_entries.encode_note(0.0, 0, ends))
        for number, cells in self._store.log.stored_notes(tail.transaction):
            note = cells[NOTE][0] if NOTE in cells else b""
            if len(note) != size:
                faults.append(f"transaction {number}: note has {len(note)} bytes instead of {size}")
                continue
            _, operations, found = log_entries.decode_note(note)
            if operations != sum(found) or any(a < b for a, b in zip(found, ends, strict=True)):
                faults.append(f"transaction {number}: inconsistent log ends")
            elif number == committed.transaction and found != committed.offsets:
                faults.append(f"transaction {number}: log ends differ from the committed cut")
            else:
                last, ends = number, found
        if not faults and (last != tail.transaction or ends != tail.ends):
            faults.append(f"transaction {tail.transaction}, the newest, has no note with the ends of the logs")
        return faults, None if faults else tail.ends

    def _tail(self) -> Tail:
        return self._store.document(TAIL) or Tail((0,) * self._store.nodes)

    def log_faults(
        self, node: int, start: int, end: int | None, tables: Mapping[int, TableDef]
    ) -> Iterator[tuple[int, str]]:
        """Entries before `start` may be trimmed meanwhile, so a gap there is none."""
        expected: int | None = start
        end = self._tail().ends[node] if end is None else end
        for offset, cells in self._store.log.stored_entries(node, end):
            if offset >= start and expected is not None and offset != expected:
                yield expected, f"entries up to offset {offset} are missing"
            try:
                entry = log_entries.decode(node, offset, join_value(ENTRY, cells))
                if entry.table in tables:
                    table = self._store.as_stored(tables[entry.table])
                    log_entries.decode_rows(entry, table).validate(full=True)
                after = offset + entry.operations
                expected = after if after >= start else start
            except UNREADABLE as error:
                yield offset, _explain(error)
                expected = None if offset >= start else start
        if expected is not None and expected != end:
            yield expected, f"entries up to offset {end} are missing"

    def audit_rows(self, table: TableDef) -> RowAudit:
        """The images of the rows. The number of rows changes in one step with the tail.

        It is not judged while images are wrong.
        """
        while True:
            stored = self._store.raw_documents([TAIL.name, ROW_COUNTS.at(table.id)])
            tail = stored.get(TAIL.name.encode())
            transaction = 0 if tail is None else TAIL.decode(TAIL.name, tail, self._store.nodes).transaction
            counted = int(stored.get(ROW_COUNTS.at(table.id).encode(), b"0"))
            comparer = RowComparer(self._store, self._store.as_stored(table))
            wrong = comparer.compare(transaction)
            if (self._store.document(TRIMMED) or 0) <= transaction:  # else images of that transaction may be gone
                return RowAudit([*map(str, wrong)], counted if wrong else comparer.rows, counted, is_copy=True)

    def states(self, shard: int) -> list[StateRecord]:
        content = self._store.shard(shard).content
        readable = ReadableMarks(content)
        committed = read_committed(self._store).epoch  # read after the marks: it only grows
        with_entries = set(_states_with_entries(content))
        records = []
        for state in sorted(with_entries | readable.states.keys()):
            mark = readable.states.get(state)
            decisions = [d for d in readable.decisions if state in d.generations]
            damaged = {d.epoch: reason for d in decisions if (reason := readable.staging_fault(d))}
            damaged |= dict.fromkeys(readable.unreadable_decisions, "the decision about the epoch cannot be read")
            found = None if mark is None else Mark(mark.decided, readable.oldest_of(mark, committed))
            undos = tuple(decision.epoch for decision in decisions)
            records.append(StateRecord(state, state in with_entries, state in readable.states, found, undos, damaged))
        return records

    def leftovers(self, shard: int) -> int:
        return len(leftover_chunks(self._store.shard(shard).content))

    def lost_shard_advice(self, shard: int) -> str:
        prefix = self._store.shard(shard).content.row.name.hex()
        return f"Delete the row 0x{prefix} of {self._store.namespace}:state in HBase"


class ReadableMarks:
    """The marks of a shard, as far as they can be read. A state whose mark cannot be read has None."""

    def __init__(self, content: ShardContent) -> None:
        self._content = content
        self.states: dict[int, StateMark | None] = {}
        self.decisions: list[Decision] = []
        self.unreadable_decisions: dict[int, bytes] = {}
        values = content.row.read()
        whole_shard = ShardMarks({column: v for column, v in values.items() if column in (FENCE, OLDEST)})
        self.oldest, self.trimmed = whole_shard.oldest, whole_shard.trimmed
        for column, value in values.items():
            try:
                marks = ShardMarks({column: value})
                self.states.update(marks.states)
                self.decisions += marks.decisions
            except Corrupt:
                self._note(column)
        self.decisions.sort(key=lambda decision: decision.epoch)

    def oldest_of(self, mark: StateMark, committed: int) -> int:
        """The oldest epoch at which a state can be read.

        A shard has one for all its states. It may be later than the last epoch of a state that has not changed since:
        then the state still is as of that epoch. It is damaged if it is later than the committed epoch.
        """
        oldest = self.oldest if self.oldest > committed else min(self.oldest, mark.decided)
        return max(oldest, mark.first)

    def _note(self, column: bytes) -> None:
        try:
            if column[:1] == STATE:
                self.states[int(column[1:], 16)] = None
            elif column[:1] == DECISION:
                self.unreadable_decisions[int(column[1:17], 16)] = column
        except ValueError:
            raise Corrupt(where="the marks of a shard", reason=f"unknown column {column!r}") from None

    def staging_fault(self, decision: Decision) -> str | None:
        """Why the record of an epoch cannot be read. It may be trimmed meanwhile; then the decision is gone, too."""
        try:
            for _ in self._content.staging.read(decision):
                pass
        except UNREADABLE as error:
            if self._content.row.read([decision.column]):
                return _explain(error)
        return None


def leftover_chunks(content: ShardContent) -> list[bytes]:
    """The rows of staged writes that nothing will remove: of epochs that are trimmed, and of no decision."""
    readable = ReadableMarks(content)
    decided = {(decision.epoch, decision.attempt) for decision in readable.decisions}
    return [row for row, attempt in content.staging.staged_upto(readable.trimmed) if attempt not in decided]


def _states_with_entries(content: ShardContent) -> Iterator[int]:
    """The numbers of the states that have entries: of each, only the first row is read."""
    state = 0
    while True:
        low, high = state_prefix(content.shard, state), state_prefix(content.shard + 1, 0)
        page = next(content.entries.scan(low, high, size=1, keys_only=True, qualifiers=[COLUMN]), None)
        if page is None:
            return
        state = state_of(page[0][0])
        yield state
        state += 1


def _explain(error: Exception) -> str:
    reason = error.data.get("reason") if isinstance(error, TailraceError) else None
    return str(reason or error).partition("\n")[0] or type(error).__name__
