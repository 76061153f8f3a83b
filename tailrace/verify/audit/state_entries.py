"""Internal states against the same states built anew in a scratch store: key by key, byte by byte.

Arrangements and accumulators are exact: whatever way led there, the same tables give the same bytes. Answers of Spark
(aggregates and windows by affected groups) need not come out the same in the last bits of a DOUBLE, and what is made
of them neither. So where answers differ within the tolerance only, those that stand are taken over, and what rests on
them is built from those.
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
from tailrace.store.reference import StoreRef
from tailrace.types import Column
from tailrace.verify.audit.findings import EXAMPLES, REPAIR, Finding, Kind
from tailrace.verify.audit.state_names import State
from tailrace.verify.equality import TOLERANCE, alike

_KINDS: tuple[Kind, ...] = ("missing", "extra", "different")
_FOUND = "state bigint, kind string, count bigint, examples string"
Entry = tuple[bytes, bytes | None, bytes | None]


@dataclass(frozen=True)
class StatesAt:
    """The states of a store at one epoch."""

    store: StoreRef
    epoch: int


@dataclass(frozen=True)
class StateComparison:
    """What a comparison found in each state, and how many entries were compared."""

    entries: int
    findings: dict[int, list[Finding]]


def audit_states(
    spark: SparkSession, store: Store, live: StatesAt, right: StatesAt, states: Sequence[State]
) -> StateComparison:
    """Compare what a store has of some states with what a scratch store has."""
    numbers = [s.number for s in states]

    def read(shard: int) -> Iterator[pa.RecordBatch]:
        with live.store.open().shard(shard).at(live.epoch) as a, right.store.open().shard(shard).at(right.epoch) as b:
            for number in numbers:
                yield pa.RecordBatch.from_pylist(_compared(number, shard, a, b), schema=_SCHEMA)

    found = frame(spark, store.shards, read, _FOUND).collect() if states else []
    by_number = {s.number: s for s in states}
    findings: dict[int, list[Finding]] = {}
    for number, kind, count, examples in _summed(found):
        state = by_number[number]
        findings.setdefault(number, []).append(Finding(state.name, kind, count, REPAIR, examples, state.views))
    return StateComparison(sum(row["count"] for row in found if row["kind"] == "entries"), findings)


_SCHEMA = pa.schema([("state", pa.int64()), ("kind", pa.string()), ("count", pa.int64()), ("examples", pa.string())])


def _compared(state: int, shard: int, live: ShardSnapshot, right: ShardSnapshot) -> list[dict[str, object]]:
    counts = dict.fromkeys(_KINDS, 0)
    examples: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    entries = [0]
    try:
        for key, found, wanted in _differing(state, live, right, entries):
            kind: Kind = "missing" if found is None else "extra" if wanted is None else "different"
            counts[kind] += 1
            if len(examples[kind]) < EXAMPLES:
                examples[kind].append(f"shard {shard}, key 0x{key.hex()}")
    except UNREADABLE as error:
        said = f"shard {shard} cannot be read: {error}"
        return [{"state": state, "kind": "damaged", "count": 1, "examples": json.dumps([said])}]
    told: list[tuple[str, int, list[str]]] = [("entries", entries[0], [])]
    told += [(kind, counts[kind], examples[kind]) for kind in _KINDS if counts[kind]]
    return [{"state": state, "kind": k, "count": n, "examples": json.dumps(shown)} for k, n, shown in told]


def _summed(found: Sequence[Row]) -> Iterator[tuple[int, Kind, int, tuple[str, ...]]]:
    totals: dict[tuple[int, Kind], tuple[int, tuple[str, ...]]] = {}
    for row in found:
        if row["kind"] != "entries":
            count, examples = totals.get((row["state"], row["kind"]), (0, ()))
            shown = (*examples, *json.loads(row["examples"]))[:EXAMPLES]
            totals[row["state"], row["kind"]] = count + row["count"], shown
    for (state, kind), (count, examples) in sorted(totals.items()):
        yield state, kind, count, examples


def _differing(state: int, live: ShardSnapshot, right: ShardSnapshot, entries: list[int]) -> Iterator[Entry]:
    """Keys with what both sides have there, where that is not the same; `entries` counts those of the first."""
    lefts = chain.from_iterable(live.scan(state))
    rights = chain.from_iterable(right.scan(state))
    left, other = next(lefts, None), next(rights, None)
    while left is not None or other is not None:
        if left is not None and (other is None or left[0] < other[0]):
            yield left[0], left[1], None
            entries[0] += 1
            left = next(lefts, None)
        elif other is not None and (left is None or other[0] < left[0]):
            yield other[0], None, other[1]
            other = next(rights, None)
        elif left is not None and other is not None:
            if left[1] != other[1]:
                yield left[0], left[1], other[1]
            entries[0] += 1
            left, other = next(lefts, None), next(rights, None)


# answers


def has_inexact_answers(state: State) -> bool:
    """Whether a state holds answers that need not come out the same when computed again."""
    return state.answers is not None and any(_holds_floats(c.type) for c in state.answers)


def _holds_floats(kind: str) -> bool:
    return "double" in kind or "float" in kind


def adopt_answers(
    spark: SparkSession, store: Store, live: StatesAt, right: StatesAt, answers: Sequence[State], to: StatesAt
) -> None:
    """Fill the answers of a scratch store: those that stand where they are right enough, else right ones.

    All shards are marked: a build finds the epoch settled, and makes of these answers what there is to be made.
    """
    listed = [(s.number, s.answers or ()) for s in answers]

    def write(shard: int) -> Iterator[pa.RecordBatch]:
        with live.store.open().shard(shard).at(live.epoch) as a, right.store.open().shard(shard).at(right.epoch) as b:
            writes = [_settled(number, columns, a, b) for number, columns in listed]
        to.store.open().shard(shard).apply(to.epoch, writes, to.epoch)
        yield pa.RecordBatch.from_pylist([{"shard": shard}], schema=pa.schema([("shard", pa.int32())]))

    frame(spark, store.shards, write, "shard int").collect()


def _settled(state: int, columns: tuple[Column, ...], live: ShardSnapshot, right: ShardSnapshot) -> Write:
    entries = dict(chain.from_iterable(right.scan(state)))
    answers = _Answers(columns)
    differing = list(_differing(state, live, right, [0]))
    for key, _, value in differing:
        if value is not None:
            answers.add(key, value)
    for key, value, _ in differing:
        partner = None if value is None else answers.take(value)
        if partner is not None and value is not None:
            entries.pop(partner, None)
            entries[key] = value
    return Write.of(state, list(entries), list(entries.values()), None)


class _Answers:
    """Right answers that are waiting for one that stands and is alike, by what must be exactly the same."""

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self._codec = RowCodec(types.schema([Column(f"_{i}", c.type) for i, c in enumerate(columns)]))
        self._floats = [_holds_floats(c.type) for c in columns]
        self._waiting: dict[str, list[tuple[bytes, list[Any]]]] = {}

    def _parts(self, value: bytes) -> tuple[str, list[Any]]:
        row = self._codec.decode_one(row_of(value)).values()
        exact = [v for v, floats in zip(row, self._floats, strict=True) if not floats]
        return repr((value[:WIDTH], exact)), [v for v, floats in zip(row, self._floats, strict=True) if floats]

    def add(self, key: bytes, value: bytes) -> None:
        exact, numbers = self._parts(value)
        self._waiting.setdefault(exact, []).append((key, numbers))

    def take(self, value: bytes) -> bytes | None:
        """The key of a right answer that is alike; it waits no longer."""
        try:
            exact, numbers = self._parts(value)
        except (Corrupt, ValueError):  # a damaged answer has no partner
            return None
        listed = self._waiting.get(exact, [])
        for at, (key, others) in enumerate(listed):
            if alike(numbers, others, TOLERANCE):
                del listed[at]
                return key
        return None
