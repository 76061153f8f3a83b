"""A process that writes to a store at a given rate, or as fast as it can.

    python -m tailrace_bench.writer STORE SECONDS RATE BATCH KEYS SEED

RATE is in operations per second, 0 for as fast as possible. Each transaction has BATCH rows. The process prints "ready"
and starts after it reads a line. For each transaction it prints the transaction's number, its start time (by the
monotonic clock, which all processes share) and its operations; at the end "end" and the total seconds.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import tailrace as tr
from tailrace_bench import workloads

PREPARED_BATCHES = 50  # prepared before the start, written in turn


def main(path: str, seconds: float, rate: float, batch: int, keys: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    batches = [workloads.random_rows(rng, rng.choice(keys, batch, replace=False)) for _ in range(PREPARED_BATCHES)]
    with tr.open(path) as db:
        table, number = db.table("ops"), 0
        print("ready", flush=True)
        sys.stdin.readline()
        began = time.monotonic()
        while (now := time.monotonic()) < began + seconds:
            if rate and (early := began + number * batch / rate - now) > 0:
                time.sleep(early)
                now += early
            written = table.put_many(batches[number % PREPARED_BATCHES])
            print(written.transaction, now, written.operations, flush=True)
            number += 1
        print("end", time.monotonic() - began, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), *map(int, sys.argv[4:7]))
