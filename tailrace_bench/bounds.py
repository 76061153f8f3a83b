"""What the machine can do at best: the rates that Tailrace is compared with."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import tailrace as tr
from tailrace.source.assignment import Assignment, hand_out
from tailrace.source.frames import frame
from tailrace.source.reader import read_delta
from tailrace.store.commits import committed
from tailrace.store.lmdb import attach
from tailrace_bench.lmdb_writer import encoded
from tailrace_bench.measure import timed

PROCESSES = 2
SCAN = "log scan in Spark"
ROWS = "rows straight into LMDB"
PAIRS = "pairs made beforehand into LMDB"
ROWS_NOTE = (
    "the view's rows from Arrow columns: encoded as the store does, sorted, written in one durable commit; 2 processes"
)
PAIRS_NOTE = "encoded and sorted beforehand, only written: nobody whose rows are columns can reach it; 2 processes"


def scan_log(db: tr.Database, table: str, columns: Sequence[str] = ("amount",)) -> float:
    """Seconds in which Spark only reads what is logged after the committed cut, and sums these columns."""
    definition, store = db._catalog.table(table), db._store
    done = committed(store)
    handed = hand_out(db.spark, Assignment(done.epoch + 1, 0, done.cut, store.newest_cut()))
    positions = [[c.name for c in definition.columns].index(name) for name in columns]
    path = db.path

    def read(node: int) -> Iterator[pa.RecordBatch]:
        return read_delta(attach(path), definition, [node], handed.take(), positions, net=False)

    schema = ", ".join(f"_{i} {definition.columns[p].type}" for i, p in enumerate(positions))
    rows = frame(db.spark, store.nodes, read, f"{schema}, _weight tinyint")
    sums = [f"sum(_{i} * _weight)" for i in range(len(positions))]
    seconds, _ = timed(lambda: rows.selectExpr(*sums, "count(*)").collect())
    return seconds


@dataclass(frozen=True)
class Written:
    """Rows per second that LMDB takes: from columns, and from pairs that were made beforehand."""

    rows: float
    pairs: float


def write_lmdb(rows: pa.Table, keys: int) -> Written:
    """Both write limits of these rows, whose first `keys` columns are the key."""
    parts = [rows.take(list(range(i, rows.num_rows, PROCESSES))) for i in range(PROCESSES)]
    made = [pa.table(dict(zip(("key", "value"), encoded(part, keys), strict=True))) for part in parts]
    return Written(rows.num_rows / _write("rows", parts, keys), rows.num_rows / _write("pairs", made, keys))


def _write(mode: str, parts: Sequence[pa.Table], keys: int) -> float:
    """Seconds in which processes write, each its part into its own LMDB."""
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as scratch:
        running = []
        for number, part in enumerate(parts):
            path = Path(scratch) / f"{number}.arrow"
            with pa.ipc.new_file(str(path), part.schema) as writer:
                writer.write_table(part)
            running.append(_start(mode, path, Path(scratch) / f"env{number}", keys))
        for process in running:
            assert process.stdout is not None
            process.stdout.readline()
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        return max(float(process.communicate()[0]) for process in running)


def _start(mode: str, rows: Path, env: Path, keys: int) -> subprocess.Popen[Any]:
    return subprocess.Popen(
        [sys.executable, "-m", "tailrace_bench.lmdb_writer", mode, str(rows), str(env), str(keys)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
