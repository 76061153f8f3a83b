"""Affected groups: recomputes the touched groups of generic aggregates and the touched partitions of windows.

    Δ = -answer_old(g) + operator(rows_new(g))        for every group g in the delta

The input is arranged by group. `Affected` sends all rows of the touched groups to Spark, which runs the operator on
them. `Outputs` stores each group's answer, because recomputing it may give other bits (sums of doubles depend on the
order). An answer is stored before any operator uses it. The first stored answer of an epoch is final: a task that
computes another one for the same epoch uses the stored one. The cost is the size of the touched groups.
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

LIVE = "_live"  # false on the one row sent for a touched group that has no rows left


@dataclass(frozen=True)
class Affected:
    """Emits all rows of the touched groups, as of the end of the epoch."""

    input: Arranged

    @cached_property
    def output(self) -> pa.Schema:
        return self.input.schema.append(pa.field(LIVE, pa.bool_())).append(pa.field(WEIGHT, pa.int64()))

    def step(self, deltas: Sequence[pa.Table], before: Before) -> tuple[pa.Table | None, list[Write]]:
        (delta,) = deltas
        net = self.input.encode_net(delta)
        write = self.input.make_write(net, self.input.entry_keys(net), before)
        # From the whole delta, not `net`: a new view's empty group comes as a row that cancels out.
        groups = self.input.encode_groups(delta)
        touched = dict(zip(groups.to_pylist(), range(len(groups)), strict=True))
        old = self.input.fetch(list(touched), before)
        rows = pa.concat_arrays([old.rows, net.rows])
        picked, totals = net_rows(rows, np.concatenate((old.weights, net.weights)))
        new_rows = pa.concat_tables([old.table, net.table]).take(pa.array(picked))
        live_groups = set(pa.concat_arrays([old.groups, net.groups]).take(pa.array(picked)).to_pylist())
        empty = pa.array([at for g, at in touched.items() if g not in live_groups], pa.int64())
        empty_groups = self._blank_other_columns(delta.take(empty))
        parts = [self._mark(new_rows, True, totals), self._mark(empty_groups, False, None)]
        return pa.concat_tables(parts), [write]

    def _blank_other_columns(self, rows: pa.Table) -> pa.Table:
        """Sets all columns but the group columns to NULL."""
        columns = [
            rows.column(column(i)) if i in self.input.by else pa.chunked_array([pa.nulls(rows.num_rows, f.type)])
            for i, f in enumerate(self.input.schema)
        ]
        return pa.Table.from_arrays(columns, schema=self.input.schema)

    def _mark(self, rows: pa.Table, live: bool, weights: np.ndarray | None) -> pa.Table:
        if weights is None:
            weights = np.ones(rows.num_rows, dtype=np.int64)
        marks = pa.repeat(pa.scalar(live), rows.num_rows)
        return pa.Table.from_arrays([*rows.columns, marks, pa.array(weights)], schema=self.output)


@dataclass(frozen=True)
class Outputs:
    """Stores each group's answer (its output rows); emits the difference between the old and the new answer.

    `always`: the single group of an aggregate without GROUP BY has an answer even if it has no input rows.
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
        applied = before.applied_keys(self.kept.state, touched)
        new = self._computed_answers(delta, applied).concat(self.kept.fetch(applied, before.after()))
        change = self.kept.difference(new, old)
        write = self.kept.make_write(change, self.kept.entry_keys(change), before)
        return change.table.append_column(WEIGHT, pa.array(change.weights)), [write]

    def _computed_answers(self, delta: pa.Table, applied: list[bytes]) -> EncodedRows:
        """The answers in `delta`, without those of groups whose answer for this epoch is already applied."""
        live = delta if self.always else delta.filter(delta.column(LIVE))
        if applied:
            known = pc.is_in(self.kept.encode_groups(live), pa.array(applied, pa.large_binary()))
            live = live.filter(pc.invert(known))
        return self.kept.encode_net(live.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), live.num_rows)))
