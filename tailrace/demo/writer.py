"""The demo's writer process: inserts, updates and deletes orders and their items at a steady rate."""

from __future__ import annotations

import datetime
import random
import signal
import time
from collections.abc import Iterator
from decimal import Decimal
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

import tailrace
from tailrace.store.base import Written

TICK = 0.25  # seconds between bursts of writes
PATIENCE = 60.0  # seconds to wait for the writer and the reader
_TODAY = datetime.date(1998, 8, 2)
_STATUS = ("O", "F", "P")


class WriteNote(NamedTuple):
    """A transaction of the writer: its number, its count of operations, and the time when it was durable."""

    transaction: int
    operations: int
    at: float


def write(
    store: str, files: dict[str, Path], rate: int, notes: Queue[WriteNote | None], ready: Barrier, stop: Event
) -> None:
    """Writes about `rate` operations a second until `stop` is set. `notes` gets a note of each write, then None."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with tailrace.open(store) as db:
        changes = Changes(db, files)
        ready.wait(PATIENCE)
        due = time.monotonic()
        while not stop.is_set():
            for written in changes.write_burst(int(rate * TICK)):
                if written.operations:
                    notes.put(WriteNote(written.transaction, written.operations, time.time()))
            due = max(due + TICK, time.monotonic())
            stop.wait(due - time.monotonic())
    notes.put(None)


class Changes:
    """Random, consistent changes to orders and their items."""

    def __init__(self, db: tailrace.Database, files: dict[str, Path]) -> None:
        self._orders, self._items = db.table("orders"), db.table("lineitem")
        self._random = random.Random(7)
        items = pq.read_table(files["lineitem"], columns=["l_orderkey", "l_linenumber"])
        self._lines: dict[int, int] = {}  # order key → its number of items
        for order, line in zip(*(c.to_pylist() for c in items.columns), strict=True):
            self._lines[order] = max(line, self._lines.get(order, 0))
        self._keys = list(self._lines)
        self._next = max(self._keys) + 1
        self._customers = pq.read_metadata(files["customer"]).num_rows
        self._parts = pq.read_metadata(files["part"]).num_rows
        self._suppliers = pq.read_metadata(files["supplier"]).num_rows

    def write_burst(self, size: int) -> Iterator[Written]:
        """Writes about `size` operations: 60 % inserts, 25 % updates, the rest deletes."""
        orders = [self._new_order() for _ in range(max(1, size * 6 // 40))]
        yield self._orders.put_many(orders)
        yield self._items.put_many([item for order in orders for item in self._new_items(order)])
        updated = self._random.sample(self._keys, min(len(self._keys), max(1, size // 8)))
        yield self._orders.update_many([self._order_update(key) for key in updated])
        yield self._items.update_many([self._item_update(key) for key in updated])
        deleted = [self._remove_order() for _ in range(max(1, size // 33))]
        yield self._items.delete_many([(key, line + 1) for key, lines in deleted for line in range(lines)])
        yield self._orders.delete_many([key for key, _ in deleted])

    def _price(self, cents: int = 40_000_000) -> Decimal:
        return Decimal(self._random.randrange(100_000, cents)).scaleb(-2)

    def _new_order(self) -> dict[str, Any]:
        key, self._next = self._next, self._next + 1
        return {
            "o_orderkey": key,
            "o_custkey": self._random.randint(1, self._customers),
            "o_orderstatus": "O",
            "o_totalprice": self._price(),
            "o_orderdate": _TODAY + datetime.timedelta(days=self._random.randrange(60)),
            "o_orderpriority": "3-MEDIUM",
            "o_clerk": f"Clerk#{self._random.randrange(1000):09}",
            "o_shippriority": 0,
            "o_comment": "written while you watch",
        }

    def _new_items(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        self._lines[order["o_orderkey"]] = count = self._random.randint(1, 5)
        self._keys.append(order["o_orderkey"])
        return [
            {
                "l_orderkey": order["o_orderkey"],
                "l_linenumber": line + 1,
                "l_partkey": self._random.randint(1, self._parts),
                "l_suppkey": self._random.randint(1, self._suppliers),
                "l_quantity": Decimal(self._random.randint(1, 50)),
                "l_extendedprice": self._price(10_000_000),
                "l_discount": Decimal(self._random.randint(0, 10)).scaleb(-2),
                "l_tax": Decimal("0.04"),
                "l_returnflag": "N",
                "l_linestatus": "O",
                "l_shipdate": order["o_orderdate"] + datetime.timedelta(days=self._random.randrange(1, 90)),
                "l_shipmode": self._random.choice(["AIR", "RAIL", "SHIP", "TRUCK"]),
            }
            for line in range(count)
        ]

    def _order_update(self, key: int) -> dict[str, Any]:
        return {
            "o_orderkey": key,
            "o_orderstatus": self._random.choice(_STATUS),
            "o_totalprice": self._price(),
        }

    def _item_update(self, key: int) -> dict[str, Any]:
        discount = Decimal(self._random.randint(0, 10)).scaleb(-2)
        return {"l_orderkey": key, "l_linenumber": 1, "l_discount": discount}

    def _remove_order(self) -> tuple[int, int]:
        """Removes a random order from the bookkeeping. Returns its key and its number of items."""
        index = self._random.randrange(len(self._keys))
        self._keys[index], self._keys[-1] = self._keys[-1], self._keys[index]
        key = self._keys.pop()
        return key, self._lines.pop(key)
