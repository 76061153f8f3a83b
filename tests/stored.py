"""What a store keeps of states, read from its own tables, for tests that states are removed."""

from __future__ import annotations

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.store.hbase.hbase_store import HbaseStore
from tailrace.store.lmdb.extents import states_in


def stored_states(db: tr.Database) -> set[int]:
    """The states that have entries in any shard."""
    store = inside(db).store
    if isinstance(store, HbaseStore):
        pages = store.client.table(f"{store.namespace}:state", b"s").scan(b"", None, keys_only=True)
        return {int.from_bytes(row[2:6]) for page in pages for row, cells in page if cells}
    states = set()
    for number in range(store.shards):
        shard = store.shard(number)
        with shard.environment.read() as txn:
            states |= set(states_in(txn, shard.environment.databases["data"], store.settings.form))
    return states


def needed_states(db: tr.Database) -> set[int]:
    """The states that published views use."""
    return {v.state for v in inside(db).catalog.views.values()} | set(inside(db).catalog.states.values())
