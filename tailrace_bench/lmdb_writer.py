"""One process that writes rows into an LMDB of its own, durably: the limit of everything that ends in one.

    python -m tailrace_bench.lmdb_writer pairs|rows FILE ENV KEYS

FILE is an Arrow file, read beforehand. With `pairs` it holds sorted keys and values, with `rows` columns, the first
KEYS of which are the key: they are encoded and sorted as views' rows are. It says "ready", begins when it is told,
and says how many seconds it took.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import lmdb
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.store.keys import KeyCodec
from tailrace.store.rows import RowCodec


def encoded(rows: pa.Table, keys: int) -> tuple[pa.LargeBinaryArray, pa.LargeBinaryArray]:
    """Sorted keys and their values, as a view's rows are stored."""
    names = KeyCodec([rows.schema.field(i).type for i in range(keys)]).encode(rows.columns[:keys], rows.num_rows)
    order = pc.sort_indices(names)
    return names.take(order), RowCodec(rows.schema).encode(rows).take(order)


def main(mode: str, file: Path, env: Path, keys: int) -> None:
    with pa.memory_map(str(file)) as source:
        table = pa.ipc.open_file(source).read_all().combine_chunks()
    pairs = list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)) if mode == "pairs" else None
    opened = lmdb.open(str(env), map_size=1 << 36)
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.perf_counter()
    if pairs is None:
        found, values = encoded(table, keys)
        pairs = list(zip(found.to_pylist(), values.to_pylist(), strict=True))
    with opened.begin(write=True) as txn, txn.cursor() as cursor:
        cursor.putmulti(pairs)
    print(time.perf_counter() - began)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
