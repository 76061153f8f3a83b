"""Writes that were prepared before an ALTER TABLE and reach the store after it.

The store refuses them with `TableAltered`. They are adapted to the new layout as if they had been written just before
the ALTER: an added column gets its default, a renamed column its new name, and the value of a dropped column is hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from tailrace.codec.schema import TableDef
from tailrace.errors import TableAltered
from tailrace.store.base import Change, Store, Written


def write_current(store: Store, changes: Sequence[Change], find_newest: Callable[[TableDef], TableDef]) -> Written:
    """Writes changes as one transaction. `find_newest` returns the newest definition of a table, or raises."""
    while True:
        try:
            return store.write(changes)
        except TableAltered:
            changes = [_adapted(change, find_newest(change.table)) for change in changes]


def _adapted(change: Change, newest: TableDef) -> Change:
    old, rows = change.table, change.rows
    if old.version == newest.version:
        return change
    position = dict(zip((c.name for c in old.stored), range(len(old.stored)), strict=True))
    visible = {slot: c.name for slot, c in zip(newest.slots, newest.columns, strict=True)}
    arrays = {
        visible[position[name]]: array
        for name, array in zip(rows.schema.names, rows.columns, strict=True)
        if position[name] in visible
    }
    if change.mode == "put":
        for field in newest.schema:
            if field.name not in arrays:
                arrays[field.name] = pa.repeat(pa.scalar(newest.defaults.get(field.name), field.type), rows.num_rows)
    names = [n for n in newest.schema.names if n in arrays]
    batch = pa.RecordBatch.from_arrays([arrays[n] for n in names], names=names)
    return Change(newest, change.mode, batch)
