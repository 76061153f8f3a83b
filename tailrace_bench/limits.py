"""What the machine can do at best: the rates Tailrace is compared with."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import tailrace as tr
from tailrace.source.assignment import Assignment, hand_out
from tailrace.source.frames import frame
from tailrace.source.reader import read_delta
from tailrace.store.commits import committed
from tailrace.store.lmdb import attach
from tailrace_bench.measure import timed


def scan_and_sum(db: tr.Database, table: str, column: str) -> float:
    """Seconds in which Spark only reads the log after the committed cut and sums one column."""
    definition, store = db._catalog.table(table), db._store
    done = committed(store)
    handed = hand_out(db.spark, Assignment(done.epoch + 1, 0, done.cut, store.newest_cut()))
    position = [c.name for c in definition.columns].index(column)
    path = db.path

    def read(node: int) -> Iterator[pa.RecordBatch]:
        return read_delta(attach(path), definition, [node], handed.take(), [position], net=False)

    rows = frame(db.spark, store.nodes, read, f"_0 {definition.columns[position].type}, _weight tinyint")
    seconds, _ = timed(lambda: rows.selectExpr("sum(_0 * _weight)", "count(*)").collect())
    return seconds


_WRITE = """
import sys, time, lmdb, pyarrow as pa
pairs = pa.ipc.open_file(sys.argv[1]).read_all()
items = list(zip(pairs["key"].to_pylist(), pairs["value"].to_pylist()))
env = lmdb.open(sys.argv[2], map_size=1 << 36)
print("ready", flush=True)
sys.stdin.readline()
began = time.perf_counter()
with env.begin(write=True) as txn, txn.cursor() as cursor:
    cursor.putmulti(items)
print(time.perf_counter() - began)
"""


def write_to_lmdb(pairs: list[tuple[bytes, bytes]], processes: int) -> float:
    """Seconds in which processes write sorted pairs, made beforehand, each into its own LMDB, durably."""
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as scratch:
        running = []
        for number in range(processes):
            part = sorted(pairs[number::processes])
            table = pa.table({"key": [k for k, _ in part], "value": [v for _, v in part]})
            path = Path(scratch) / f"{number}.arrow"
            with pa.ipc.new_file(str(path), table.schema) as writer:
                writer.write_table(table)
            running.append(_start(path, Path(scratch) / f"env{number}"))
        for process in running:
            assert process.stdout is not None
            process.stdout.readline()
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        return max(float(process.communicate()[0]) for process in running)


def _start(pairs: Path, env: Path) -> subprocess.Popen[Any]:
    return subprocess.Popen(
        [sys.executable, "-c", _WRITE, str(pairs), str(env)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def view_pairs(db: tr.Database, name: str) -> list[tuple[bytes, bytes]]:
    """A view's rows as the shards hold them."""
    view, epoch = db._catalog.view(name), committed(db._store).epoch
    pairs: list[tuple[bytes, bytes]] = []
    for shard in range(db._store.shards):
        with db._store.shard(shard).at(epoch) as snapshot:
            for run in snapshot.scan(view.state):
                pairs += run
    return pairs
