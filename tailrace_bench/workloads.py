"""Operations with a fixed seed: 95% puts and 5% deletes of random keys, in batches."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

import tailrace as tr

GROUPS = 10_000
BATCH = 50_000
COLUMNS = "id BIGINT PRIMARY KEY, grp BIGINT, amount BIGINT, other BIGINT"


@contextlib.contextmanager
def store(tables: Sequence[str] = ("ops",)) -> Iterator[tr.Database]:
    """A durable store in a directory of its own, removed afterwards, with tables of operations."""
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as path, tr.open(f"{path}/store") as db:
        for name in tables:
            db.sql(f"CREATE TABLE {name} ({COLUMNS})")
        yield db


def rows(rng: np.random.Generator, ids: np.ndarray, groups: int = GROUPS, other: str = "uniform") -> pa.Table:
    """Rows under these ids: a group, an amount below 1,000, and another number of some distribution."""
    count = len(ids)
    return pa.table(
        {
            "id": ids.astype(np.int64),
            "grp": rng.integers(0, groups, count),
            "amount": rng.integers(0, 1_000, count),
            "other": _numbers(rng, count, other),
        }
    )


def _numbers(rng: np.random.Generator, count: int, distribution: str) -> np.ndarray:
    if distribution == "zipf":
        return np.minimum(rng.zipf(1.5, count), 1_000_000)
    if distribution == "normal":
        return rng.normal(500_000, 100_000, count).astype(np.int64)
    return rng.integers(0, 1_000_000, count)


def operate(
    db: tr.Database,
    rng: np.random.Generator,
    operations: int,
    keys: int,
    name: str = "ops",
    *,
    groups: int = GROUPS,
    other: str = "uniform",
) -> int:
    """Random operations on `keys` keys; how many there were (a delete of an absent row is none)."""
    table, done = db.table(name), 0
    size = min(BATCH, keys)
    while done < operations:
        chosen = rng.choice(keys, size=min(size, operations - done), replace=False)
        gone = max(1, len(chosen) // 20)
        done += table.put_many(rows(rng, chosen[gone:], groups, other)).operations
        done += table.delete_many(chosen[:gone].tolist()).operations
    return done


def fill(
    db: tr.Database, rng: np.random.Generator, count: int, name: str = "ops", *, start: int = 0, groups: int = GROUPS
) -> None:
    """Insert `count` new rows, with ids from `start` on."""
    for begin in range(start, start + count, 4 * BATCH):
        ids = np.arange(begin, min(start + count, begin + 4 * BATCH))
        db.table(name).put_many(rows(rng, ids, groups))
