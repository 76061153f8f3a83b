"""Sets up a cluster of HBase for a store, as far as that is possible from outside, and says what is left to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tailrace.errors import StoreError
from tailrace.store.requested import Requested
from tailrace.store.store_ref import StoreRef

_SITE = {
    "replication.source.sleepforretries": ("20", "ms that a new change waits in the log before it is shipped"),
    "hbase.serial.replication.waiting.ms": ("100", "ms between looks whether an earlier region is shipped"),
    "replication.sleep.before.failover": ("500", "ms until the log of a dead server is claimed by another one"),
    "hbase.replication.bulkload.enabled": ("true", "bulk loads leave a note in the log, so that tables are read again"),
    "hbase.replication.cluster.id": ("main", "any name: HBase wants one for the line above"),
}


@dataclass(frozen=True)
class InstallStep:
    """One step: done now or before, failed, or left to the operator."""

    state: Literal["done", "todo", "failed"]
    what: str
    detail: str = ""

    def __str__(self) -> str:
        lines = [f"{self.state:6}  {self.what}", *(f"        {line}" for line in self.detail.splitlines())]
        return "\n".join(lines)


def install_cluster(
    ref: StoreRef, nodes: int | None, shards: int | None, hbase_home: str | None
) -> Iterator[InstallStep]:
    from tailrace.store.hbase.java_admin import JAR

    yield InstallStep(
        "todo",
        "the jar on the classpath of the master and of every region server",
        f"copy {JAR}\nto the directory lib/ of HBase on each host",
    )
    yield InstallStep("todo", "settings in hbase-site.xml of the master and of every region server", _site())
    yield InstallStep("todo", "a restart of the master and of the region servers, one after another")
    existed = ref.exists
    ref.open(Requested(nodes, shards), create=True).close()
    yield InstallStep("done", f"the namespace and its tables: {ref.url}", "they existed already" if existed else "")
    yield _add_peer(ref, hbase_home)
    yield InstallStep("todo", "the check of the result", f"tailrace hbase check {ref.url}")


def _site() -> str:
    lines = []
    for name, (value, why) in _SITE.items():
        lines += [f"<!-- {why} -->", f"<property><name>{name}</name><value>{value}</value></property>"]
    return "\n".join(lines)


def _add_peer(ref: StoreRef, hbase_home: str | None) -> InstallStep:
    from tailrace.store.hbase.hbase_store import parse_location
    from tailrace.store.hbase.java_admin import JAR, by_hand, find_hbase, run_admin

    namespace = parse_location(ref)[2]
    what, hbase = "the replication peer: HBase ships its log to the store", find_hbase(hbase_home)
    if hbase is None:
        where = f"there is no command `hbase` here; run on a host of the cluster, with {JAR.name}:"
        return InstallStep("todo", what, f"{where}\n{by_hand('peer', 'add', namespace)}")
    try:
        peer = run_admin(hbase, "peer", "add", namespace)["peer"]
    except StoreError as error:
        return InstallStep("failed", what, f"{error}\ndo what is above, then run this again")
    return InstallStep("done", what, f"{peer['id']}: {'serial' if peer['serial'] else 'not serial'}")
