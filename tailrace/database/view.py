"""Reads of views. A read sees exactly one epoch, committed or pinned, even while the next one is partly applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace import types
from tailrace.catalog.definition import ViewDef
from tailrace.catalog.failed import FAILED, FailedView
from tailrace.codec.convert import key_values
from tailrace.codec.keys import Direction, KeyCodec, prefix_range
from tailrace.codec.murmur import hash_bucket
from tailrace.codec.rows import RowCodec
from tailrace.codec.weighted import split
from tailrace.database.failed_views import require_built
from tailrace.database.waiting import PATIENCE, AtLeast, ReadEpoch
from tailrace.errors import BadKey, Corrupt, SnapshotGone, StoreError
from tailrace.store.base import ShardSnapshot, Store
from tailrace.types import Column

T = TypeVar("T")
P = ParamSpec("P")
MAX_SCAN_ROWS = 1 << 31  # counting duplicates
ATTEMPTS = 100  # a read is retried if its epoch is no longer retained; an attempt takes microseconds


class _DefinitionReplaced(Exception):
    """CREATE OR REPLACE gave the view another definition during a read."""


def _with_one_definition(read: Callable[Concatenate[View, P], T]) -> Callable[Concatenate[View, P], T]:
    """Decorator: the read uses the view's current definition throughout, and is retried if that is replaced.

    It begins with the definition that was current last. `_read_shards` finds out afterwards whether it still is.
    """

    @wraps(read)
    def retried(self: View, /, *args: P.args, **kwargs: P.kwargs) -> T:
        view = self._successor or self
        while True:
            try:
                return read(view, *args, **kwargs)
            except _DefinitionReplaced:
                view = self._current()
            except Exception:  # such as a key that does not fit an earlier definition
                if (current := self._current()) is view:
                    raise
                view = current

    return retried


class View:
    """A materialized view, read like a keyed table.

    Reads never wait, unless given `at_least`, a position that a write returned. Then they wait until the view covers
    it. After `timeout` seconds (None: never) they raise `Timeout`, which says how far behind the view is. A view that
    has failed shows its last good epoch (`failure` says why), and a read that needs more raises `ViewFailed` at once.
    """

    def __init__(
        self, store: Store, definition: ViewDef, read_epoch: ReadEpoch, find_definition: Callable[[], ViewDef]
    ) -> None:
        self._store, self._def, self._read_epoch, self._find_definition = store, definition, read_epoch, find_definition
        self._successor: View | None = None

    def _current(self) -> View:
        """The view with its current definition: `self`, or a cached successor if the definition was replaced."""
        definition = self._find_definition()
        if definition.state == self._def.state:
            return self
        if self._successor is None or self._successor._def.state != definition.state:
            self._successor = View(self._store, definition, self._read_epoch, self._find_definition)
        return self._successor

    @property
    def name(self) -> str:
        return self._def.name

    @property
    def sql(self) -> str:
        return self._current()._def.sql

    @property
    def key(self) -> list[str] | None:
        """The names of the key columns: [] for a view of one row, None for a view without a key."""
        return self._current()._def.key_names

    @property
    def columns(self) -> list[Column]:
        return list(self._current()._def.columns)

    @property
    def failure(self) -> FailedView | None:
        """Why the view has failed and which epoch it shows; None if it is maintained."""
        return self._store.document(FAILED, self._current()._def.name)

    @property
    def schema(self) -> pa.Schema:
        return self._current()._schema

    @cached_property
    def _schema(self) -> pa.Schema:
        return types.schema(self._def.columns)

    @cached_property
    def _rows(self) -> RowCodec:
        return RowCodec(self._schema)

    @cached_property
    def _key_columns(self) -> list[Column]:
        if self._def.key is None:
            raise BadKey(name=self.name, columns="none", reason="the view has no key; read it with scan() or SQL")
        return [self._def.columns[p] for p in self._def.key]

    @cached_property
    def _keys(self) -> KeyCodec:
        return KeyCodec([types.arrow(c.type) for c in self._key_columns])

    @cached_property
    def _sharding(self) -> tuple[list[int], list[pa.DataType]] | None:
        """Positions in the key, and types, of the columns that determine the shard; None if the key does not."""
        key, place = self._def.key or (), self._def.place
        if any(p not in key or not types.is_scalar(self._def.columns[p].type) for p in place):
            return None
        return [key.index(p) for p in place], [types.arrow(self._def.columns[p].type) for p in place]

    @_with_one_definition
    def get(
        self, key: Any = (), *, at_least: AtLeast | None = None, timeout: float | None = PATIENCE
    ) -> dict[str, Any] | None:
        """The row under a key (a tuple if composite), or None."""
        self._wait(at_least, timeout)
        values = key_values(self.name, self._key_columns, key)
        encoded = self._store.key_limit.shorten_one(self._keys.encode_one(values))
        for rows in self._read_shards(self._shards_of(values), lambda _, s: s.get_many(self._def.state, [encoded])):
            if encoded in rows:
                try:
                    return self._rows.decode_one(rows[encoded])
                except Corrupt as error:
                    raise self._corrupt_row(error) from error
        return None

    @_with_one_definition
    def get_many(
        self, keys: Sequence[Any], *, at_least: AtLeast | None = None, timeout: float | None = PATIENCE
    ) -> pa.Table:
        """The rows under these keys, in the order of the keys, all at one epoch. Missing keys are skipped."""
        self._wait(at_least, timeout)
        key_rows = [key_values(self.name, self._key_columns, key) for key in keys]
        shorten = self._store.key_limit.shorten_one
        encoded = [shorten(self._keys.encode_one(values)) for values in key_rows]
        keys_by_shard: dict[int, list[bytes]] = {}
        for values, key in zip(key_rows, encoded, strict=True):
            for shard in self._shards_of(values):
                keys_by_shard.setdefault(shard, []).append(key)
        rows: dict[bytes, bytes] = {}
        for part in self._read_shards(
            sorted(keys_by_shard), lambda shard, s: s.get_many(self._def.state, keys_by_shard[shard])
        ):
            rows.update(part)
        return self._table([rows[k] for k in encoded if k in rows])

    @_with_one_definition
    def scan(
        self,
        prefix: Any = None,
        *,
        start: Any = None,
        stop: Any = None,
        limit: int | None = None,
        at_least: AtLeast | None = None,
        timeout: float | None = PATIENCE,
    ) -> pa.Table:
        """All rows, those whose key begins with `prefix`, or those with start <= key < stop; at most `limit`.

        `prefix`, `start` and `stop` are values of the first key columns (a tuple for several). Rows are sorted by the
        view's ORDER BY, then by key. A view without a key returns duplicates, and without ORDER BY in no particular
        order.
        """
        self._wait(at_least, timeout)
        low, high = self._bounds(prefix, start, stop)
        shard_limit = limit if not self._def.order else None  # with ORDER BY the first rows may be at any key
        entries: list[tuple[bytes, bytes]] = []
        for part in self._read_shards(
            range(self._store.shards), lambda _, s: _collect_entries(s, self._def.state, low, high, shard_limit)
        ):
            entries += part
        if self._def.key is None:
            table = self._repeat_by_weight([value for _, value in entries])
        else:
            keys = pa.array([k for k, _ in entries], pa.large_binary())
            table = self._table([v for _, v in entries]).take(pc.sort_indices(keys))
            if any(len(k) >= self._store.key_limit.exact_whole for k, _ in entries):
                table = self._sort_by_full_key(table, prefix, start, stop)
        table = self._sort_by_order_by(table)
        return table if limit is None else table.slice(0, limit)

    def _sort_by_order_by(self, table: pa.Table) -> pa.Table:
        """Sorts rows by the view's ORDER BY. The sort is stable."""
        if not self._def.order:
            return table
        columns = [self._def.columns[p] for p, _, _ in self._def.order]
        directions = [Direction(ascending, nulls_first) for _, ascending, nulls_first in self._def.order]
        codec = KeyCodec([types.arrow(c.type) for c in columns], directions)
        return table.take(pc.sort_indices(codec.encode([table.column(c.name) for c in columns], table.num_rows)))

    def _sort_by_full_key(self, table: pa.Table, prefix: Any, start: Any, stop: Any) -> pa.Table:
        """Sorts and filters by keys computed from the rows. Long keys are stored truncated, which loses their order."""
        keys = self._keys.encode([table.column(c.name) for c in self._key_columns], table.num_rows)
        low, high = self._encoded_bounds(prefix, start, stop)
        inside = pc.greater_equal(keys, pa.scalar(low, pa.large_binary()))
        if high is not None:
            inside = pc.and_(inside, pc.less(keys, pa.scalar(high, pa.large_binary())))
        return table.take(pc.sort_indices(keys)).filter(inside.take(pc.sort_indices(keys)))

    def _bounds(self, prefix: Any, start: Any, stop: Any) -> tuple[bytes, bytes | None]:
        """Bounds of stored keys, widened where keys are stored truncated."""
        low, high = self._encoded_bounds(prefix, start, stop)
        exact_bytes = self._store.key_limit.exact_whole
        if high is not None and len(high) > exact_bytes:
            high = prefix_range(high[:exact_bytes])[1]
        return low[:exact_bytes], high

    def _encoded_bounds(self, prefix: Any, start: Any, stop: Any) -> tuple[bytes, bytes | None]:
        if prefix is None and start is None and stop is None:
            return b"", None
        if prefix is not None:
            return prefix_range(self._encode_prefix(prefix))
        low = self._encode_prefix(start) if start is not None else b""
        return low, self._encode_prefix(stop) if stop is not None else None

    def _encode_prefix(self, key: Any) -> bytes:
        values = key_values(self.name, self._key_columns, key, prefix=True)
        kinds = [types.arrow(c.type) for c in self._key_columns[: len(values)]]
        return KeyCodec(kinds).encode_one(values)

    def _shards_of(self, values: list[Any]) -> Sequence[int]:
        if self._sharding is None:
            return range(self._store.shards)
        positions, kinds = self._sharding
        return (hash_bucket([values[p] for p in positions], kinds, self._store.shards),)

    def _table(self, rows: list[bytes]) -> pa.Table:
        try:
            return pa.Table.from_batches([self._rows.decode(rows)])
        except Corrupt as error:
            raise self._corrupt_row(error) from error

    def _repeat_by_weight(self, values: list[bytes]) -> pa.Table:
        try:
            weights, rows = split(values)
        except Corrupt as error:
            raise self._corrupt_row(error) from error
        count = sum(weights.tolist())
        if count > MAX_SCAN_ROWS:
            raise StoreError(message=f"view {self.name!r} has {count:,} rows, too many for one scan; read it with SQL")
        repeated = pa.array(np.repeat(np.arange(len(values)), weights))
        return self._table(rows).take(repeated)

    def _wait(self, at_least: AtLeast | None, timeout: float | None) -> None:
        self._read_epoch.wait(f"view {self.name!r}", at_least, timeout, self._def.name)

    def _corrupt_row(self, error: Corrupt) -> Corrupt:
        return Corrupt(where=f"a row of view {self.name!r}", reason=error.reason)

    def _read_shards(self, shards: Sequence[int], read: Callable[[int, ShardSnapshot], T]) -> list[T]:
        """Read several shards at one epoch. Retried if epochs that commit meanwhile remove the undo records."""
        for attempt in range(ATTEMPTS):
            epoch = self._read_epoch.epoch()
            try:
                with ExitStack() as stack:
                    opened = [(i, stack.enter_context(self._store.shard(i).at(epoch))) for i in shards]
                    parts = [read(i, snapshot) for i, snapshot in opened]
                    if not any(parts) and all(snapshot.applied(self._def.state) is None for _, snapshot in opened):
                        require_built(self._store, [self._def.name])
            except SnapshotGone as error:
                self._require_current()
                if attempt == ATTEMPTS - 1:
                    raise SnapshotGone(**{**error.data, "name": f"view {self.name!r}"}) from error
            else:
                self._require_current()
                return parts
        raise AssertionError("unreachable")

    def _require_current(self) -> None:
        """To be called after a read: the state of a replaced definition may be partly deleted."""
        if self._find_definition().state != self._def.state:
            raise _DefinitionReplaced


def _collect_entries(
    snapshot: ShardSnapshot, state: int, low: bytes, high: bytes | None, limit: int | None
) -> list[tuple[bytes, bytes]]:
    entries: list[tuple[bytes, bytes]] = []
    for run in snapshot.scan(state, low, high):
        entries += run
        if limit is not None and len(entries) >= limit:
            break
    return entries
