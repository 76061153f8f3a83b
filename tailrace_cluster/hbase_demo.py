"""The steps of the demo on HBase: `python -m tailrace_cluster.hbase_demo HBASE SPARK --seconds 60 ...`.

A process of its own, so that Ctrl-C can end it at any moment. Its parent (`demo_host`) has started HBase and Spark and
has created the store. It cleans up.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import tailrace
from tailrace import temporary, terminal
from tailrace.cli import interrupts
from tailrace.database.database import Database
from tailrace.database.inside import inside
from tailrace.demo.show import Show
from tailrace.demo.stream import Applied
from tailrace.demo.views import EXAMPLES
from tailrace.errors import TailraceError
from tailrace.store.hbase.admin import Admin
from tailrace.store.hbase.hbase_store import HbaseStore
from tailrace_cluster.local_spark import LocalSpark
from tailrace_hbase.local_cluster import LocalCluster
from tailrace_hbase.servers import is_region_server

NAMESPACE = "tailrace_demo"
VIEWS = ("customer_spend", "part_prices", "nation_revenue", "nation_spend", "totals")
OWN_ORDER = 0  # the key of an order that no other process writes
PATIENCE = 180.0  # seconds until a view must show a write, also while HBase recovers


def run(hbase: LocalCluster, spark: LocalSpark, *, scale: float, seconds: float, rate: int) -> bool:
    """Runs the demo in an empty store. True if every view was right."""
    began = time.monotonic()
    show = Show(terminal.console(), [example for example in EXAMPLES if example.name in VIEWS], steps_done=1)
    options = tailrace.SparkOptions(master=spark.url, conf={"spark.executor.memory": "1g"})
    files = show.generate(scale, temporary.make("tailrace-demo-"), "HBase, one HBase table for each")
    with tailrace.open(hbase.url(NAMESPACE), spark=options) as db:
        show.load(db, files)
        show.build(db)
        own, victim = OwnWrites(db), Victim(show, hbase, db, seconds / 3)
        with own.running():
            measured = show.stream(db, files, seconds, rate, victim.after_epoch)
        victim.restart()
        show.reads(db, *db.view("nation_revenue").scan(limit=1)["n_name"].to_pylist())  # so few have no French supplier
        reports = show.verify(db)
    return show.close(measured, reports, time.monotonic() - began, own.waits)


class Victim:
    """The region server with the table `orders`. It is killed after some seconds of the stream."""

    def __init__(self, show: Show, hbase: LocalCluster, db: Database, after: float) -> None:
        self._show, self._hbase, self._db, self._after = show, hbase, db, after
        self._role: str | None = None
        self._killed_at: float | None = None

    def after_epoch(self, applied: Applied, elapsed: float) -> None:
        if self._role is None and elapsed >= self._after:
            self._kill()
        elif self._killed_at is not None:
            seconds = time.monotonic() - self._killed_at
            self._killed_at = None
            self._show.say(
                f"   [green]{seconds:.0f} s later the first epoch after that is committed.[/green] The other servers"
                " have its regions and its log.\n   Epochs go on; no change is lost or applied twice."
            )

    def restart(self) -> None:
        if self._role is not None:
            self._hbase.restart(self._role)
            self._show.say(f"   {self._role} is started again.")

    def _kill(self) -> None:
        self._role = role = self._server_of("orders")
        pid = self._hbase.server(role).pid()
        self._hbase.kill(role)
        self._killed_at = time.monotonic()
        self._show.say(
            f"   [bold red]Region server {role} (process {pid}) is killed now.[/bold red] It had the table orders."
            " HBase notices after 10 s, and\n   the other servers then replay its write-ahead log. Until then epochs"
            " and writes to its tables wait."
        )

    def _server_of(self, table: str) -> str:
        store = inside(self._db).store
        assert isinstance(store, HbaseStore)
        region, *_ = Admin(store.client).regions(f"{NAMESPACE}_data:{table}")
        address = ":".join(region.server.split(",")[:2])
        servers = [role for role in self._hbase.running() if is_region_server(role)]
        return next(role for role in servers if self._hbase.address(role) == address)


class OwnWrites:
    """Writes an order, waits until the view `totals` includes it, and so on. Keeps the seconds of each wait."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.waits: list[float] = []
        self._stop = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._loop, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
        self._db.refresh()  # its last write may have come after the last epoch
        thread.join()

    def _loop(self) -> None:
        orders, totals = self._db.table("orders"), self._db.view("totals")
        price, day = Decimal(1), datetime.date(1998, 8, 2)
        while not self._stop.wait(1.0):
            price += 1
            written = orders.put({"o_orderkey": OWN_ORDER, "o_custkey": 1, "o_totalprice": price, "o_orderdate": day})
            began = time.monotonic()
            totals.get((), at_least=written, timeout=PATIENCE)
            self.waits.append(time.monotonic() - began)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hbase", type=Path, help="directory of the local HBase cluster")
    parser.add_argument("spark", type=Path, help="directory of the local Spark cluster")
    add_options(parser)
    return parser.parse_args()


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that the demo and its host share."""
    parser.add_argument("--scale", type=float, default=0.005, help="TPC-H scale factor (0.005)")
    parser.add_argument("--seconds", type=float, default=60, help="how long rows change (60)")
    parser.add_argument("--rate", type=int, default=300, help="operations per second (300)")


def main() -> None:
    interrupts.install()
    given = parse_arguments()
    sizes = {"scale": given.scale, "seconds": given.seconds, "rate": given.rate}
    try:
        ok = run(LocalCluster(given.hbase), LocalSpark(given.spark), **sizes)
    except KeyboardInterrupt:
        interrupts.leave(interrupts.INTERRUPTED)
    except TailraceError as error:
        sys.exit(f"error: {error}")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
