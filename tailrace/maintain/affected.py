"""Any aggregate at all, by affected groups.

    Δ = -answer_old(g) + aggregate(rows_new(g))        for every group g in the delta

The input is arranged by group. A touched group's rows after the epoch go to Spark, which aggregates
them as it always does; the answer each group gave last is stored, because computing it again need not
give the same bits (sums of doubles depend on the order). Once stored it stands, should the epoch be done
again. The cost is the size of the touched groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from tailrace import types
from tailrace.delta import WEIGHT, column
from tailrace.maintain.arranged import Arranged
from tailrace.maintain.before import Before, located
from tailrace.maintain.sinks import net_rows, positional
from tailrace.store.base import Write
from tailrace.store.clip import clip
from tailrace.store.keys import KeyCodec
from tailrace.store.rows import RowCodec
from tailrace.types import Column

LIVE = "_live"  # false on the one row that stands for a group which has no rows any more


@dataclass(frozen=True)
class Affected:
    """Gives all rows of touched groups as they are after the epoch."""

    input: Arranged

    @cached_property
    def output(self) -> pa.Schema:
        return self.input.schema.append(pa.field(LIVE, pa.bool_())).append(pa.field(WEIGHT, pa.int64()))

    def step(self, deltas: Sequence[pa.Table], before: Before) -> tuple[pa.Table | None, list[Write]]:
        (delta,) = deltas
        net = self.input.net(delta)
        write = self.input.writes(net, self.input.entry_keys(net), before)
        groups = self.input.groups(delta)  # also of rows that cancel out: a new view's empty group is one
        touched = dict(zip(groups.to_pylist(), range(len(groups)), strict=True))
        old = self.input.fetch(list(touched), before)
        rows = pa.concat_arrays([old.rows, net.rows])
        weights = pa.chunked_array([pa.array(old.weights), pa.array(net.weights)])
        picked, totals = net_rows(rows, weights)
        both = pa.concat_tables([old.table, net.table]).take(pa.array(picked))
        alive = set(pa.concat_arrays([old.groups, net.groups]).take(pa.array(picked)).to_pylist())
        gone = delta.take(pa.array([at for g, at in touched.items() if g not in alive], pa.int64()))
        parts = [self._marked(both, True, totals), self._marked(self._only_group(gone), False, None)]
        return pa.concat_tables(parts), [write]

    def _only_group(self, rows: pa.Table) -> pa.Table:
        columns = [
            rows.column(column(i)) if i in self.input.by else pa.chunked_array([pa.nulls(rows.num_rows, f.type)])
            for i, f in enumerate(self.input.schema)
        ]
        return pa.Table.from_arrays(columns, schema=self.input.schema)

    def _marked(self, rows: pa.Table, live: bool, weights: np.ndarray | None) -> pa.Table:
        if weights is None:
            weights = np.ones(rows.num_rows, dtype=np.int64)
        marks = pa.repeat(pa.scalar(live), rows.num_rows)
        return pa.Table.from_arrays([*rows.columns, marks, pa.array(weights)], schema=self.output)


@dataclass(frozen=True)
class Outputs:
    """Remembers each group's last answer; gives the difference to the new one."""

    state: int
    columns: tuple[Column, ...]
    groups: int

    @cached_property
    def _schema(self) -> pa.Schema:
        return positional(self.columns)

    @cached_property
    def output(self) -> pa.Schema:
        return self._schema.append(pa.field(WEIGHT, pa.int64()))

    def step(self, deltas: Sequence[pa.Table], before: Before) -> tuple[pa.Table | None, list[Write]]:
        (delta,) = deltas
        codec = RowCodec(self._schema)
        group_types = [types.arrow(c.type) for c in self.columns[: self.groups]]
        groups = KeyCodec(group_types).encode([delta.column(column(i)) for i in range(self.groups)], delta.num_rows)
        listed = located(delta, clip(groups)).to_pylist()
        found = before.get_many(self.state, listed)
        rows = codec.encode(delta.select(self._schema.names)).to_pylist()
        live = delta.column(LIVE).to_pylist()
        news = [row if alive or not self.groups else None for row, alive in zip(rows, live, strict=True)]
        settled = before.settled(self.state, listed)
        news = [settled.get(k, new) for k, new in zip(listed, news, strict=True)]
        olds = [found.get(k) for k in listed]
        changed = [i for i, (new, old) in enumerate(zip(news, olds, strict=True)) if new != old]
        away = [old for i in changed if (old := olds[i]) is not None]
        come = [new for i in changed if (new := news[i]) is not None]
        table = pa.Table.from_batches([codec.decode(away + come)])
        weights = pa.array([-1] * len(away) + [1] * len(come), pa.int64())
        write = Write.of(
            self.state, [listed[i] for i in changed], [news[i] for i in changed], [olds[i] for i in changed]
        )
        return table.append_column(WEIGHT, weights), [write]
