"""Upper bounds measured on the same machine: scanning the log in Spark and writing rows to LMDB."""

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
from tailrace.database.inside import inside
from tailrace.spark.frames import frame
from tailrace.spark.stages import set_assignment
from tailrace.store.commits import read_committed
from tailrace.task.assignment import Assignment
from tailrace.task.log_reader import read_delta
from tailrace_bench.lmdb_writer import encode_rows
from tailrace_bench.measure import time_call

PROCESSES = 2
LOG_SCAN = "log scan in Spark"
LMDB_ROWS = "rows written directly to LMDB"
LMDB_PAIRS = "pre-encoded pairs written to LMDB"
LMDB_ROWS_NOTE = (
    "encodes the view's rows from Arrow columns as the store does, sorts them and writes them in one durable commit; "
    "2 processes"
)
LMDB_PAIRS_NOTE = (
    "only writes pairs that were encoded and sorted beforehand, which no system that starts from columns can reach; "
    "2 processes"
)


def time_log_scan(db: tr.Database, table: str, columns: Sequence[str] = ("amount",)) -> float:
    """Seconds in which a warm Spark reads the log after the committed cut and only sums these columns."""
    definition, store = inside(db).catalog.table(table), inside(db).store
    commit = read_committed(store)
    handed = set_assignment(db.spark, Assignment(commit.epoch + 1, 0, commit.cut, store.newest_cut()))
    positions = [[c.name for c in definition.columns].index(name) for name in columns]
    ref = store.ref

    def read(node: int) -> Iterator[pa.RecordBatch]:
        return read_delta(ref.attach(), definition, [node], handed.take(), positions, net=False)

    schema = ", ".join(f"_{i} {definition.columns[p].type}" for i, p in enumerate(positions))
    rows = frame(db.spark, store.nodes, read, f"{schema}, _weight tinyint")
    sums = [f"sum(_{i} * _weight)" for i in range(len(positions))]
    return min(time_call(rows.selectExpr(*sums, "count(*)").collect)[0] for _ in range(2))


@dataclass(frozen=True)
class WriteRates:
    """Rows per second that LMDB accepts: encoded from columns, and as pairs that were encoded beforehand."""

    rows: float
    pairs: float


def measure_lmdb_writes(rows: pa.Table, keys: int) -> WriteRates:
    """Both write limits for these rows, whose first `keys` columns are the key."""
    parts = [rows.take(list(range(i, rows.num_rows, PROCESSES))) for i in range(PROCESSES)]
    pairs = [pa.table(dict(zip(("key", "value"), encode_rows(part, keys), strict=True))) for part in parts]
    return WriteRates(
        rows.num_rows / _time_writes("rows", parts, keys), rows.num_rows / _time_writes("pairs", pairs, keys)
    )


def _time_writes(mode: str, parts: Sequence[pa.Table], keys: int) -> float:
    """Seconds until every process has written its part to its own LMDB environment."""
    writers = _start_writers()
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as scratch:
        for number, (part, writer) in enumerate(zip(parts, writers, strict=True)):
            path = f"{scratch}/{number}.arrow"
            with pa.ipc.new_file(path, part.schema) as file:
                file.write_table(part)
            _send_line(writer, f"{mode}\t{path}\t{scratch}/env{number}\t{keys}")
        for writer in writers:
            _read_line(writer)
        for writer in writers:
            _send_line(writer, "go")
        return max(float(_read_line(writer)) for writer in writers)


@cache
def _start_writers() -> list[subprocess.Popen[str]]:
    """The writer processes. They are started once and end with this process."""
    command = [sys.executable, "-m", "tailrace_bench.lmdb_writer"]
    writers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)
    ]
    for writer in writers:
        atexit.register(writer.communicate)
    return writers


def _send_line(writer: subprocess.Popen[str], line: str) -> None:
    assert writer.stdin is not None
    writer.stdin.write(line + "\n")
    writer.stdin.flush()


def _read_line(writer: subprocess.Popen[str]) -> str:
    assert writer.stdout is not None
    if not (line := writer.stdout.readline()):
        raise RuntimeError("an LMDB writer process ended unexpectedly; its error is on stderr")
    return line
