"""Reading views: all reads are of one epoch, the committed or a pinned one, even while the next is half applied."""

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
from tailrace.codec.convert import key_values
from tailrace.codec.keys import Direction, KeyCodec, prefix_range
from tailrace.codec.murmur import hash_bucket
from tailrace.codec.rows import RowCodec
from tailrace.codec.weighted import split
from tailrace.database.waiting import PATIENCE, AtLeast, Moment
from tailrace.errors import BadKey, Corrupt, SnapshotGone, StoreError
from tailrace.store.base import ShardSnapshot, Store
from tailrace.types import Column

T = TypeVar("T")
P = ParamSpec("P")
MOST = 1 << 31  # rows of a scan, counting a row as often as it is there
ATTEMPTS = 100  # a read is repeated when epochs overtake it; each attempt takes microseconds


class _Replaced(Exception):
    """The view got another definition while it was read."""


def _whole(read: Callable[Concatenate[View, P], T]) -> Callable[Concatenate[View, P], T]:
    """A read by one definition from beginning to end: by the newest, again if that is replaced meanwhile."""

    @wraps(read)
    def reading(self: View, /, *args: P.args, **kwargs: P.kwargs) -> T:
        while True:
            try:
                return read(self._newest(), *args, **kwargs)
            except _Replaced:
                continue

    return reading


