"""Temporary stores and random operations: 95% puts and 5% deletes of random keys, in batches."""

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
def temporary_store(tables: Sequence[str] = ("ops",)) -> Iterator[tr.Database]:
    """A durable store with these tables, in a temporary directory that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as path, tr.open(f"{path}/store", create=True) as db:
        for name in tables:
            db.sql(f"CREATE TABLE {name} ({COLUMNS})")
        yield db


def random_rows(rng: np.random.Generator, ids: np.ndarray, groups: int = GROUPS, other: str = "uniform") -> pa.Table:
    """Rows with these ids: a group, an amount below 1,000, and a number with the distribution named by `other`."""
    count = len(ids)
    return pa.table(
        {
            "id": ids.astype(np.int64),
            "grp": rng.integers(0, groups, count),
            "amount": rng.integers(0, 1_000, count),
            "other": _draw_numbers(rng, count, other),
        }
    )


def _draw_numbers(rng: np.random.Generator, count: int, distribution: str) -> np.ndarray:
    if distribution == "zipf":
        return np.minimum(rng.zipf(1.5, count), 1_000_000)
    if distribution == "normal":
        return rng.normal(500_000, 100_000, count).astype(np.int64)
    return rng.integers(0, 1_000_000, count)


def apply_operations(
    db: tr.Database,
    rng: np.random.Generator,
    operations: int,
    keys: int,
    name: str = "ops",
    *,
    groups: int = GROUPS,
    other: str = "uniform",
) -> int:
    """Applies about `operations` random operations to `keys` keys. Returns the exact number.

    A delete of an absent row does not count as an operation.
    """
    table, done = db.table(name), 0
    size = min(BATCH, keys)
    while done < operations:
        chosen = rng.choice(keys, size=min(size, operations - done), replace=False)
        deleted = max(1, len(chosen) // 20)
        done += table.put_many(random_rows(rng, chosen[deleted:], groups, other)).operations
        done += table.delete_many(chosen[:deleted].tolist()).operations
    return done


def insert_rows(
    db: tr.Database, rng: np.random.Generator, count: int, name: str = "ops", *, start: int = 0, groups: int = GROUPS
) -> None:
    """Inserts `count` new rows with ids from `start`."""
    for begin in range(start, start + count, 4 * BATCH):
        ids = np.arange(begin, min(start + count, begin + 4 * BATCH))
        db.table(name).put_many(random_rows(rng, ids, groups))
