"""The top-k rule on a real shard, without Spark: compared with a sorted list, and the number of entries it reads."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tailrace.delta import SHARD, WEIGHT
from tailrace.plan.nodes import Order, Scan, TopK
from tailrace.rules.before import Before, split_by_shard
from tailrace.rules.sink import positional_schema
from tailrace.rules.topk import First
from tailrace.store.lmdb import settings
from tailrace.store.lmdb.store import KEY_LIMIT, LmdbStore
from tailrace.types import Column

COLUMNS = (Column("id", "int"), Column("p", "string"), Column("n", "int"), Column("s", "string"))
STATE = 7
Row = tuple[Any, ...]


class Counted(Before):
    """Counts the entries that a rule scans."""

    entries = 0

    def __enter__(self) -> Counted:
        return self

    def scan(self, state: int, low: bytes, high: bytes | None, ahead: int = 256) -> Iterator[tuple[bytes, bytes]]:
        assert ahead <= 256
        for entry in super().scan(state, low, high, ahead):
            self.entries += 1
            yield entry


class Shard:
    """One shard, and the answer so far: the sum of all emitted deltas."""

    def __init__(self, path: Path, rule: First) -> None:
        settings.create(path, settings.Settings(map_size=1 << 28))
        self.store, self.rule, self.epoch = LmdbStore(path), rule, 0
        self.answer: Counter[Row] = Counter()
        self.read = 0

    def step(self, changes: list[tuple[Row, int]]) -> None:
        """Runs an epoch twice, as after a crash. The second run must emit the same delta."""
        self.epoch += 1
        schema = positional_schema(COLUMNS).append(pa.field(WEIGHT, pa.int64()))
        columns = list(zip(*((*row, weight) for row, weight in changes), strict=True)) or [()] * len(schema)
        delta = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
        delta = delta.append_column(SHARD, pa.array([0] * delta.num_rows, pa.int32()))
        emitted = []
        for _ in range(2):
            with Counted(self.store, self.epoch) as before:
                out, writes = self.rule.step([delta], before)
            parts = [part for write in writes for _, part in split_by_shard(write)]
            self.store.shard(0).apply(self.epoch, parts, self.epoch - 1)
            assert out is not None
            emitted.append(Counter({tuple(r.values())[:-1]: r[WEIGHT] for r in out.to_pylist()}))
        assert emitted[0] == emitted[1]
        self.read = before.entries
        self.answer.update(emitted[0])
        assert min(self.answer.values(), default=0) >= 0
        self.answer = +self.answer


def sort_key(row: Row, order: Order, ties: tuple[int, ...]) -> list[Any]:
    """A Python sort key that sorts as ORDER BY does, then by the ties."""
    key: list[Any] = []
    for position, ascending, nulls_first in (*order, *((p, True, True) for p in ties)):
        value = row[position]
        key.append((value is not None) == nulls_first)
        if isinstance(value, str):
            code = [b + 1 for b in value.encode()] + [0]
            key.append(code if ascending else [-b for b in code])
        else:
            key.append([0 if value is None else value if ascending else -value])
    return key


def expected(rows: Counter[Row], rule: First) -> Counter[Row]:
    partitions: dict[Row, list[Row]] = {}
    for row in rows.elements():
        partitions.setdefault(tuple(row[p] for p in rule.input.by), []).append(row)
    answer: Counter[Row] = Counter()
    for members in partitions.values():
        members.sort(key=lambda row: sort_key(row, rule.input.order, rule.input.ties))
        end = None if rule.limit is None else rule.offset + rule.limit
        for number, row in list(enumerate(members, 1))[rule.offset : end]:
            answer[(*row, number) if rule.numbered else row] += 1
    return answer


BY_N: Order = ((2, False, False),)
BY_S: Order = ((3, True, False), (2, False, True))
CASES: dict[str, tuple[bool, tuple[int, ...], Order, int, int | None, bool]] = {
    "first three by partition": (True, (1,), BY_N, 0, 3, False),
    "numbered": (True, (1,), BY_N, 0, 2, True),
    "a page of a bag": (False, (1,), BY_S, 2, 3, False),
    "a numbered page of a bag": (False, (1,), ((2, True, True),), 1, 3, True),
    "one partition, any rows": (False, (), (), 0, 4, False),
    "all but the first": (True, (), BY_N, 3, None, False),
    "all but the first of a bag": (False, (1,), BY_S, 2, None, False),
    "long strings": (True, (), BY_S, 1, 4, False),
    "long strings of a bag": (False, (1,), ((3, False, True),), 0, 3, True),
    "none": (True, (1,), BY_N, 0, 0, False),
}


def make_rule(keyed: bool, partition: tuple[int, ...], order: Order, *limits: Any) -> First:
    source = Scan("t", 1, COLUMNS, (0,), (0, 1, 2, 3))
    if not keyed:
        source = Scan("t", 1, (*COLUMNS, Column("key", "int")), (4,), (0, 1, 2, 3))
    return First.of(TopK(source, partition, order, *limits), STATE, KEY_LIMIT)


def random_values(rng: random.Random, long: bool) -> Row:
    text = rng.choice([None, "", "a", "ab", "\0", "b" * 3])
    if long and rng.random() < 0.8:
        text = "x" * 205 + rng.choice("ab") * rng.choice([1, 3, 20, 200]) + rng.choice("abc")
    return rng.choice(["k", "l", None]), rng.choice([None, 1, 2, 3, -1]), text


@pytest.mark.parametrize("case", list(CASES))
def test_first_rows_equal_those_of_a_sorted_list(case: str, tmp_path: Path) -> None:
    rule, rng = make_rule(*CASES[case]), random.Random(case)
    keyed = CASES[case][0]
    shard = Shard(tmp_path / "s", rule)
    rows: Counter[Row] = Counter()
    for epoch in range(25):
        changes: list[tuple[Row, int]] = []
        gone = list(rows) if epoch == 15 else rng.sample(list(rows), min(len(rows), rng.randrange(4)))
        for row in gone:
            weight = rows[row] if epoch == 15 else rng.randrange(1, rows[row] + 1)
            changes.append((row, -weight))
            rows[row] -= weight
        rows = +rows
        taken = {row[0] for row in rows}
        for number in rng.sample([i for i in range(30) if not keyed or i not in taken], rng.randrange(1, 5)):
            p, n, s = random_values(rng, "long" in case)
            row, weight = (number if keyed else number % 2, p, n, s), 1 if keyed else rng.randrange(1, 4)
            changes.append((row, weight))
            rows[row] += weight
        rng.shuffle(changes)
        shard.step(changes)
        assert shard.answer == expected(rows, rule), f"epoch {epoch}"


def test_a_large_partition_is_not_read_as_a_whole(tmp_path: Path) -> None:
    rule = make_rule(True, (1,), BY_N, 2, 5, False)
    shard = Shard(tmp_path / "s", rule)
    shard.step([((i, "p", i, None), 1) for i in range(100_000)])
    assert shard.read == 0
    shard.step([((200_000, "p", 50_000, None), 1)])
    assert shard.read <= 10
    gone = [(i, "p", i, None) for i in range(99_990, 100_000)]
    shard.step([(row, -1) for row in gone])
    assert shard.read <= 30
    assert sorted(r[0] for r in shard.answer) == list(range(99_983, 99_988))
