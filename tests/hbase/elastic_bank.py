"""The bank on HBase: two tables that plain clients write, and views over them whose totals never change.

Every row has two balances with a constant sum, and a transfer puts both at once. Before a transfer, the writer puts the
number of the transfer alone. So a cut that has a later change of a row without the earlier one shows: in it a transfer
is done that was never begun.
"""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

from thrift_client import Client

import tailrace as tr
from tailrace.errors import SnapshotGone, StoreUnavailable, Timeout

EACH = 1000  # the sum of a row
BRANCHES = 5
COLUMNS = "id=:key#binary, branch=f:branch#binary, a=f:a#binary, b=f:b#binary, begun=f:begun#binary, done=g:done#binary"
VIEWS = {
    "branches": "SELECT branch, SUM(a + b) AS total, COUNT(*) AS n FROM accounts GROUP BY branch",
    "wealth": "SELECT x.id, x.a + x.b + y.a + y.b AS total, x.done AS xs, y.done AS ys"
    " FROM accounts x JOIN vaults y ON x.id = y.id",
    "total": "SELECT SUM(a + b) AS total, SUM(a) AS moved, SUM(done) AS done, COUNT(*) AS n"
    " FROM (SELECT * FROM accounts UNION ALL SELECT * FROM vaults)",
    "torn": "SELECT id, begun, done FROM accounts WHERE done > begun OR begun > done + 1 OR a + b <> 1000",
}


def key(number: int) -> bytes:
    return struct.pack(">i", number)


def number(value: int) -> bytes:
    return struct.pack(">q", value)


