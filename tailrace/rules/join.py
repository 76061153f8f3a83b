"""Joins of all kinds, with both sides arranged by the join columns.

    Δ(A ⋈ B)  =  ΔA ⋈ B_old  +  A_old ⋈ ΔB  +  ΔA ⋈ ΔB                              (old: before the epoch)

    Unmatched rows of A with join key k, by whether B had rows with key k before the epoch → and has them after:
        no  → no     +ΔA_k          no  → yes    -A_old_k
        yes → no     +A_new_k       yes → yes    nothing
    LEFT and FULL pad them with NULLs, ANTI emits them as they are, SEMI emits A minus them.

The cost is the delta and its matches. All rows of A with a key are read only when B gains its first or loses its last
row with that key: then each of them changes in the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa

from tailrace.delta import WEIGHT, column, group_ids, matches
from tailrace.plan.nodes import JoinKind
from tailrace.rules.arranged import Arranged, EncodedRows
from tailrace.rules.before import Before
from tailrace.rules.sink import REPORT, positional_schema
from tailrace.store.base import Write
from tailrace.types import Column


@dataclass(frozen=True)
class JoinRule:
    kind: JoinKind
    left: Arranged
    right: Arranged
    null_safe: tuple[bool, ...]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return self.left.columns if self.kind in ("semi", "anti") else self.left.columns + self.right.columns

    @cached_property
    def output(self) -> pa.Schema:
        return positional_schema(self.columns).append(pa.field(WEIGHT, pa.int64()))

    def step(self, deltas: Sequence[pa.Table], before: Before) -> tuple[pa.Table | None, list[Write]]:
        left, null_left = self._split_nulls(self.left, deltas[0])
        right, null_right = self._split_nulls(self.right, deltas[1])
        a, b = self.left.encode_net(left), self.right.encode_net(right)
        a_keys, b_keys = self.left.entry_keys(a), self.right.entry_keys(b)
        writes = [self.left.make_write(a, a_keys, before), self.right.make_write(b, b_keys, before)]
        outs: list[pa.Table] = []
        if self.kind in ("inner", "left", "right", "full"):
            a_old = self.left.fetch(b.groups.unique().to_pylist(), before)
            b_old = self.right.fetch(a.groups.unique().to_pylist(), before)
            outs += [self.pairs(a, b_old), self.pairs(a_old, b), self.pairs(a, b)]
        if self.kind in ("left", "full", "semi", "anti"):
            unmatched = _Unmatched(self.left, self.right, a, b, b_keys, writes[1], before)
            outs += [self._as_left(t, w) for t, w in unmatched.parts(semi=self.kind == "semi")]
            if self.kind != "semi":
                outs.append(self._as_left(null_left.select(self.left.schema.names), null_left.column(WEIGHT)))
        if self.kind in ("right", "full"):
            unmatched = _Unmatched(self.right, self.left, b, a, a_keys, writes[0], before)
            outs += [self._as_right(t, w) for t, w in unmatched.parts(semi=False)]
            outs.append(self._as_right(null_right.select(self.right.schema.names), null_right.column(WEIGHT)))
        return pa.concat_tables([o for o in outs if o.num_rows] or [self.output.empty_table()]), writes

    def _split_nulls(self, arranged: Arranged, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Splits a side's rows: those that can match, and those that cannot because of a NULL in the join key."""
        null = np.zeros(rows.num_rows, dtype=bool)
        for position, safe in zip(arranged.by, self.null_safe, strict=True):
            if not safe:
                null |= rows.column(column(position)).is_null().to_numpy()
        return (rows, rows.slice(0, 0)) if not null.any() else (rows.filter(~null), rows.filter(null))

    def pairs(self, a: EncodedRows, b: EncodedRows) -> pa.Table:
        """a ⋈ b."""
        ids, groups = group_ids(pa.concat_arrays([a.groups, b.groups]))
        left, right = matches(ids[: len(a.groups)], ids[len(a.groups) :], len(groups))
        columns = a.table.take(pa.array(left)).columns + b.table.take(pa.array(right)).columns
        weights = pa.array(a.weights[left] * b.weights[right])
        return pa.Table.from_arrays([*columns, weights], schema=self.output)

    def _as_left(self, rows: pa.Table, weights: pa.Array) -> pa.Table:
        padding = [] if self.kind in ("semi", "anti") else self._nulls(self.right, rows.num_rows)
        return pa.Table.from_arrays([*rows.columns, *padding, weights], schema=self.output)

    def _as_right(self, rows: pa.Table, weights: pa.Array) -> pa.Table:
        padding = self._nulls(self.left, rows.num_rows)
        return pa.Table.from_arrays([*padding, *rows.columns, weights], schema=self.output)

    @staticmethod
    def _nulls(side: Arranged, length: int) -> list[pa.Array]:
        return [pa.nulls(length, field.type) for field in side.schema]


