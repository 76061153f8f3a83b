"""Elasticity: regions move, split and merge, servers are added, drained and killed, while writers and epochs run.

A bank has constant totals at every read meanwhile. At the end every view is verified, a recording is checked, and the
tables are as plain scans of HBase show them.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from elastic_bank import VIEWS, Bank, Reader, Teller, await_progress, key
from thrift_client import Client

import tailrace as tr
from tailrace.store.hbase.admin import Admin
from tailrace.store.hbase.client import Client as StoreClient
from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase

Told = Callable[[str], None]


@dataclass(frozen=True)
class Elastic:
    """A bank with writers, a reader and a runner, and what an administrator does to its cluster meanwhile."""

    cluster: LocalCluster
    client: Client
    db: tr.Database
    bank: Bank
    tellers: list[Teller]
    reader: Reader
    runner: Runner

    def await_progress(self) -> None:
        await_progress(self.tellers, self.reader, self.epoch)

    def epoch(self) -> int:
        assert self.runner.problem is None, self.runner.problem
        return self.db.status().epoch

    def events(self) -> list[dict[str, Any]]:
        assert self.runner.problem is None, self.runner.problem
        return self.db.status().administrative

    @contextmanager
    def seen(self, *kinds: str) -> Iterator[None]:
        """What happens in the block must show as administrative events of these kinds."""
        before = max((event["number"] for event in self.events()), default=0)
        yield
        end = time.monotonic() + 600
        while missing := set(kinds) - {e["kind"] for e in self.events() if e["number"] > before}:
            assert time.monotonic() < end, (missing, self.events())
            time.sleep(0.5)
        self.await_progress()

    def region(self, name: str, row: int) -> Any:
        regions = self.client.regions(self.bank.tables[name])
        return next(region for region in reversed(regions) if region.start <= key(row))

    def split(self, name: str, row: int) -> None:
        self.cluster.admin("split", self.bank.tables[name], "".join(f"\\x{byte:02X}" for byte in key(row)))

    def merge(self, name: str, first: int, second: int) -> None:
        self.cluster.admin("merge", *(self.region(name, row).encoded_name for row in (first, second)))

    def move(self, name: str, row: int, role: str) -> None:
        region = self.region(name, row)
        if region.server != self.cluster.address(role):
            self.cluster.admin("move", region.encoded_name, self.cluster.address(role))

    def restart(self, role: str) -> None:
        """SIGKILL. It is started again when the others have its regions, so that writers go on without it."""
        self.cluster.kill(role)
        self.await_progress()
        self.cluster.restart(role)

    def server_of_documents(self) -> str:
        """The role of the server that has the documents and locks of the store."""
        [region] = self.client.regions(f"{self.db.path.rpartition('/')[2]}:meta")
        return next(r for r in self.cluster.roles if r[:2] == "rs" and self.cluster.address(r) == region.server)


class Listener(logging.Handler):
    """Keeps the administrative events that the log has, by number."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.heard: dict[int, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if record.event == "administrative":  # type: ignore[attr-defined]
            fields: dict[str, Any] = record.fields  # type: ignore[attr-defined]
            self.heard[fields["number"]] = fields["kind"]


class Runner(threading.Thread):
    """Runs epochs until it is stopped."""

    def __init__(self, db: tr.Database) -> None:
        super().__init__(daemon=True)
        self._db = db
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            self._db.run(interval=1.0)
        except BaseException as problem:
            self.problem = problem

    def stop(self) -> None:
        self._db.stop()
        self.join(600)
        assert self.problem is None, self.problem
        assert not self.is_alive()


@contextmanager
def elastic(cluster: LocalCluster, spark: Any, customers: int, tellers: int) -> Iterator[Elastic]:
    """A bank in a new store, with everything running in the block. Afterwards everything is checked."""
    name, client = f"e{uuid.uuid4().hex[:8]}", Client(cluster.port)
    url = cluster.url(name)
    try:
        with tr.open(url, create=True, spark=spark) as db, tr.open(url, spark=spark) as running:
            cluster.admin("peer", "add", name)
            bank = Bank(db, client, customers)
            db.refresh()
            assert bank.wrong(db) == []
            working = [Teller(cluster.port, bank, n, tellers) for n in range(tellers)]
            reader, runner = Reader(url, bank), Runner(running)
            for thread in (runner, *working, reader):
                thread.start()
            try:
                yield Elastic(cluster, client, db, bank, working, reader, runner)
            finally:
                for ending in (*working, reader):
                    ending.ends.set()
                for ending in (*working, reader):
                    ending.join(600)
                runner.stop()
            assert [teller.problem for teller in working] == [None] * tellers
            assert reader.wrong == []
            assert min(reader.reads.values()) > 0, reader.reads
            db.refresh()
            judge(db, bank, client, working)
            bank.drop(client)
    finally:
        cluster.admin("peer", "remove", name)
        connected = StoreClient("127.0.0.1", cluster.port)
        Admin(connected).drop_namespace(name)
        connected.close()
        client.close()


