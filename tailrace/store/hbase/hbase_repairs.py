"""Repairs the structures of a store on HBase, and makes scratch stores for audits."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from tailrace.codec.schema import TableDef
from tailrace.errors import Conflict
from tailrace.store.base import ROW_COUNTS, Cut
from tailrace.store.hbase.admin import Admin
from tailrace.store.hbase.client import Deletion
from tailrace.store.hbase.hbase_inspection import HbaseInspection, ReadableMarks, leftover_chunks
from tailrace.store.hbase.namespace import create_states
from tailrace.store.hbase.resolver import Correction
from tailrace.store.hbase.row_audit import RowComparer
from tailrace.store.hbase.shard_content import ShardContent
from tailrace.store.hbase.shard_marks import StateMark, cell_timestamp, encode_mark, state_column
from tailrace.store.hbase.state_rows import COLUMN, state_prefix, state_range
from tailrace.store.hbase.versioned_row import Update
from tailrace.store.inspection import Repairs
from tailrace.store.store_ref import StoreRef

if TYPE_CHECKING:
    from tailrace.store.hbase.hbase_store import HbaseStore

SCRATCH = "scratch_"  # the beginning of the names of tables for scratch stores; then the time of their creation
ABANDONED = 86_400  # seconds after which a scratch table is taken for one whose process has died


class HbaseRepairs(Repairs):
    def __init__(self, store: HbaseStore) -> None:
        self._store = store

    def roll_back(self, epoch: int) -> list[tuple[int, int]]:
        lost = []
        for index in range(self._store.shards):
            shard = self._store.shard(index)
            unreadable = _drop_unreadable(shard.content)
            lost += [(index, state) for state in [*unreadable, *shard.roll_back(epoch)]]
        return lost

    def reset_state(self, shard: int, state: int, committed: int) -> None:
        content = self._store.shard(shard).content
        _delete_later(content, state, committed)
        readable = ReadableMarks(content)
        old = readable.states.get(state) or StateMark()
        mark = old._replace(applied=committed, decided=committed, first=committed)
        puts, deletes = {state_column(state): encode_mark(mark)}, [*readable.unreadable_decisions.values()]
        for decision in readable.decisions:
            if state in decision.generations:
                left = {s: g for s, g in decision.generations.items() if s != state}
                if left:
                    puts[decision.column] = decision._replace(generations=left).encode()
                else:
                    deletes.append(decision.column)
        content.row.change([], lambda values: Update(puts, deletes))

    def rebuild_transactions(self, committed: Cut) -> Cut:
        """The tail has the newest transaction and the ends of the logs. Older notes are lost, with the keys in them:
        old versions of the images of these keys stay until the rows change again.
        """
        self._store.log.trim_notes(self._store.newest_cut().transaction + 1)
        return self._store.resolver.correct([])

    def rebuild_rows(self, tables: Collection[TableDef]) -> Cut:
        cut = self._store.newest_cut()
        for table in tables:
            comparer = RowComparer(self._store, self._store.as_stored(table))
            wrong = comparer.compare(self._store.newest_cut().transaction)
            cut = self._store.resolver.correct([Correction(one.key, one.right, one.transaction) for one in wrong])
            _, rows, counted, _ = HbaseInspection(self._store).audit_rows(table)
            if rows != counted:  # the table was changed behind the log
                self.add_to_count(table, rows - counted)
        return cut

    def drop_leftovers(self, shard: int) -> None:
        content = self._store.shard(shard).content
        content.staging.delete(leftover_chunks(content))

    def add_to_count(self, table: TableDef, rows: int) -> None:
        while True:
            counted = self._store.document(ROW_COUNTS, table.id)
            name = ROW_COUNTS.at(table.id)
            try:
                right = max(0, (counted or 0) + rows)
                return self._store.change_documents({name: right}, expected={name: counted})
            except Conflict:
                continue

    def scratch(self) -> AbstractContextManager[HbaseStore]:
        return scratch(self._store)


@contextmanager
def scratch(store: HbaseStore) -> Iterator[HbaseStore]:
    """A store with the tables of another one, and shards in a table of its own, for the time of the block."""
    from tailrace.store.hbase.hbase_store import HbaseStore

    admin, name = Admin(store.client), f"{SCRATCH}{int(time.time())}_{uuid.uuid4().hex[:8]}"
    _drop_abandoned(admin, store.namespace)
    create_states(admin, store.namespace, name, store.shards)
    try:
        made = HbaseStore(StoreRef(f"{store.ref.url.partition('#')[0]}#{name}"))
        try:
            yield made
        finally:
            made.close()
    finally:
        admin.drop_table(f"{store.namespace}:{name}")


def _drop_abandoned(admin: Admin, namespace: str) -> None:
    for name in admin.tables(namespace):
        made = name.partition(f":{SCRATCH}")[2].partition("_")[0]
        if made.isdigit() and int(made) < time.time() - ABANDONED:
            admin.drop_table(name)


def _drop_unreadable(content: ShardContent) -> list[int]:
    """Deletes marks that cannot be read. Returns their states."""
    readable = ReadableMarks(content)
    states = [state for state, mark in readable.states.items() if mark is None]
    columns = [*map(state_column, states), *readable.unreadable_decisions.values()]
    if columns:
        content.row.change([], lambda values: Update(deletes=columns))
    return states


def _delete_later(content: ShardContent, state: int, epoch: int) -> None:
    """Deletes the entries of a state that epochs after this one have written. Each pass finds the newest versions."""
    limit = cell_timestamp(epoch + 1)
    start, stop = state_range(state_prefix(content.shard, state), b"", None)
    while True:
        later = [
            Deletion(row, cells[COLUMN][1], [COLUMN], "version")
            for page in content.entries.scan(start, stop or None, keys_only=True, qualifiers=[COLUMN])
            for row, cells in page
            if cells[COLUMN][1] >= limit
        ]
        if not later:
            return
        content.entries.delete_many(later)
