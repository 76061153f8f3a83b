"""What one client reaches through the same Thrift2 server, with nothing in between: the limits of `hbase_steps`.

The tables are like those that Tailrace writes: the same families, the same division into regions, rows of the same
sizes.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from tailrace.store.hbase.admin import ALL_VERSIONS, Admin, Family
from tailrace.store.hbase.client import HbaseTable
from tailrace_bench.hbase.bench_store import plain_client
from tailrace_bench.measure import time_call

REGIONS = 4  # as many as a store with two nodes has for its states
VALUE_BYTES = 64  # as many as a row of these views, or an image, has about
_KEY = struct.Struct(">HQ")


@contextmanager
def limit_table() -> Iterator[HbaseTable]:
    """An empty table with all versions, divided into regions."""
    name = f"benchlimit{uuid.uuid4().hex[:8]}"
    with plain_client() as client:
        admin = Admin(client)
        admin.create_table(name, [Family(b"s", ALL_VERSIONS)], [struct.pack(">H", n) for n in range(1, REGIONS)])
        try:
            yield client.table(name, b"s")
        finally:
            admin.drop_table(name)


def row_keys(rng: np.random.Generator, count: int) -> list[bytes]:
    """Random keys in all regions, sorted, as a shard writes them."""
    numbers = np.sort(rng.choice(10 * count, count, replace=False))
    return [_KEY.pack(region, int(n)) for region in range(REGIONS) for n in numbers[region::REGIONS]]


def time_puts(table: HbaseTable, keys: list[bytes], timestamp: int) -> float:
    """Seconds in which `putMultiple` writes one cell of each row. The client has several connections."""
    rows = [(key, {b"v": _value(key)}) for key in keys]
    return time_call(lambda: table.put_many(rows, timestamp=timestamp))[0]


def time_look_ups(table: HbaseTable, keys: list[bytes]) -> float:
    """Seconds in which the rows of these keys are read."""
    return time_call(lambda: table.look_up(keys))[0]


def _value(key: bytes) -> bytes:
    return (key * (VALUE_BYTES // len(key) + 1))[:VALUE_BYTES]
