"""A process that writes rows durably into LMDB environments: the limit of any view that is stored in LMDB.

    python -m tailrace_bench.lmdb_writer

Each input line is `MODE FILE ENV KEYS`, separated by tabs. The process reads the Arrow file, prints "ready", waits for
another line, writes, and prints the seconds it took.

    MODE pairs   the file holds sorted keys and their values
    MODE rows    the file holds columns, the first KEYS are the key; rows are encoded and sorted as a view's rows are
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


def encode_rows(rows: pa.Table, keys: int) -> tuple[pa.LargeBinaryArray, pa.LargeBinaryArray]:
    """Sorted keys and their values, encoded as a view's rows are stored."""
    key_types = [rows.schema.field(i).type for i in range(keys)]
    encoded_keys = KeyCodec(key_types).encode(rows.columns[:keys], rows.num_rows)
    sorted_positions = order(encoded_keys).indices
    values = RowCodec(rows.schema).encode(rows)
    return arrays.take_cells(encoded_keys, sorted_positions), arrays.take_cells(values, sorted_positions)


def write(mode: str, file: str, env: str, keys: int) -> float:
    with pa.OSFile(file) as source:
        table = pa.ipc.open_file(source).read_all().combine_chunks()
    pairs = list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)) if mode == "pairs" else None
    with lmdb.open(env, map_size=1 << 36) as environment:
        print("ready", flush=True)
        sys.stdin.readline()
        began = time.perf_counter()
        if pairs is None:
            encoded_keys, values = encode_rows(table, keys)
            pairs = arrays.pairs(encoded_keys, values)
        with environment.begin(write=True) as txn, txn.cursor() as cursor:
            cursor.putmulti(pairs)
        return time.perf_counter() - began


if __name__ == "__main__":
    keep_memory()
    for line in iter(sys.stdin.readline, ""):
        mode, file, env, keys = line.rstrip("\n").split("\t")
        print(write(mode, file, env, int(keys)), flush=True)