class Bank:
    """Two tables of HBase with `customers` rows each, in two regions each, and the views over them."""

    def __init__(self, db: tr.Database, client: Client, customers: int) -> None:
        self.customers = customers
        self.tables = {name: f"{name}_{uuid4().hex[:8]}" for name in ("accounts", "vaults")}
        for name, table in self.tables.items():
            client.create_table(table, ("f", "g"), 0, [key(customers // 2)])
            client.put_rows(table, ((key(n), self._new_row(n)) for n in range(customers)))
            db.sql(
                f"CREATE TABLE {name} (id INT PRIMARY KEY, branch BIGINT, a BIGINT, b BIGINT,"
                f" begun BIGINT, done BIGINT) WITH (hbase.table = '{table}', hbase.columns = '{COLUMNS}')"
            )
        for name, sql in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")

    @staticmethod
    def _new_row(customer: int) -> dict[str, bytes]:
        amounts = {"f:branch": customer % BRANCHES, "f:a": EACH, "f:b": 0, "f:begun": 0, "g:done": 0}
        return {column: number(value) for column, value in amounts.items()}

    def wrong(self, source: tr.Database | tr.Snapshot) -> list[Any]:
        """What a read of all views shows that cannot be."""
        found: list[Any] = []
        total = source.view("total").get()
        if total is None or (total["total"], total["n"]) != (2 * EACH * self.customers, 2 * self.customers):
            found.append(("total", total))
        branches = source.view("branches").scan().to_pylist()
        if sum(row["n"] for row in branches) != self.customers:
            found.append(("branches", branches))
        found += [("branches", row) for row in branches if row["total"] != EACH * row["n"]]
        wealth = source.view("wealth").scan().to_pylist()
        found += [("wealth", row) for row in wealth if row["total"] != 2 * EACH]
        if len(wealth) != self.customers:
            found.append(("wealth", len(wealth)))
        return found + [("torn", row) for row in source.view("torn").scan().to_pylist()]

    def scan(self, client: Client, name: str) -> list[dict[str, int]]:
        """What a plain scan of HBase shows."""
        rows = []
        for result in client.scan(self.tables[name]):
            cells = {cell.qualifier.decode(): struct.unpack(">q", cell.value)[0] for cell in result.columnValues}
            rows.append({"id": struct.unpack(">i", result.row)[0], **cells})
        return rows

    def drop(self, client: Client) -> None:
        for table in self.tables.values():
            client.drop_table(table)


class Teller(threading.Thread):
    """Makes transfers in its own rows of both tables, one after the other."""

    def __init__(self, port: int, bank: Bank, mine: int, tellers: int) -> None:
        super().__init__(daemon=True)
        self._client, self._bank, self._random = Client(port), bank, random.Random(mine)
        self._mine = [n for n in range(bank.customers) if n % tellers == mine]
        self.done = {(name, n): 0 for name in bank.tables for n in self._mine}
        self.count = 0
        self.ends = threading.Event()
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.ends.is_set():
                self._transfer(self._random.choice(list(self._bank.tables)), self._random.choice(self._mine))
                self.ends.wait(0.02)  # leaves the machine some time for what the test does
        except BaseException as problem:
            self.problem = problem
        finally:
            self._client.close()

    def _transfer(self, name: str, customer: int) -> None:
        table, amount = self._bank.tables[name], self._random.randrange(EACH + 1)
        transfer = self.done[name, customer] + 1
        self._client.put(table, key(customer), {"f:begun": number(transfer)})
        cells = {"f:a": amount, "f:b": EACH - amount, "g:done": transfer}
        self._client.put(table, key(customer), {column: number(value) for column, value in cells.items()})
        self.done[name, customer] = transfer
        self.count += 1


class Reader(threading.Thread):
    """Reads all views, now and then in a snapshot, and its own writes by their positions."""

    def __init__(self, url: str, bank: Bank) -> None:
        super().__init__(daemon=True)
        self._url, self._bank = url, bank
        self.reads = {"plain": 0, "snapshot": 0, "again": 0, "own": 0}
        self.wrong: list[Any] = []
        self.ends = threading.Event()
        self._newest = 0

    def run(self) -> None:
        try:
            with tr.open(self._url) as db:
                while not self.ends.is_set() and not self.wrong:
                    for read in (self._plain, self._snapshot, self._own):
                        if not self.ends.is_set():
                            with suppress(StoreUnavailable, SnapshotGone):  # a server is away for long
                                read(db)
        except BaseException as problem:
            self.wrong.append(problem)

    def _plain(self, db: tr.Database) -> None:
        row = db.view("total").get()
        if row is None or row["total"] != 2 * EACH * self._bank.customers or row["done"] < self._newest:
            self.wrong.append(("plain", row, self._newest))
        else:
            self._newest = row["done"]
        self.reads["plain"] += 1

    def _snapshot(self, db: tr.Database) -> None:
        with db.snapshot() as snapshot:
            self.wrong += self._bank.wrong(snapshot)
            before = snapshot.view("wealth").scan()
            self.reads["snapshot"] += 1
            self.ends.wait(1)
            if snapshot.view("wealth").scan() != before:
                self.wrong.append("a snapshot has changed")
            self.reads["again"] += 1

    def _own(self, db: tr.Database) -> None:
        """Changes the branch of a row, and reads it back by the position of the write."""
        branch = 100 + self.reads["own"]
        written = db.table("accounts").update({"id": 0, "branch": branch})
        while not self.ends.is_set():
            with suppress(Timeout):  # looks now and then whether the test has ended
                row = db.view("branches").get(branch, at_least=written, timeout=5)
                if row is None or row["n"] != 1:
                    self.wrong.append(("own", branch, row))
                self.reads["own"] += 1
                return


def await_progress(
    tellers: Sequence[Teller], reader: Reader, epoch: Callable[[], int], transfers: int = 20, seconds: float = 600
) -> None:
    """Waits until every teller has made some more transfers, and two more epochs are committed."""
    goals, last = [teller.count + transfers for teller in tellers], epoch() + 2
    end = time.monotonic() + seconds
    while (now := epoch()) < last or any(t.count < goal for t, goal in zip(tellers, goals, strict=True)):
        problems = [teller.problem for teller in tellers if teller.problem] + reader.wrong
        assert not problems, problems
        assert time.monotonic() < end, f"transfers {[t.count for t in tellers]} of {goals}, epoch {now} of {last}"
        time.sleep(0.1)
