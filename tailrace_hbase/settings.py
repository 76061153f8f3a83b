"""Ports, and the configuration files of HBase and ZooKeeper.

Times are short, so that tests of failures are: a dead region server is noticed after `SESSION_MS`, and its write-ahead
log is replicated by another one half a second later.
"""

from __future__ import annotations

import json
import os
import random
import socket
from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import escape

from tailrace_hbase.whole_files import write_whole

HOST = "127.0.0.1"
SESSION_MS = 10_000
PORTS_FILE = "ports.json"

# Below the range from which Linux and macOS take ports of outgoing connections. Processes that start clusters at the
# same moment mostly choose from different ones.
PORTS = range(20_000 + os.getpid() % 8, 32_000, 8)


def ports(directory: Path, roles: Iterable[str]) -> dict[str, int]:
    """Returns the port of every role that the directory knows, and of the given ones, chosen now if they are new."""
    file = directory / PORTS_FILE
    known: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
    before = dict(known)
    for role in roles:
        if role not in known:
            known[role] = _free_port(set(known.values()))
    if known != before:
        _keep(directory, known)
    return known


def forget_port(directory: Path, role: str) -> None:
    known = ports(directory, ())
    del known[role]
    _keep(directory, known)


def write_settings(directory: Path, zookeeper_port: int) -> None:
    """Writes `conf/hbase-site.xml` and `conf/zoo.cfg`. Ports of the servers are options of their commands."""
    conf = directory / "conf"
    properties = {**_LOCAL, **_QUICK, **_SMALL}
    properties["hbase.rootdir"] = (directory / "data").as_uri()
    properties["hbase.tmp.dir"] = str(directory / "tmp")
    properties["hbase.zookeeper.property.clientPort"] = str(zookeeper_port)
    zookeeper = (
        f"dataDir={directory / 'zookeeper'}\nclientPort={zookeeper_port}\nclientPortAddress={HOST}\n"
        "tickTime=1000\nadmin.enableServer=false\nmaxClientCnxns=0\nforceSync=no\n"
    )
    write_whole(conf / "hbase-site.xml", _site(properties).encode())
    write_whole(conf / "zoo.cfg", zookeeper.encode())


_LOCAL = {
    "hbase.cluster.distributed": "true",
    "hbase.zookeeper.quorum": HOST,
    # Only the loopback interface.
    "hbase.master.hostname": "localhost",
    "hbase.master.ipc.address": HOST,
    "hbase.master.info.port": "-1",
    "hbase.unsafe.regionserver.hostname": "localhost",
    "hbase.regionserver.ipc.address": HOST,
    "hbase.regionserver.info.port": "-1",
    "hbase.regionserver.thrift.ipaddress": HOST,
    "hbase.thrift.info.port": "-1",
    # A local disk. The default class for it writes checksums in blocks, so that a killed process loses what it flushed.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "hbase.unsafe.stream.capability.enforce": "false",
    "hbase.wal.provider": "filesystem",
    # Bulk loads leave a marker in the write-ahead log that replication sees.
    "hbase.replication.bulkload.enabled": "true",
    "hbase.replication.cluster.id": "local",
}

_QUICK = {
    "zookeeper.session.timeout": str(SESSION_MS),
    "hbase.regionserver.msginterval": "1000",
    "hbase.procedure.remote.dispatcher.delay.msec": "20",
    "replication.source.sleepforretries": "20",
    "replication.sleep.before.failover": "500",
    "hbase.serial.replication.waiting.ms": "100",
    # Archived write-ahead logs are deleted seconds after they were shipped, so that tests see what keeps them.
    "hbase.master.cleaner.interval": "2000",
    "hbase.master.logcleaner.ttl": "2000",
}

_SMALL = {
    "hbase.regionserver.handler.count": "10",
    "hbase.master.handler.count": "10",
    "hbase.regionserver.metahandler.count": "5",
    "hbase.hregion.memstore.flush.size": str(32 << 20),
    "replication.source.size.capacity": str(4 << 20),
}


def _site(properties: dict[str, str]) -> str:
    lines = (
        f"  <property><name>{name}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    )
    return "<configuration>\n" + "\n".join(lines) + "\n</configuration>\n"


def _keep(directory: Path, known: dict[str, int]) -> None:
    write_whole(directory / PORTS_FILE, f"{json.dumps(known, indent=1)}\n".encode())


def _free_port(taken: set[int]) -> int:
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            if port not in taken and probe.connect_ex((HOST, port)) != 0:
                return port
