"""The rule of temporal filters on a real shard, without Spark: compared with a list, and what it reads and keeps."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tailrace.delta import SHARD, WEIGHT
from tailrace.plan.nodes import Scan, TemporalFilter
from tailrace.plan.temporal import ALWAYS
from tailrace.rules.before import Before, split_by_shard
from tailrace.rules.temporal import AT, Crossed, count_crossed, first_border
from tailrace.store.lmdb import settings
from tailrace.store.lmdb.store import KEY_LIMIT, LmdbStore
from tailrace.types import Column

COLUMNS = (Column("id", "int"), Column("x", "string"), Column("from", "bigint"), Column("until", "bigint"))
STATE = 7
Row = tuple[Any, ...]


class Shard:
    """One shard, its rows, and the answer so far: the sum of all emitted deltas."""

    def __init__(self, path: Path, key: tuple[int, ...]) -> None:
        settings.create(path, settings.Settings(map_size=1 << 28))
        node = TemporalFilter(Scan("t", 1, COLUMNS, key, (0, 1, 2, 3)))
        self.store, self.rule = LmdbStore(path), Crossed.of(node, STATE, KEY_LIMIT)
        self.epoch, self.time = 0, 0
        self.answer: Counter[Row] = Counter()
        self.rows: Counter[Row] = Counter()

    def step(self, changes: list[tuple[Row, int]], time: int) -> None:
        """Runs an epoch twice, as after a crash. The second run must emit the same delta."""
        self.epoch += 1
        self.rows.update(dict(changes))
        columns = list(zip(*((*row, time, weight) for row, weight in changes), strict=True)) or [()] * 6
        stamped = [pa.array(c, f.type) for c, f in zip(columns, self.rule.timed, strict=True)]
        emitted = []
        for _ in range(2):
            with Before(self.store, self.epoch) as before:
                delta = pa.table(stamped, schema=self.rule.timed)
                crossed = self.rule.crossed(before, 0, self.time, time)
                delta = delta if crossed is None else pa.concat_tables([delta, crossed])
                shards = pa.array([0] * delta.num_rows, pa.int32())
                out, writes = self.rule.step([delta.combine_chunks().append_column(SHARD, shards)], before)
            parts = [part for write in writes for _, part in split_by_shard(write)]
            self.store.shard(0).apply(self.epoch, parts, self.epoch - 1)
            net: Counter[Row] = Counter()
            for row in out.to_pylist() if out is not None else ():
                net[row["_0"], row["_1"]] += row[WEIGHT]
            emitted.append({row: weight for row, weight in net.items() if weight})
        assert emitted[0] == emitted[1]
        for row, weight in emitted[0].items():
            self.answer[row] += weight
        self.time = time

    def borders(self) -> list[int]:
        with self.store.shard(0).at(self.epoch) as snapshot:
            assert first_border(snapshot, STATE) == min(self._expected_borders(), default=None)
            assert count_crossed(snapshot, STATE, ALWAYS) == len(self._expected_borders())
        return self._expected_borders()

    def _expected_borders(self) -> list[int]:
        borders = []
        for _, _, start, end in +self.rows:
            later = [b for b in (start, end) if b > self.time]
            if start < end and later and min(later) < ALWAYS:
                borders.append(min(later))
        return borders

    def check(self) -> None:
        valid = Counter({row[:2]: n for row, n in self.rows.items() if n and row[2] <= self.time < row[3]})
        assert +self.answer == valid
        self.borders()


@pytest.mark.parametrize("seed", range(6))
def test_the_answer_is_that_of_a_list(tmp_path: Path, seed: int) -> None:
    rng, shard, time = random.Random(seed), Shard(tmp_path / "s", (0,)), 100
    for _ in range(40):
        time += rng.choice([0, 0, 1, 2, 5, 30])
        present = {row[0]: row for row, n in shard.rows.items() if n > 0}
        changes: list[tuple[Row, int]] = []
        for key in rng.sample(range(20), rng.randrange(6)):
            if key in present:
                changes.append((present[key], -1))
            if rng.random() < 0.7:
                start = rng.choice([-ALWAYS, time + rng.randrange(-10, 20)])
                end = rng.choice([ALWAYS, time + rng.randrange(-10, 30)])
                changes.append(((key, rng.choice("ab"), start, end), 1))
        net: Counter[Row] = Counter()
        for row, weight in changes:
            net[row] += weight
        shard.step([(row, weight) for row, weight in net.items() if weight], time)
        shard.check()


def test_only_rows_that_cross_are_read(tmp_path: Path) -> None:
    shard = Shard(tmp_path / "s", (0,))
    shard.step([((i, "a", -ALWAYS, 1_000 + i), 1) for i in range(500)], 10)
    shard.check()
    with Before(shard.store, 2) as before:
        assert shard.rule.crossed(before, 0, 10, 999) is None
        crossed = shard.rule.crossed(before, 0, 10, 1_002)
    assert crossed is not None
    assert Counter(zip(crossed.column(AT).to_pylist(), crossed.column(WEIGHT).to_pylist(), strict=True)) == {
        (10, -1): 3,
        (1_002, 1): 3,
    }


def test_rows_without_a_border_to_come_are_not_kept(tmp_path: Path) -> None:
    shard = Shard(tmp_path / "s", (0,))
    rows = [
        (1, "a", -ALWAYS, ALWAYS),
        (2, "a", 5, ALWAYS),
        (3, "a", -ALWAYS, 9),
        (4, "a", 50, 40),
        (5, "a", 20, ALWAYS),
    ]
    shard.step([(row, 1) for row in rows], 10)
    assert shard.borders() == [20]
    shard.step([], 20)
    assert shard.borders() == []
    assert sorted(key for key, _ in +shard.answer) == [1, 2, 5]
