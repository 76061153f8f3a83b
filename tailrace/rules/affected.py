"""Any operator that works group by group, by affected groups: aggregates, windows over partitions.

    Δ = -answer_old(g) + operator(rows_new(g))        for every group g in the delta

The input is arranged by group. A touched group's rows after the epoch go to Spark, which does with them
what it always does; the rows each group gave last are stored, because computing them again need not
give the same bits (sums of doubles depend on the order). They are stored before anything is made of them, and
stand from then on, whoever else computes them for the epoch. The cost is the size of the touched groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.delta import WEIGHT, column
from tailrace.rules.arranged import Arranged, EncodedRows
from tailrace.rules.before import Before
from tailrace.rules.sink import net_rows
from tailrace.store.base import Write

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
        net = self.input.encode_net(delta)
        write = self.input.make_write(net, self.input.entry_keys(net), before)
        groups = self.input.encode_groups(delta)  # also of rows that cancel out: a new view's empty group is one
        touched = dict(zip(groups.to_pylist(), range(len(groups)), strict=True))
        old = self.input.fetch(list(touched), before)
        rows = pa.concat_arrays([old.rows, net.rows])
        picked, totals = net_rows(rows, np.concatenate((old.weights, net.weights)))
        both = pa.concat_tables([old.table, net.table]).take(pa.array(picked))
        alive = set(pa.concat_arrays([old.groups, net.groups]).take(pa.array(picked)).to_pylist())
        gone = pa.array([at for g, at in touched.items() if g not in alive], pa.int64())
        left = self._only_group(delta.take(gone))
        parts = [self._marked(both, True, totals), self._marked(left, False, None)]
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
    """Remembers the rows that each group last gave; gives the difference to those that it gives now.

    `always`: the one group of an aggregate without GROUP BY gives its row even when it has none to aggregate.
    """

    kept: Arranged
    always: bool = False

    @cached_property
    def output(self) -> pa.Schema:
        return self.kept.schema.append(pa.field(WEIGHT, pa.int64()))

    def step(self, deltas: Sequence[pa.Table], before: Before) -> tuple[pa.Table | None, list[Write]]:
        (delta,) = deltas
        touched = self.kept.encode_groups(delta).unique().to_pylist()
        old = self.kept.fetch(touched, before)
        settled = before.applied_keys(self.kept.state, touched)
        new = self._given(delta, settled).concat(self.kept.fetch(settled, before.after()))
        change = self.kept.difference(new, old)
        write = self.kept.make_write(change, self.kept.entry_keys(change), before)
        return change.table.append_column(WEIGHT, pa.array(change.weights)), [write]

    def _given(self, delta: pa.Table, settled: list[bytes]) -> EncodedRows:
        """The rows that came, but for groups whose rows are settled."""
        live = delta if self.always else delta.filter(delta.column(LIVE))
        if settled:
            known = pc.is_in(self.kept.encode_groups(live), pa.array(settled, pa.large_binary()))
            live = live.filter(pc.invert(known))
        return self.kept.encode_net(live.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), live.num_rows)))
