"""The demo's reader process: reads views by key until stopped, and measures each read."""

from __future__ import annotations

import random
import signal
import time
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

import pyarrow.parquet as pq

import tailrace
from tailrace.demo.writer import PATIENCE

PAUSE = 0.002  # seconds between reads


def read(store: str, files: dict[str, Path], times: Queue[list[float]], ready: Barrier, stop: Event) -> None:
    """Reads two views by key until `stop` is set, then puts the seconds of all reads into `times`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source = random.Random(11)
    customers = pq.read_metadata(files["customer"]).num_rows
    parts = pq.read_metadata(files["part"]).num_rows
    latencies: list[float] = []
    with tailrace.open(store) as db:
        spend, prices = db.view("customer_spend"), db.view("part_prices")
        ready.wait(PATIENCE)
        while not stop.is_set():
            for view, key in ((spend, source.randint(1, customers)), (prices, source.randint(1, parts))):
                began = time.perf_counter()
                view.get(key)
                latencies.append(time.perf_counter() - began)
            time.sleep(PAUSE)
    times.put(latencies)
