"""Compares internal states with the same states built from the tables in a scratch store, key by key.

Arrangements and accumulators are compared byte by byte: the same tables always give the same bytes. Answers of Spark
(aggregates and windows by affected groups) may differ in the last bits of a DOUBLE, and so may states built from them.
So where answers differ within the tolerance only, `adopt_answers` copies the stored answers into a second scratch
store. The states that depend on them are built from those copies and compared again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql import Row, SparkSession

from tailrace import types
from tailrace.codec.rows import RowCodec
from tailrace.codec.weighted import WIDTH, row_of
from tailrace.errors import Corrupt
from tailrace.spark.frames import frame
from tailrace.store.base import ShardSnapshot, Store, Write
from tailrace.store.inspection import UNREADABLE
from tailrace.store.store_ref import StoreRef
from tailrace.types import Column
from tailrace.verify.audit.findings import EXAMPLES, REPAIR, Finding, Kind
from tailrace.verify.audit.state_names import State
from tailrace.verify.equality import TOLERANCE, alike

_KINDS: tuple[Kind, ...] = ("missing", "extra", "different")
_RESULT = "state bigint, kind string, count bigint, examples string"
_RESULT_SCHEMA = pa.schema(
    [("state", pa.int64()), ("kind", pa.string()), ("count", pa.int64()), ("examples", pa.string())]
)
Difference = tuple[bytes, bytes | None, bytes | None]  # key, stored value, right value; None: absent


@dataclass(frozen=True)
class StatesAt:
    """The states of a store at one epoch."""

    store: StoreRef
    epoch: int


@dataclass(frozen=True)
class StateComparison:
    """The number of entries compared, and the findings by state number."""

    entries: int
    findings: dict[int, list[Finding]]


def audit_states(
    spark: SparkSession, store: Store, live: StatesAt, right: StatesAt, states: Sequence[State]
) -> StateComparison:
    """Compares states of the `live` store with those of a scratch store, which holds the `right` ones."""
    numbers = [s.number for s in states]

    def read(shard: int) -> Iterator[pa.RecordBatch]:
        with (
            live.store.attach().shard(shard).at(live.epoch) as a,
            right.store.attach().shard(shard).at(right.epoch) as b,
        ):
            for number in numbers:
                yield pa.RecordBatch.from_pylist(_compare_state(number, shard, a, b), schema=_RESULT_SCHEMA)

    results = frame(spark, store.shards, read, _RESULT).collect() if states else []
    by_number = {s.number: s for s in states}
    findings: dict[int, list[Finding]] = {}
    for number, kind, count, examples in _sum_over_shards(results):
        state = by_number[number]
        findings.setdefault(number, []).append(Finding(state.name, kind, count, REPAIR, examples, state.views))
    return StateComparison(sum(row["count"] for row in results if row["kind"] == "entries"), findings)


def _compare_state(state: int, shard: int, live: ShardSnapshot, right: ShardSnapshot) -> list[dict[str, object]]:
    """One result row per kind of difference, and one of kind "entries" with the number of entries compared."""
    counts = dict.fromkeys(_KINDS, 0)
    examples: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    entries = [0]
    try:
        for key, stored, expected in _differences(state, live, right, entries):
            kind: Kind = "missing" if stored is None else "extra" if expected is None else "different"
            counts[kind] += 1
            if len(examples[kind]) < EXAMPLES:
                examples[kind].append(f"shard {shard}, key 0x{key.hex()}")
    except UNREADABLE as error:
        example = f"shard {shard} cannot be read: {error}"
        return [{"state": state, "kind": "damaged", "count": 1, "examples": json.dumps([example])}]
    results: list[tuple[str, int, list[str]]] = [("entries", entries[0], [])]
    results += [(kind, counts[kind], examples[kind]) for kind in _KINDS if counts[kind]]
    return [{"state": state, "kind": k, "count": n, "examples": json.dumps(some)} for k, n, some in results]


def _sum_over_shards(results: Sequence[Row]) -> Iterator[tuple[int, Kind, int, tuple[str, ...]]]:
    totals: dict[tuple[int, Kind], tuple[int, tuple[str, ...]]] = {}
    for row in results:
        if row["kind"] != "entries":
            count, examples = totals.get((row["state"], row["kind"]), (0, ()))
            examples = (*examples, *json.loads(row["examples"]))[:EXAMPLES]
            totals[row["state"], row["kind"]] = count + row["count"], examples
    for (state, kind), (count, examples) in sorted(totals.items()):
        yield state, kind, count, examples


def _differences(state: int, live: ShardSnapshot, right: ShardSnapshot, entries: list[int]) -> Iterator[Difference]:
    """Merges two sorted scans; yields the keys whose values differ. Adds the number of live entries to `entries[0]`."""
    live_entries = chain.from_iterable(live.scan(state))
    right_entries = chain.from_iterable(right.scan(state))
    stored, expected = next(live_entries, None), next(right_entries, None)
    while stored is not None or expected is not None:
        if stored is not None and (expected is None or stored[0] < expected[0]):
            yield stored[0], stored[1], None
            entries[0] += 1
            stored = next(live_entries, None)
        elif expected is not None and (stored is None or expected[0] < stored[0]):
            yield expected[0], None, expected[1]
            expected = next(right_entries, None)
        elif stored is not None and expected is not None:
            if stored[1] != expected[1]:
                yield stored[0], stored[1], expected[1]
            entries[0] += 1
            stored, expected = next(live_entries, None), next(right_entries, None)


# answers


def has_inexact_answers(state: State) -> bool:
    """Whether a state holds Spark answers with floats: computed again, they may differ in their last bits."""
    return state.answers is not None and any(_holds_floats(c.type) for c in state.answers)


def _holds_floats(kind: str) -> bool:
    return "double" in kind or "float" in kind


def adopt_answers(
    spark: SparkSession, store: Store, live: StatesAt, right: StatesAt, answers: Sequence[State], to: StatesAt
) -> None:
    """Fills the answer states of scratch store `to`: stored answers within the tolerance, else the right ones.

    All shards get a mark for the epoch. So a build in `to` skips these states and builds the others from them.
    """
    columns_by_state = [(s.number, s.answers or ()) for s in answers]

    def write(shard: int) -> Iterator[pa.RecordBatch]:
        with (
            live.store.attach().shard(shard).at(live.epoch) as a,
            right.store.attach().shard(shard).at(right.epoch) as b,
        ):
            writes = [_merge_answers(number, columns, a, b) for number, columns in columns_by_state]
        to.store.attach().shard(shard).apply(to.epoch, writes, to.epoch)
        yield pa.RecordBatch.from_pylist([{"shard": shard}], schema=pa.schema([("shard", pa.int32())]))

    frame(spark, store.shards, write, "shard int").collect()


def _merge_answers(state: int, columns: tuple[Column, ...], live: ShardSnapshot, right: ShardSnapshot) -> Write:
    """The right entries of a state, each replaced by a stored answer that equals it within the tolerance."""
    entries = dict(chain.from_iterable(right.scan(state)))
    unmatched = _UnmatchedAnswers(columns)
    differences = list(_differences(state, live, right, [0]))
    for key, _, expected in differences:
        if expected is not None:
            unmatched.add(key, expected)
    for key, stored, _ in differences:
        matched_key = None if stored is None else unmatched.match(stored)
        if matched_key is not None and stored is not None:
            entries.pop(matched_key, None)
            entries[key] = stored
    return Write.of(state, list(entries), list(entries.values()), None)


class _UnmatchedAnswers:
    """Right answers not yet matched with a stored one, grouped by the columns that must be exactly equal."""

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self._codec = RowCodec(types.schema([Column(f"_{i}", c.type) for i, c in enumerate(columns)]))
        self._floats = [_holds_floats(c.type) for c in columns]
        self._by_exact: dict[str, list[tuple[bytes, list[Any]]]] = {}

    def _split(self, value: bytes) -> tuple[str, list[Any]]:
        """An answer's weight and exact columns, as text, and its columns with floats."""
        row = self._codec.decode_one(row_of(value)).values()
        exact = [v for v, floats in zip(row, self._floats, strict=True) if not floats]
        return repr((value[:WIDTH], exact)), [v for v, floats in zip(row, self._floats, strict=True) if floats]

    def add(self, key: bytes, value: bytes) -> None:
        exact, floats = self._split(value)
        self._by_exact.setdefault(exact, []).append((key, floats))

    def match(self, value: bytes) -> bytes | None:
        """Removes a right answer that equals a stored one within the tolerance, and returns its key."""
        try:
            exact, floats = self._split(value)
        except (Corrupt, ValueError):  # a damaged answer matches nothing
            return None
        candidates = self._by_exact.get(exact, [])
        for index, (key, right_floats) in enumerate(candidates):
            if alike(floats, right_floats, TOLERANCE):
                del candidates[index]
                return key
        return None
