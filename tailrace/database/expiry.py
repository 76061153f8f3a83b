"""Deletes the rows of tables whose time to live has passed. Done by the process that runs epochs, a step at a time.

A step reads the keys and times of the next STEP rows of one table, in the order of keys, and deletes the expired ones
among them as ordinary logged deletes, so views follow. A row that was changed after it was read is not deleted. Where
the next step continues is stored, also for another process.

A pass over a table costs a read of its keys and times. Passes begin at most every PERIOD seconds, and take at most
about one SHARE-th of the time. So an expired row is deleted after at most PERIOD seconds plus the duration of a pass,
or SHARE passes if that is longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from tailrace.catalog.catalog import Catalog
from tailrace.catalog.retention import EXPIRIES, RETENTIONS, Expiry, Retention
from tailrace.codec.schema import TableDef
from tailrace.store.base import Change, Store

STEP = 50_000  # rows that one step reads
STEP_BYTES = 16 << 20
BATCH = 5_000  # rows that one transaction deletes
PERIOD = 60.0  # seconds between the beginnings of two passes over a table
SHARE = 20


class ExpiredRows:
    """Finds and deletes expired rows. `clock` gives the time in microseconds since 1970."""

    def __init__(self, store: Store, catalog: Catalog, clock: Callable[[], int]) -> None:
        self._store, self._catalog, self._clock = store, catalog, clock
        self.period = PERIOD

    def step(self) -> bool:
        """Looks at the next rows of each table that is due. Returns whether one of them has rows left to look at."""
        retentions = self._store.documents(RETENTIONS)
        tables = {str(t.id): t for t in self._catalog.tables.values()} if retentions else {}
        found = [self._step(tables[key], rule) for key, rule in retentions.items() if key in tables]
        return any(found)

    def _step(self, table: TableDef, rule: Retention) -> bool:
        state = self._store.document(EXPIRIES, table.id) or Expiry()
        now = self._clock() / 1_000_000
        is_new = not state.node and not state.after
        if is_new:
            if state.passes and now < state.began + max(self.period, SHARE * state.seconds):
                return False
            state = structs.replace(state, began=now)
        began = time.monotonic()
        after = bytes.fromhex(state.after)
        end, _ = self._store.step(table, state.node, after, STEP, STEP_BYTES)
        deleted = self._delete_expired(table, rule, state.node, after, end)
        seconds = (0.0 if is_new else state.seconds) + time.monotonic() - began
        state = structs.replace(state, after="" if end is None else end.hex(), seconds=seconds)
        state = structs.replace(state, deleted=state.deleted + deleted)
        if end is None:
            is_last = state.node + 1 == self._store.nodes
            state = structs.replace(state, node=0 if is_last else state.node + 1)
            if is_last:
                state = structs.replace(state, passes=state.passes + 1, ended=self._clock() / 1_000_000)
        self._store.change_documents({EXPIRIES.at(table.id): state})
        return bool(state.node or state.after)

    def _delete_expired(self, table: TableDef, rule: Retention, node: int, after: bytes, end: bytes | None) -> int:
        names = [c.name for c in table.columns]
        positions = [*table.positions, names.index(rule.column)]
        limit, deleted = self._clock() - rule.length, 0
        for batch in self._store.rows(table, node, None, positions, after=after, upto=end):
            mask = _is_expired(batch.column(batch.num_columns - 1), limit)
            keys = batch.filter(pa.array(mask)).select(list(range(len(table.positions)))).rename_columns(table.key)
            for start in range(0, keys.num_rows, BATCH):
                deleted += self._delete(table, rule, keys.slice(start, BATCH), limit)
        return deleted

    def _delete(self, table: TableDef, rule: Retention, keys: pa.RecordBatch, limit: int) -> int:
        """Deletes the rows under these keys that are expired, unless they change before the transaction."""
        encoded = self._store.key_limit.shorten(table.keys.encode(table.key_columns(keys), keys.num_rows))
        rows = table.decode(list(self._store.get(table, encoded.to_pylist()).values()))
        expired = rows.filter(pa.array(_is_expired(rows.column(rule.column), limit)))
        return self._store.write([Change(table, "remove", expired)]).operations if expired.num_rows else 0


def _is_expired(times: pa.Array, limit: int) -> np.ndarray:
    """For each time whether it is not after `limit`. NULL is not."""
    micros = times.cast(pa.timestamp("us")) if pa.types.is_date(times.type) else times
    expired = pc.less_equal(micros.cast(pa.int64()), pa.scalar(limit, pa.int64()))
    return np.asarray(pc.fill_null(expired, False).to_numpy(zero_copy_only=False))


def describe_retention(store: Store, table: TableDef) -> dict[str, object] | None:
    """The time to live of a table as `status` shows it; None if its rows live forever."""
    rule = store.document(RETENTIONS, table.id)
    if rule is None:
        return None
    state = store.document(EXPIRIES, table.id) or Expiry()
    return {
        "column": rule.column,
        "seconds": rule.length / 1_000_000,
        "deleted": state.deleted,
        "passes": state.passes,
        "passed_at": state.ended or None,
    }
