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


@contextlib.contextmanager
def store(tables: Sequence[str] = ("ops",)) -> Iterator[tr.Database]:
    """A durable store in a directory of its own, removed afterwards, with tables of operations."""
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as path, tr.open(f"{path}/store") as db:
        for name in tables:
            db.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, grp BIGINT, amount BIGINT, other BIGINT)")
        yield db


def rows(rng: np.random.Generator, ids: np.ndarray) -> pa.Table:
    count = len(ids)
    return pa.table(
        {
            "id": ids.astype(np.int64),
            "grp": rng.integers(0, GROUPS, count),
            "amount": rng.integers(0, 1_000, count),
            "other": rng.integers(0, 1_000_000, count),
        }
    )


def operate(db: tr.Database, rng: np.random.Generator, operations: int, keys: int, name: str = "ops") -> int:
    """Random operations on `keys` keys; how many there were (a delete of an absent row is none)."""
    table, done = db.table(name), 0
    size = min(BATCH, keys)
    while done < operations:
        chosen = rng.choice(keys, size=min(size, operations - done), replace=False)
        gone = max(1, len(chosen) // 20)
        done += table.put_many(rows(rng, chosen[gone:])).operations
        done += table.delete_many(chosen[:gone].tolist()).operations
    return done


def fill(db: tr.Database, rng: np.random.Generator, count: int, name: str = "ops") -> None:
    """Insert `count` distinct rows."""
    for start in range(0, count, 4 * BATCH):
        db.table(name).put_many(rows(rng, np.arange(start, min(count, start + 4 * BATCH))))
