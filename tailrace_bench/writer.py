"""One process that writes into a store, at a rate or as fast as it can.

    python -m tailrace_bench.writer STORE SECONDS RATE BATCH KEYS SEED

RATE is in operations a second, 0 for as fast as it can; each transaction has BATCH rows. It says "ready", begins when
it is told, and for every transaction says its number, when it began (by the clock all processes share), and its rows.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import tailrace as tr
from tailrace_bench import workloads

MADE = 50  # batches made beforehand, written in turn


def main(path: str, seconds: float, rate: float, batch: int, keys: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = [workloads.rows(rng, rng.choice(keys, batch, replace=False)) for _ in range(MADE)]
    with tr.open(path, create=False) as db:
        table, number = db.table("ops"), 0
        print("ready", flush=True)
        sys.stdin.readline()
        began = time.monotonic()
        while (now := time.monotonic()) < began + seconds:
            if rate and (early := began + number * batch / rate - now) > 0:
                time.sleep(early)
                now += early
            written = table.put_many(made[number % MADE])
            print(written.transaction, now, written.operations, flush=True)
            number += 1
        print("end", time.monotonic() - began, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), *map(int, sys.argv[4:7]))
