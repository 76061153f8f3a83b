"""What the machine can do at best: the rates that Tailrace is compared with."""

from __future__ import annotations

import atexit
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

import tailrace as tr
from tailrace.spark.frames import frame
from tailrace.spark.stages import hand_out
from tailrace.store.commits import committed
from tailrace.task.assignment import Assignment
from tailrace.task.log_reader import read_delta
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
    """Seconds in which Spark only reads what is logged after the committed cut, and sums these columns: warm."""
    definition, store = db._catalog.table(table), db._store
    done = committed(store)
    handed = hand_out(db.spark, Assignment(done.epoch + 1, 0, done.cut, store.newest_cut()))
    positions = [[c.name for c in definition.columns].index(name) for name in columns]
    ref = store.ref

    def read(node: int) -> Iterator[pa.RecordBatch]:
        return read_delta(ref.open(), definition, [node], handed.take(), positions, net=False)

    schema = ", ".join(f"_{i} {definition.columns[p].type}" for i, p in enumerate(positions))
    rows = frame(db.spark, store.nodes, read, f"{schema}, _weight tinyint")
    sums = [f"sum(_{i} * _weight)" for i in range(len(positions))]
    return min(timed(rows.selectExpr(*sums, "count(*)").collect)[0] for _ in range(2))


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
    writers = _writers()
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as scratch:
        for number, (part, writer) in enumerate(zip(parts, writers, strict=True)):
            path = f"{scratch}/{number}.arrow"
            with pa.ipc.new_file(path, part.schema) as file:
                file.write_table(part)
            _tell(writer, f"{mode}\t{path}\t{scratch}/env{number}\t{keys}")
        for writer in writers:
            _said(writer)
        for writer in writers:
            _tell(writer, "go")
        return max(float(_said(writer)) for writer in writers)


@cache
def _writers() -> list[subprocess.Popen[str]]:
    """The processes that write, until this one ends."""
    command = [sys.executable, "-m", "tailrace_bench.lmdb_writer"]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)
    ]
    for process in started:
        atexit.register(process.communicate)
    return started


def _tell(writer: subprocess.Popen[str], line: str) -> None:
    assert writer.stdin is not None
    writer.stdin.write(line + "\n")
    writer.stdin.flush()


def _said(writer: subprocess.Popen[str]) -> str:
    assert writer.stdout is not None
    if not (said := writer.stdout.readline()):
        raise RuntimeError("a process that writes into LMDB has ended")
    return said
