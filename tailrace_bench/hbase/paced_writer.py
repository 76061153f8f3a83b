"""A process that puts rows into an HBase table at a steady rate, as a client that knows nothing of Tailrace.

    python -m tailrace_bench.hbase.paced_writer PORT TABLE SECONDS RATE CALLS KEYS AFTER

Each call puts `RATE / CALLS` rows. The last row of each has the id 0, and the number of the call in the column
`other`; the first number is AFTER + 1. The process waits for a line of input. Then it prints for each call its number
and when it began, and at the end "end" and the rate reached.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from tailrace.store.hbase.client import Client
from tailrace_bench.hbase.bench_store import encode_keys
from tailrace_hbase.settings import HOST


def main(port: int, table: str, seconds: float, rate: int, calls: int, keys: int, after: int) -> None:
    rng, batch, number = np.random.default_rng(after), rate // calls, 0
    client = Client(HOST, port)
    rows = client.table(table, None)
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.monotonic()
    while (now := time.monotonic()) < began + seconds:
        if (early := began + number / calls - now) > 0:
            time.sleep(early)
            now += early
        number += 1
        ids = np.append(rng.choice(keys - 1, batch - 1, replace=False) + 1, 0)
        values = rng.integers(0, 1_000, (batch, 2)).tolist()
        values[-1][1] = 0  # the row 0 is in every selection by amount
        others = [*[0] * (batch - 1), after + number]
        rows.put_many(
            [
                (key, {b"f:grp": _long(grp), b"f:amount": _long(amount), b"f:other": _long(other)})
                for key, (grp, amount), other in zip(encode_keys(ids), values, others, strict=True)
            ]
        )
        print(after + number, now, flush=True)
    print("end", number * batch / (time.monotonic() - began), flush=True)
    client.close()


def _long(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), *map(int, sys.argv[4:8]))
