"""A process that writes rows into LMDBs of its own, durably: the limit of everything that ends in one.

    python -m tailrace_bench.lmdb_writer

For each line `pairs|rows FILE ENV KEYS` it reads the Arrow file, says "ready", begins at the next line, and says how
many seconds it took. With `pairs` the file holds sorted keys and values, with `rows` columns, the first KEYS of which
are the key: they are encoded and sorted as views' rows are.
"""

from __future__ import annotations

import sys
import time

import lmdb
import pyarrow as pa

from tailrace.codec import arrays
from tailrace.codec.keys import KeyCodec
from tailrace.codec.rows import RowCodec
from tailrace.codec.sorting import order
from tailrace.spark.memory import keep_memory


def encoded(rows: pa.Table, keys: int) -> tuple[pa.LargeBinaryArray, pa.LargeBinaryArray]:
    """Sorted keys and their values, as a view's rows are stored."""
    names = KeyCodec([rows.schema.field(i).type for i in range(keys)]).encode(rows.columns[:keys], rows.num_rows)
    at = order(names).indices
    return arrays.take_cells(names, at), arrays.take_cells(RowCodec(rows.schema).encode(rows), at)


def write(mode: str, file: str, env: str, keys: int) -> float:
    with pa.OSFile(file) as source:
        table = pa.ipc.open_file(source).read_all().combine_chunks()
    pairs = list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)) if mode == "pairs" else None
    with lmdb.open(env, map_size=1 << 36) as opened:
        print("ready", flush=True)
        sys.stdin.readline()
        began = time.perf_counter()
        if pairs is None:
            found, values = encoded(table, keys)
            pairs = arrays.pairs([found], values)
        with opened.begin(write=True) as txn, txn.cursor() as cursor:
            cursor.putmulti(pairs)
        return time.perf_counter() - began


if __name__ == "__main__":
    keep_memory()
    for line in iter(sys.stdin.readline, ""):
        mode, file, env, keys = line.rstrip("\n").split("\t")
        print(write(mode, file, env, int(keys)), flush=True)