class View:
    """A materialized view, served as a keyed table. `find` gives its definition as it is now.

    Reads never wait, unless they are told `at_least`: a position that a write returned. Then they wait until the
    view covers it, for `timeout` seconds at most (None: for ever); `Timeout` says how far the view is.
    """

    def __init__(self, store: Store, definition: ViewDef, moment: Moment, find: Callable[[], ViewDef]) -> None:
        self._store, self._def, self._moment, self._find = store, definition, moment, find
        self._newer: View | None = None

    def _newest(self) -> View:
        """The view by its newest definition: this one, unless it was replaced."""
        found = self._find()
        if found.state == self._def.state:
            return self
        if self._newer is None or self._newer._def.state != found.state:
            self._newer = View(self._store, found, self._moment, self._find)
        return self._newer

    @property
    def name(self) -> str:
        return self._def.name

    @property
    def sql(self) -> str:
        return self._newest()._def.sql

    @property
    def key(self) -> list[str] | None:
        """The names of the key's columns: [] for a view of one row, None for a view without a key."""
        return self._newest()._def.key_names

    @property
    def columns(self) -> list[Column]:
        return list(self._newest()._def.columns)

    @property
    def schema(self) -> pa.Schema:
        return self._newest()._schema

    @cached_property
    def _schema(self) -> pa.Schema:
        return types.schema(self._def.columns)

    @cached_property
    def _rows(self) -> RowCodec:
        return RowCodec(self._schema)

    @cached_property
    def _key_columns(self) -> list[Column]:
        if self._def.key is None:
            raise BadKey(name=self.name, columns="nothing", reason="use scan() or SQL to read a view without a key")
        return [self._def.columns[p] for p in self._def.key]

    @cached_property
    def _keys(self) -> KeyCodec:
        return KeyCodec([types.arrow(c.type) for c in self._key_columns])

    @cached_property
    def _placed(self) -> tuple[list[int], list[pa.DataType]] | None:
        """Where in the key the columns are that say which shard; None when a key does not tell."""
        key = self._def.key or ()
        placed = self._def.place
        if any(p not in key or not types.is_scalar(self._def.columns[p].type) for p in placed):
            return None
        return [key.index(p) for p in placed], [types.arrow(self._def.columns[p].type) for p in placed]

    @_whole
    def get(
        self, key: Any = (), *, at_least: AtLeast | None = None, timeout: float | None = PATIENCE
    ) -> dict[str, Any] | None:
        """The row under a key (a tuple if composite), or None."""
        self._wait(at_least, timeout)
        values = key_values(self.name, self._key_columns, key)
        encoded = self._store.key_limit.shorten_one(self._keys.encode_one(values))
        for found in self._read_all(self._shards(values), lambda _, s: s.get_many(self._def.state, [encoded])):
            if encoded in found:
                try:
                    return self._rows.decode_one(found[encoded])
                except Corrupt as error:
                    raise self._damaged(error) from error
        return None

    @_whole
    def get_many(
        self, keys: Sequence[Any], *, at_least: AtLeast | None = None, timeout: float | None = PATIENCE
    ) -> pa.Table:
        """The rows under these keys, in their order, those that exist, all of one epoch."""
        self._wait(at_least, timeout)
        listed = [key_values(self.name, self._key_columns, key) for key in keys]
        shorten = self._store.key_limit.shorten_one
        encoded = [shorten(self._keys.encode_one(values)) for values in listed]
        wanted: dict[int, list[bytes]] = {}
        for values, key in zip(listed, encoded, strict=True):
            for shard in self._shards(values):
                wanted.setdefault(shard, []).append(key)
        found: dict[bytes, bytes] = {}
        for part in self._read_all(sorted(wanted), lambda shard, s: s.get_many(self._def.state, wanted[shard])):
            found.update(part)
        return self._table([found[k] for k in encoded if k in found])

    @_whole
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

        They come as the view's ORDER BY says, and where it says nothing in key order. `prefix`, `start` and
        `stop` are values of the first key columns (a tuple for several). A view without a key gives each row as
        often as it is there, and without ORDER BY in no particular order.
        """
        self._wait(at_least, timeout)
        low, high = self._bounds(prefix, start, stop)
        enough = limit if not self._def.order else None  # the first rows may be anywhere
        entries: list[tuple[bytes, bytes]] = []
        for part in self._read_all(
            range(self._store.shards), lambda _, s: _collect(s, self._def.state, low, high, enough)
        ):
            entries += part
        if self._def.key is None:
            table = self._bag([value for _, value in entries])
        else:
            keys = pa.array([k for k, _ in entries], pa.large_binary())
            table = self._table([v for _, v in entries]).take(pc.sort_indices(keys))
            if any(len(k) >= self._store.key_limit.exact_whole for k, _ in entries):
                table = self._exact(table, prefix, start, stop)
        table = self._ordered(table)
        return table if limit is None else table.slice(0, limit)

    def _ordered(self, table: pa.Table) -> pa.Table:
        """The rows as ORDER BY has them; those that it leaves equal stay as they are."""
        if not self._def.order:
            return table
        columns = [self._def.columns[p] for p, _, _ in self._def.order]
        ways = [Direction(ascending, nulls_first) for _, ascending, nulls_first in self._def.order]
        codec = KeyCodec([types.arrow(c.type) for c in columns], ways)
        return table.take(pc.sort_indices(codec.encode([table.column(c.name) for c in columns], table.num_rows)))

    def _exact(self, table: pa.Table, prefix: Any, start: Any, stop: Any) -> pa.Table:
        """Keys so long that they are stored clipped: order and bounds are decided by the rows themselves."""
        keys = self._keys.encode([table.column(c.name) for c in self._key_columns], table.num_rows)
        low, high = self._encoded_bounds(prefix, start, stop)
        inside = pc.greater_equal(keys, pa.scalar(low, pa.large_binary()))
        if high is not None:
            inside = pc.and_(inside, pc.less(keys, pa.scalar(high, pa.large_binary())))
        return table.take(pc.sort_indices(keys)).filter(inside.take(pc.sort_indices(keys)))

    def _bounds(self, prefix: Any, start: Any, stop: Any) -> tuple[bytes, bytes | None]:
        low, high = self._encoded_bounds(prefix, start, stop)
        kept = self._store.key_limit.exact_whole
        if high is not None and len(high) > kept:
            high = prefix_range(high[:kept])[1]
        return low[:kept], high

    def _encoded_bounds(self, prefix: Any, start: Any, stop: Any) -> tuple[bytes, bytes | None]:
        if prefix is None and start is None and stop is None:
            return b"", None
        if prefix is not None:
            return prefix_range(self._beginning(prefix))
        low = self._beginning(start) if start is not None else b""
        return low, self._beginning(stop) if stop is not None else None

    def _beginning(self, key: Any) -> bytes:
        values = key_values(self.name, self._key_columns, key, prefix=True)
        kinds = [types.arrow(c.type) for c in self._key_columns[: len(values)]]
        return KeyCodec(kinds).encode_one(values)

    def _shards(self, values: list[Any]) -> Sequence[int]:
        if self._placed is None:
            return range(self._store.shards)
        positions, kinds = self._placed
        return (hash_bucket([values[p] for p in positions], kinds, self._store.shards),)

    def _table(self, rows: list[bytes]) -> pa.Table:
        try:
            return pa.Table.from_batches([self._rows.decode(rows)])
        except Corrupt as error:
            raise self._damaged(error) from error

    def _bag(self, values: list[bytes]) -> pa.Table:
        try:
            weights, rows = split(values)
        except Corrupt as error:
            raise self._damaged(error) from error
        count = sum(weights.tolist())
        if count > MOST:
            raise StoreError(message=f"view {self.name!r} has {count:,} rows, too many for one scan; read it by SQL")
        repeated = pa.array(np.repeat(np.arange(len(values)), weights))
        return self._table(rows).take(repeated)

    def _wait(self, at_least: AtLeast | None, timeout: float | None) -> None:
        self._moment.wait(f"view {self.name!r}", at_least, timeout)

    def _damaged(self, error: Corrupt) -> Corrupt:
        return Corrupt(where=f"a row of view {self.name!r}", reason=error.reason)

    def _read_all(self, shards: Sequence[int], read: Callable[[int, ShardSnapshot], T]) -> list[T]:
        """Read several shards at one epoch, again if two epochs went by meanwhile."""
        for attempt in range(ATTEMPTS):
            epoch = self._moment.epoch()
            try:
                with ExitStack() as stack:
                    opened = [(i, stack.enter_context(self._store.shard(i).at(epoch))) for i in shards]
                    if self._find().state != self._def.state:  # what it held may be on its way out
                        raise _Replaced
                    return [read(i, snapshot) for i, snapshot in opened]
            except SnapshotGone:
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")


def _collect(
    snapshot: ShardSnapshot, state: int, low: bytes, high: bytes | None, limit: int | None
) -> list[tuple[bytes, bytes]]:
    entries: list[tuple[bytes, bytes]] = []
    for run in snapshot.scan(state, low, high):
        entries += run
        if limit is not None and len(entries) >= limit:
            break
    return entries
