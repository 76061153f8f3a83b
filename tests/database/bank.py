"""A bank: accounts and savings whose balances add up, writers that only ever move money, and what readers must see.

Run as a program it is a writer: it moves money between the accounts that are its own, in transactions of every
kind, until its stdin ends.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

import tailrace as tr

BRANCHES = 7
MINE, OTHER = 1000, 1001  # branches of the test's own accounts
EACH = 1000  # what every account and every savings account has at first

TABLES = ("accounts", "savings")
VIEWS = {
    "total": "SELECT SUM(balance) AS total FROM (SELECT balance FROM accounts UNION ALL SELECT balance FROM savings)",
    "checking": "SELECT branch, SUM(balance) AS total, COUNT(*) AS n FROM accounts GROUP BY branch",
    "saved": "SELECT branch, SUM(balance) AS total, MIN(balance) AS least FROM savings GROUP BY branch",
    "wealth": "SELECT a.id, s.id AS saver, COALESCE(a.balance, 0) + COALESCE(s.balance, 0) AS total"
    " FROM accounts a FULL JOIN savings s ON a.id = s.id",
}


def found(db: tr.Database, customers: int) -> int:
    """Make tables, views and customers, and two more for the test itself; how much money there is."""
    for name in TABLES:
        db.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, branch INT, balance BIGINT)")
        db.table(name).put_many([{"id": i, "branch": i % BRANCHES, "balance": EACH} for i in range(customers)])
    db.table("accounts").put_many([{"id": -b, "branch": b, "balance": EACH} for b in (MINE, OTHER)])
    for name, sql in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
    return 2 * EACH * (customers + 1)


def summed(rows: Any, column: str) -> int:
    return sum(value or 0 for value in rows.column(column).to_pylist())


def sums(source: tr.Database | tr.Snapshot) -> dict[str, int]:
    """The money in the bank, in every way that views and tables tell it."""
    row = source.view("total").get()
    assert row is not None
    branches = summed(source.view("checking").scan(), "total") + summed(source.view("saved").scan(), "total")
    return {
        "total": row["total"],
        "branches": branches,
        "wealth": summed(source.view("wealth").scan(), "total"),
        "tables": sum(summed(source.table(name).scan(), "balance") for name in TABLES),
    }


class Writer:
    """Moves money between its own customers, those whose number is `mine` modulo `writers`."""

    def __init__(self, db: tr.Database, mine: int, writers: int) -> None:
        self._db, self._random = db, random.Random(mine)
        self._numpy = np.random.default_rng(mine)
        self.balances: dict[str, dict[int, int]] = {}
        for name in TABLES:
            rows = db.table(name).scan().to_pylist()
            self.balances[name] = {r["id"]: r["balance"] for r in rows if r["id"] >= 0 and r["id"] % writers == mine}
        self._mine = sorted(self.balances["savings"])
        self.transactions = self.operations = 0

    def _customer(self) -> int:
        """By Zipf: a few customers have most of the business."""
        return self._mine[int(self._numpy.zipf(1.3)) % len(self._mine)]

    def _row(self, name: str, customer: int, more: int) -> dict[str, int]:
        """A customer's row with more money (or less); the account is opened if there is none, in some branch."""
        balances = self.balances[name]
        balances[customer] = balances.get(customer, 0) + more
        return {"id": customer, "branch": self._random.randrange(BRANCHES), "balance": balances[customer]}

    def step(self) -> None:
        kind = self._random.choice((self._transfer, self._transfer, self._save, self._close, self._many))
        written = kind(self._customer(), self._customer(), self._random.randrange(1, 50))
        self.transactions += written.operations > 0
        self.operations += written.operations

    def _transfer(self, one: int, other: int, amount: int) -> tr.Written:
        rows = [self._row("accounts", one, -amount), self._row("accounts", other, amount)]
        return self._db.table("accounts").put_many(rows)

    def _save(self, one: int, other: int, amount: int) -> tr.Written:
        with self._db.transaction() as t:
            t.table("accounts").put(self._row("accounts", one, -amount))
            row = self._row("savings", other, amount)
            t.table("savings").update({"id": other, "balance": row["balance"]})
        return t.written

    def _close(self, one: int, other: int, amount: int) -> tr.Written:
        """Close an account, which is opened again by the next transfer to or from it."""
        with self._db.transaction() as t:
            rest = self.balances["accounts"].pop(one, 0)
            t.table("savings").put(self._row("savings", other, rest))
            t.table("accounts").delete(one)
        return t.written

    def _many(self, one: int, other: int, amount: int) -> tr.Written:
        pairs = [(self._customer(), self._customer()) for _ in range(50)]
        rows = [self._row("accounts", c, m) for pair in pairs for c, m in zip(pair, (-amount, amount), strict=True)]
        return self._db.table("accounts").put_many(rows)


def main(path: str, mine: str, writers: str) -> None:
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    with tr.open(Path(path), create=False) as db:
        writer = Writer(db, int(mine), int(writers))
        while not stop.is_set():
            writer.step()
        holds = sum(sum(b.values()) for b in writer.balances.values())
        print(json.dumps({"transactions": writer.transactions, "operations": writer.operations, "holds": holds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