@dataclass(frozen=True)
class Lookup:
    """An inner join whose one side (`still`) did not change in the epoch.

        ΔB = 0   ⇒   Δ(A ⋈ B)  =  ΔA ⋈ B_old

    The lookup reads B as of before the epoch, which any task can do. So the rows of A are not shuffled to the shards of
    their join key, nor the result to the view's shards: the task reads B's shards itself.
    """

    join: JoinRule
    still: Literal["left", "right"]

    @property
    def output(self) -> pa.Schema:
        return self.join.output

    def step(self, deltas: Sequence[pa.Table], before: Before) -> tuple[pa.Table | None, list[Write]]:
        (delta,) = deltas
        sides = [self.join.left, self.join.right]
        moving, still = reversed(sides) if self.still == "left" else sides
        changed = moving.encode_net(delta)
        old = still.fetch(changed.groups.unique().to_pylist(), before)
        pair = (old, changed) if self.still == "left" else (changed, old)
        return self.join.pairs(*pair), []


@dataclass(frozen=True)
class Arrange:
    """Maintains an arrangement; emits nothing."""

    arranged: Arranged
    output: pa.Schema = REPORT

    def step(self, deltas: Sequence[pa.Table], before: Before) -> tuple[pa.Table | None, list[Write]]:
        net = self.arranged.encode_net(deltas[0])
        return None, [self.arranged.make_write(net, self.arranged.entry_keys(net), before)]


class _Unmatched:
    """The delta of A's rows that have no match in B (or, for a semi join, that have one)."""

    def __init__(
        self,
        a_side: Arranged,
        b_side: Arranged,
        a: EncodedRows,
        b: EncodedRows,
        b_keys: pa.LargeBinaryArray,
        b_write: Write,
        before: Before,
    ) -> None:
        self._a_side, self._a, self._before = a_side, a, before
        group_of = dict(zip(b_keys.to_pylist(), b.groups.to_pylist(), strict=True))
        gone: dict[bytes, set[bytes]] = {group: set() for group in group_of.values()}
        written: set[bytes] = set()
        for key, is_kept in zip(b_write.keys.to_pylist(), b_write.values.is_valid().to_pylist(), strict=True):
            if is_kept:
                written.add(group_of[key])
            else:
                gone[group_of[key]].add(key)
        groups = set(a.groups.to_pylist()) | gone.keys()
        self._had = {g for g in groups if b_side.has_survivor(g, set(), before)}
        self._has = written | {g for g in self._had if b_side.has_survivor(g, gone.get(g, set()), before)}

    def parts(self, semi: bool) -> list[tuple[pa.Table, pa.Array]]:
        """Rows of A and their weights. `semi`: of the matched rows instead of the unmatched ones."""
        had, has = self._had, self._has
        appeared, vanished = has - had, had - has
        if semi:
            appeared, vanished = vanished, appeared
        # +ΔA_k if the group belongs to the result after the epoch; -A_old_k or +A_old_k if that changed.
        in_result = np.array([(g in has) == semi for g in self._a.groups.to_pylist()], dtype=bool)
        parts = [(self._a.table.filter(pa.array(in_result)), pa.array(self._a.weights[in_result]))]
        for groups, sign in ((appeared, -1), (vanished, 1)):
            old = self._a_side.fetch(sorted(groups), self._before)
            parts.append((old.table, pa.array(old.weights * sign)))
        return parts
