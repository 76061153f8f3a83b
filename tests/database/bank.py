"""The bank of `test_bank.py`: two tables, views over them, and writers that move money but never create or lose any.

Run as a program, this module is a writer. It moves money between its own customers, in transactions of every kind,
until its stdin is closed.
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
MINE, OTHER = 1000, 1001  # branches of the two accounts that the test itself writes
EACH = 1000  # initial balance of every account and every savings account

TABLES = ("accounts", "savings")
VIEWS = {
    "total": "SELECT SUM(balance) AS total FROM (SELECT balance FROM accounts UNION ALL SELECT balance FROM savings)",
    "checking": "SELECT branch, SUM(balance) AS total, COUNT(*) AS n FROM accounts GROUP BY branch",
    "saved": "SELECT branch, SUM(balance) AS total, MIN(balance) AS least FROM savings GROUP BY branch",
    "wealth": "SELECT a.id, s.id AS saver, COALESCE(a.balance, 0) + COALESCE(s.balance, 0) AS total"
    " FROM accounts a FULL JOIN savings s ON a.id = s.id",
    "strict": "SELECT id, IF(branch = 666, CAST(raise_error('a forbidden branch') AS BIGINT), balance) AS balance"
    " FROM accounts",
}
POISON = {"id": -666, "branch": 666, "balance": 0}  # the view `strict` fails on this row


def open_bank(db: tr.Database, customers: int) -> int:
    """Create tables, views, customers, and two accounts for the test itself. Returns the total amount of money."""
    for name in TABLES:
        db.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, branch INT, balance BIGINT)")
        db.table(name).put_many([{"id": i, "branch": i % BRANCHES, "balance": EACH} for i in range(customers)])
    db.table("accounts").put_many([{"id": -b, "branch": b, "balance": EACH} for b in (MINE, OTHER)])
    for name, sql in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
    return 2 * EACH * (customers + 1)


def sum_column(rows: Any, column: str) -> int:
    return sum(value or 0 for value in rows.column(column).to_pylist())


def sums(source: tr.Database | tr.Snapshot) -> dict[str, int]:
    """The total amount of money, computed from each view and from the tables."""
    row = source.view("total").get()
    assert row is not None
    branches = sum_column(source.view("checking").scan(), "total") + sum_column(source.view("saved").scan(), "total")
    return {
        "total": row["total"],
        "branches": branches,
        "wealth": sum_column(source.view("wealth").scan(), "total"),
        "tables": sum(sum_column(source.table(name).scan(), "balance") for name in TABLES),
    }


class Writer:
    """Moves money between its own customers: those whose id is `mine` modulo `writers`."""

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
        """A random customer, Zipf-distributed: a few customers get most of the transactions."""
        return self._mine[int(self._numpy.zipf(1.3)) % len(self._mine)]

    def _row(self, name: str, customer: int, more: int) -> dict[str, int]:
        """The customer's row with `more` added to the balance, in a random branch. Opens a closed account."""
        balances = self.balances[name]
        balances[customer] = balances.get(customer, 0) + more
        return {"id": customer, "branch": self._random.randrange(BRANCHES), "balance": balances[customer]}

    def step(self) -> None:
        write = self._random.choice((self._transfer, self._transfer, self._save, self._close, self._many))
        written = write(self._customer(), self._customer(), self._random.randrange(1, 50))
        self.transactions += written.operations > 0
        self.operations += written.operations

    def _transfer(self, source: int, target: int, amount: int) -> tr.Written:
        rows = [self._row("accounts", source, -amount), self._row("accounts", target, amount)]
        return self._db.table("accounts").put_many(rows)

    def _save(self, source: int, target: int, amount: int) -> tr.Written:
        with self._db.transaction() as t:
            t.table("accounts").put(self._row("accounts", source, -amount))
            row = self._row("savings", target, amount)
            t.table("savings").update({"id": target, "balance": row["balance"]})
        return t.written

    def _close(self, source: int, target: int, amount: int) -> tr.Written:
        """Closes an account. The next transfer to or from it opens it again."""
        with self._db.transaction() as t:
            rest = self.balances["accounts"].pop(source, 0)
            t.table("savings").put(self._row("savings", target, rest))
            t.table("accounts").delete(source)
        return t.written

    def _many(self, source: int, target: int, amount: int) -> tr.Written:
        pairs = [(self._customer(), self._customer()) for _ in range(50)]
        rows = [self._row("accounts", c, m) for pair in pairs for c, m in zip(pair, (-amount, amount), strict=True)]
        return self._db.table("accounts").put_many(rows)


def main(path: str, mine: str, writers: str) -> None:
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    with tr.open(Path(path)) as db:
        writer = Writer(db, int(mine), int(writers))
        while not stop.is_set():
            writer.step()
        holds = sum(sum(b.values()) for b in writer.balances.values())
        print(json.dumps({"transactions": writer.transactions, "operations": writer.operations, "holds": holds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
