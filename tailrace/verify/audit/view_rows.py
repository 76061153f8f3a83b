"""Compares a view's stored rows with its SQL, recomputed by Spark, key by key.

    missing     keys of the recomputation that the view does not have
    extra       keys of the view that the recomputation does not have
    different   keys of both, with different values

A selection restricts the comparison to a sample of the keys or a key range. It filters both sides; Spark pushes the
filter on the recomputation down towards the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tailrace import types
from tailrace.catalog.definition import ViewDef
from tailrace.codec.convert import key_values
from tailrace.codec.rows import RowCodec
from tailrace.codec.weighted import split
from tailrace.errors import BadKey, Corrupt
from tailrace.plan.binding import BoundQuery
from tailrace.spark.frames import WEIGHT_COLUMN, frame, query_rows
from tailrace.store.base import Store
from tailrace.store.pins import Pin
from tailrace.verify.audit.findings import EXAMPLES, REPAIR, Finding, Kind
from tailrace.verify.comparison import counted, differences
from tailrace.verify.planned import leaves_ties_open, planned_rows

SAMPLE_BUCKETS = 1_000_000


@dataclass(frozen=True)
class KeySelection:
    """The keys to audit: a fraction of them (`sample`, 0 to 1), those with start <= key < stop, or both."""

    sample: float | None = None
    start: Any = None
    stop: Any = None

    @property
    def selects_all(self) -> bool:
        return self.sample is None and self.start is None and self.stop is None

    def condition(self, view: ViewDef) -> Column:
        """The selection as a condition on columns `c0`, `c1`, ..."""
        condition = F.lit(True)
        if self.sample is not None:
            key = range(len(view.columns)) if view.key is None else view.key
            hashed = [F.col(f"c{p}") for p in key if _hashes_reliably(view.columns[p].type)]
            if hashed:
                bucket = F.pmod(F.xxhash64(*hashed), F.lit(SAMPLE_BUCKETS))
                condition = condition & (bucket < int(self.sample * SAMPLE_BUCKETS))
        for bound, is_stop in ((self.start, False), (self.stop, True)):
            if bound is not None:
                key_struct, limit = self._bound(view, bound)
                condition = condition & ((key_struct < limit) if is_stop else (key_struct >= limit))
        return condition

    @staticmethod
    def _bound(view: ViewDef, bound: Any) -> tuple[Column, Column]:
        """The key columns that a bound covers, and the bound, as structs that can be compared."""
        if view.key is None:
            reason = "the view has no key, so it has no key ranges; omit start and stop"
            raise BadKey(name=view.name, columns="none", reason=reason)
        columns = [view.columns[p] for p in view.key]
        values = key_values(view.name, columns, bound, prefix=True)
        typed = [F.lit(v).cast(c.type) for v, c in zip(values, columns, strict=False)]
        key = F.struct(*(F.col(f"c{p}").alias(f"k{p}") for p in view.key[: len(values)]))
        return key, F.struct(*(t.alias(f"k{p}") for t, p in zip(typed, view.key, strict=False)))


def _hashes_reliably(kind: str) -> bool:
    """Whether equal values have equal hashes. Floats count as equal within a tolerance; maps cannot be hashed."""
    return not any(word in kind for word in ("float", "double", "map<"))


@dataclass(frozen=True)
class RowComparison:
    rows: int
    findings: tuple[Finding, ...]


def audit_rows(
    fresh: SparkSession, store: Store, view: ViewDef, query: BoundQuery, pin: Pin, selection: KeySelection
) -> RowComparison:
    """Compares a view, as stored at the pinned epoch, with its SQL over the tables at that epoch's cut.

    SQL may leave open which of several tied rows it returns. Then differences are confirmed with the view's plan,
    which breaks ties as the view does.
    """
    by_sql = _compare(query_rows(fresh, store, query, pin.cut, pin.time), fresh, store, view, pin, selection)
    if not by_sql.findings or view.root is None or not leaves_ties_open(view.root):
        return by_sql
    planned = planned_rows(fresh, store, view.root, query, pin)
    return _compare(planned, fresh, store, view, pin, selection)


def _compare(
    computed: DataFrame, fresh: SparkSession, store: Store, view: ViewDef, pin: Pin, selection: KeySelection
) -> RowComparison:
    names = [f"c{i}" for i in range(len(view.columns))]
    condition = selection.condition(view)
    stored = readable_rows(fresh, store, view, pin.epoch).toDF(*names, WEIGHT_COLUMN).where(condition)
    differing = differences(computed.toDF(*names).where(condition), stored, view)
    rows = stored.agg(F.coalesce(F.sum(WEIGHT_COLUMN), F.lit(0))).collect()[0][0]
    if view.key is None:
        missing, extra, examples = counted(differing, view)
        counts: dict[Kind, int] = {"missing": missing, "extra": extra}
    else:
        counts, examples = _by_key(differing, view)
    findings = [
        Finding(f"rows of {view.name}", kind, count, REPAIR, tuple(examples.get(kind, ())), (view.name,))
        for kind, count in counts.items()
        if count
    ]
    return RowComparison(rows, (*findings, *_unreadable(fresh, store, view, pin.epoch)) if findings else ())


def _unreadable(fresh: SparkSession, store: Store, view: ViewDef, epoch: int) -> list[Finding]:
    """Entries of the view that cannot be decoded. Their rows are also among the missing ones."""
    state, columns, keyed, ref = view.state, view.columns, view.key is not None, store.ref

    def read(shard: int) -> Iterator[pa.RecordBatch]:
        codec = RowCodec(types.schema(columns))
        with ref.attach().shard(shard).at(epoch) as snapshot:
            for run in snapshot.scan(state):
                unreadable = [k for k, v in run if not any(_decode_readable(codec, [v], keyed))]
                examples = [f"shard {shard}, key 0x{k.hex()}" for k in unreadable]
                yield pa.record_batch({"example": pa.array(examples, pa.string())})

    entries = frame(fresh, store.shards, read, "example string")
    examples = [row.example for row in entries.limit(EXAMPLES).collect()]
    if not examples:
        return []
    return [Finding(f"rows of {view.name}", "damaged", entries.count(), REPAIR, tuple(examples), (view.name,))]


def _by_key(differing: DataFrame, view: ViewDef) -> tuple[dict[Kind, int], dict[str, list[Any]]]:
    """Counts and examples by kind: missing and extra rows with the same key are one different row."""
    names = [f"c{i}" for i in range(len(view.columns))]
    whole, weight = f"struct({', '.join(names)})", WEIGHT_COLUMN
    keyed = differing.groupBy(*(f"c{p}" for p in view.key or ())).agg(
        F.expr(f"any_value(CASE WHEN {weight} > 0 THEN {whole} END, true) AS _right"),
        F.expr(f"any_value(CASE WHEN {weight} < 0 THEN {whole} END, true) AS _stored"),
    )
    conditions: dict[Kind, str] = {
        "missing": "_right IS NOT NULL AND _stored IS NULL",
        "extra": "_right IS NULL AND _stored IS NOT NULL",
        "different": "_right IS NOT NULL AND _stored IS NOT NULL",
    }
    totals = keyed.agg(*(F.expr(f"count_if({c})").alias(kind) for kind, c in conditions.items())).collect()[0]
    counts: dict[Kind, int] = {kind: totals[kind] for kind in conditions}
    examples: dict[str, list[Any]] = {}
    for kind, condition in conditions.items():
        if counts[kind]:
            pairs = keyed.where(condition).select("_right", "_stored").limit(EXAMPLES).collect()
            examples[kind] = [_example(view, right, stored) for right, stored in pairs]
    return counts, examples


def _example(view: ViewDef, right: Sequence[Any] | None, stored: Sequence[Any] | None) -> dict[str, Any]:
    names = [c.name for c in view.columns]
    sides = [dict(zip(names, side, strict=True)) for side in (right, stored) if side is not None]
    return sides[0] if len(sides) == 1 else {"right": sides[0], "stored": sides[1]}


def readable_rows(spark: SparkSession, store: Store, view: ViewDef, epoch: int) -> DataFrame:
    """The view's stored rows at an epoch, each with its weight. Skips entries that cannot be decoded."""
    state, columns, keyed, ref = view.state, view.columns, view.key is not None, store.ref

    def read(shard: int) -> Iterator[pa.RecordBatch]:
        codec = RowCodec(types.schema(columns))
        with ref.attach().shard(shard).at(epoch) as snapshot:
            for run in snapshot.scan(state):
                yield from _decode_readable(codec, [v for _, v in run], keyed)

    schema = ", ".join([f"{types.quoted(c.name)} {c.type}" for c in columns] + [f"{WEIGHT_COLUMN} bigint"])
    return frame(spark, store.shards, read, schema)


def _decode_readable(codec: RowCodec, values: list[bytes], keyed: bool) -> Iterator[pa.RecordBatch]:
    """Decodes values in one batch; if that fails, each half by itself, down to the values that cannot be decoded."""
    try:
        weights, rows = (np.ones(len(values), dtype=np.int64), values) if keyed else split(values)
        batch = codec.decode(rows)
        batch.validate(full=True)
        yield batch.append_column(WEIGHT_COLUMN, pa.array(weights, pa.int64()))
    except (Corrupt, pa.ArrowException, ValueError):
        if len(values) > 1:
            half = len(values) // 2
            yield from _decode_readable(codec, values[:half], keyed)
            yield from _decode_readable(codec, values[half:], keyed)