def judge(db: tr.Database, bank: Bank, client: Client, tellers: list[Teller]) -> None:
    """Nothing is missing: HBase has what the writers did, the tables have what HBase has, the views follow."""
    assert bank.wrong(db) == []
    acknowledged = {row: count for teller in tellers for row, count in teller.done.items()}
    for name in bank.tables:
        plain = bank.scan(client, name)
        assert {(name, row["id"]): row["done"] for row in plain} == {
            r: c for r, c in acknowledged.items() if r[0] == name
        }
        with db.snapshot() as snapshot:
            assert sorted(snapshot.table(name).scan().to_pylist(), key=lambda row: row["id"]) == [
                {c: row[c] for c in ("id", "branch", "a", "b", "begun", "done")} for row in plain
            ]
    for name in VIEWS:
        report = db.verify(name)
        assert report.ok, report


def change_everything(bank: Elastic) -> None:
    """One round of everything that an administrator does. Each step ends when writers and epochs have gone on."""
    quarter, half = bank.bank.customers // 4, bank.bank.customers // 2
    with bank.seen("split"):
        bank.split("accounts", quarter)
        bank.move("accounts", quarter, "rs3")
    added = bank.cluster.add_server()
    bank.cluster.await_server(added)
    with bank.seen("moved", "server_added"):
        bank.move("vaults", 0, added)
        bank.move("accounts", quarter, added)
    with bank.seen("merged"):
        bank.merge("accounts", 0, quarter)
    with bank.seen("moved", "server_gone"):
        bank.cluster.remove_server(added, orderly=True)
    for row, role in ((0, "rs1"), (half, "rs2")):
        bank.move("accounts", row, role)
        bank.move("vaults", half - row, role)
    bank.restart(bank.server_of_documents())
    bank.await_progress()


@pytest.fixture
def listener() -> Iterator[Listener]:
    logger, attached = logging.getLogger("tailrace"), Listener()
    level = logger.level
    logger.addHandler(attached)
    logger.setLevel(logging.INFO)
    yield attached
    logger.removeHandler(attached)
    logger.setLevel(level)


def test_the_bank_on_a_cluster_that_changes(
    cluster: LocalCluster, spark: Any, tmp_path: Path, told: Told, listener: Listener
) -> None:
    began, recording = time.monotonic(), tmp_path / "history.arrow"
    with elastic(cluster, spark, customers=60, tellers=2) as bank:
        bank.await_progress()
        with bank.db.record(recording, ["wealth", "total"]):
            change_everything(bank)
        last = bank.db.status()
    shown = {event["number"]: event["kind"] for event in last.administrative}
    assert shown.items() <= listener.heard.items()
    transfers, reads = sum(t.count for t in bank.tellers), bank.reader.reads
    told(f"{transfers} transfers, {last.epoch} epochs, {len(shown)} administrative events, reads {reads}")
    checked = tr.check(recording, spark=spark)
    assert checked.ok, checked.verdict
    told(f"{checked.epochs} epochs checked, {time.monotonic() - began:.0f} s in all")


@pytest.mark.soak
def test_the_bank_on_a_cluster_that_changes_for_long(
    cluster: LocalCluster, spark: Any, tmp_path: Path, told: Told
) -> None:
    """Round after round of all changes; a recording of each round is checked at the end."""
    seconds, began, rounds = float(os.environ.get("BANK_SECONDS", "600")), time.monotonic(), 0
    with elastic(cluster, spark, customers=400, tellers=3) as bank:
        while time.monotonic() - began < seconds:
            with bank.db.record(tmp_path / f"history{rounds}.arrow", ["wealth", "total", "torn"]):
                change_everything(bank)
            rounds += 1
    told(f"{rounds} rounds, {sum(t.count for t in bank.tellers)} transfers, reads {bank.reader.reads}")
    for number in range(rounds):
        checked = tr.check(tmp_path / f"history{number}.arrow", spark=spark)
        assert checked.ok, checked.verdict
