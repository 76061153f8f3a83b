"""Helpers that damage a store with tables a and b on purpose, directly through LMDB."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.store.lmdb.shard import LmdbShard
from tailrace.store.log_entries import decode_log_key
from tailrace.verify.audit.findings import Finding

Change = Callable[[bytes], bytes | None]

VIEWS = {
    "totals": "SELECT g, SUM(v) AS s, COUNT(*) AS n, MAX(v) AS hi FROM a GROUP BY g",
    "pairs": "SELECT a.id, b.id AS bid, a.v + b.v AS v FROM a JOIN b ON a.g = b.g",
    "best": "SELECT id, v FROM a ORDER BY v DESC LIMIT 5",
    "skewed": "SELECT g, skewness(x) AS k FROM a GROUP BY g",
    "bag": "SELECT v FROM a WHERE v < 90",
}


@contextmanager
def store(path: Path, spark: Any, views: dict[str, str] = VIEWS) -> Iterator[tr.Database]:
    """A store with views after some epochs."""
    with tr.open(path, create=True, spark=spark, map_size=1 << 30) as db:
        db.sql("CREATE TABLE a (id INT PRIMARY KEY, g INT, v INT, x DOUBLE)")
        db.sql("CREATE TABLE b (id INT PRIMARY KEY, g INT, v INT, w INT)")
        write(db, 1)
        for name, sql in views.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        write(db, 2)
        db.refresh()
        yield db


def write(db: tr.Database, seed: int, times: int = 3) -> None:
    """Puts and deletes rows in all groups."""
    rng = random.Random(seed)
    for _ in range(times):
        keys = rng.sample(range(60), 20)
        row = {"x": rng.uniform(-1, 1)}
        db.table("a").put_many([{"id": k, "g": k % 6, "v": rng.randrange(100), **row} for k in keys])
        db.table("b").put_many([{"id": k, "g": rng.randrange(6), "v": rng.randrange(100), "w": 1} for k in keys])
        db.table("a").delete_many(rng.sample(range(60), 4))


def flip(value: bytes, at: int = -1) -> bytes:
    changed = bytearray(value)
    changed[at] ^= 1
    return bytes(changed)


def entry(db: tr.Database, state: int, change: Change, database: str = "data", number: int = 0) -> int:
    """Changes the `number`-th entry of a state in the first shard that has that many; returns the shard.

    An entry of "data" is changed in its unpacked form.
    """
    for index in range(inside(db).store.shards):
        shard = inside(db).store.shard(index)
        named = shard.environment.databases[database]
        with shard.environment.write() as txn:
            if database == "data":
                entries = [e for run in shard.entries(txn, state).scan(b"", None, 100) for e in run]
                if len(entries) > number:
                    _put(txn, shard, state, entries[number][0], change(entries[number][1]))
                    return index
                continue
            with txn.cursor(named) as cursor:
                cursor.set_range(state.to_bytes(4))
                keys = [bytes(k) for k, _ in cursor.iternext() if bytes(k)[:4] == state.to_bytes(4)]
            if len(keys) > number:
                _change(txn, named, keys[number], change)
                return index
    raise AssertionError(f"state {state} has no entries")


def put_entry(db: tr.Database, shard: int, state: int, key: bytes, value: bytes) -> None:
    """Adds an entry of a state."""
    opened = inside(db).store.shard(shard)
    with opened.environment.write() as txn:
        _put(txn, opened, state, key, value)


def _put(txn: Any, shard: LmdbShard, state: int, key: bytes, value: bytes | None) -> None:
    entries = shard.entries(txn, state)
    template = entries.template
    entries.put(*(pa.array([cell], pa.large_binary()) for cell in (key, value)))
    assert entries.template == template, "the mark must name the template"


def undos(db: tr.Database, state: int) -> dict[int, dict[bytes, bytes]]:
    """The undo records of a state, by shard."""
    records = {}
    for index in range(inside(db).store.shards):
        environment = inside(db).store.shard(index).environment
        with environment.read() as txn, txn.cursor(environment.databases["undo"]) as cursor:
            records[index] = {bytes(k): bytes(v) for k, v in cursor if bytes(k)[:4] == state.to_bytes(4)}
    return records


def marks(db: tr.Database, state: int) -> dict[int, bytes]:
    """The marks of a state, by shard."""
    marks_by_shard = {}
    for index in range(inside(db).store.shards):
        environment = inside(db).store.shard(index).environment
        with environment.read() as txn:
            marks_by_shard[index] = bytes(txn.get(state.to_bytes(4), db=environment.databases["marks"]) or b"")
    return marks_by_shard


def put(db: tr.Database, shard: int, database: str, key: bytes, value: bytes) -> None:
    environment = inside(db).store.shard(shard).environment
    with environment.write() as txn:
        _change(txn, environment.databases[database], key, lambda _: value)


def log_entry(db: tr.Database, node: int, change: Change, number: int = 0) -> int:
    """Changes an entry of a node's log that no epoch has applied yet; returns its offset."""
    done = db.status().cut[node]
    environment = inside(db).store.environment
    named = environment.databases["log"]
    with environment.write() as txn:
        with txn.cursor(named) as cursor:
            keys = [bytes(k) for k, _ in cursor.iternext()]
        unapplied = [k for k in keys if decode_log_key(k)[0] == node and decode_log_key(k)[1] >= done]
        _change(txn, named, unapplied[number], change)
        return decode_log_key(unapplied[number])[1]


def base(db: tr.Database, database: str, key: bytes | None, change: Change) -> None:
    """Changes an entry of the base environment: the first at or after `key`, or the last one if `key` is None."""
    environment = inside(db).store.environment
    named = environment.databases[database]
    with environment.write() as txn:
        with txn.cursor(named) as cursor:
            assert cursor.last() if key is None else cursor.set_range(key)
            found_key = bytes(cursor.key())
        _change(txn, named, found_key, change)


def _change(txn: Any, named: Any, key: bytes, change: Change) -> None:
    changed = change(bytes(txn.get(key, db=named) or b""))
    if changed is None:
        txn.delete(key, db=named)
    else:
        txn.put(key, changed, db=named)


def state_of(db: tr.Database, view: str) -> int:
    return inside(db).catalog.view(view).state


def count_by_kind(findings: tuple[Finding, ...] | list[Finding]) -> dict[tuple[str, str], int]:
    """The count of each finding, by place and kind."""
    return {(f.where, f.kind): f.count for f in findings}


def assert_maintained(db: tr.Database, seed: int) -> None:
    """Runs further epochs and asserts that an audit then finds nothing."""
    for n in range(2):
        write(db, seed + n)
        db.refresh()
    report = db.audit()
    assert report.ok, report
