"""The processes of HBase, by role: what each runs, with which heap."""

from __future__ import annotations

import os
from pathlib import Path

from tailrace_hbase.java_process import OPENED, JavaProcess
from tailrace_hbase.settings import HOST

# Region servers are "rs1", "rs2", ...
ZOOKEEPER, MASTER, THRIFT = "zookeeper", "master", "thrift"

HEAP_MB = {ZOOKEEPER: 64, MASTER: 256, THRIFT: 256}
REGION_SERVER_HEAP_MB = 448


def is_region_server(role: str) -> bool:
    return role.startswith("rs") and role[2:].isdigit()


class Server(JavaProcess):
    """One role of the HBase cluster in `directory`."""

    def start(self, java: str, classpath: list[str], port: int, region_servers: int) -> None:
        heap = REGION_SERVER_HEAP_MB if is_region_server(self.role) else HEAP_MB[self.role]
        options = [f"-Xmx{heap}m", *_java_options(self.directory), "-cp", os.pathsep.join(classpath)]
        self.launch(java, options, self._main(port, region_servers))

    def _main(self, port: int, region_servers: int) -> list[str]:
        if self.role == ZOOKEEPER:
            return ["org.apache.zookeeper.server.ZooKeeperServerMain", str(self.directory / "conf" / "zoo.cfg")]
        if self.role == MASTER:
            # The master waits for the region servers that were started with it, so that all of them get regions.
            wait = "hbase.master.wait.on.regionservers"
            options = [f"hbase.master.port={port}", f"{wait}.maxtostart={region_servers}", f"{wait}.timeout=15000"]
            return ["org.apache.hadoop.hbase.master.HMaster", *_definitions(options), "start"]
        if self.role == THRIFT:
            return ["org.apache.hadoop.hbase.thrift2.ThriftServer", "-b", HOST, "-p", str(port), "start"]
        options = [f"hbase.regionserver.port={port}"]
        return ["org.apache.hadoop.hbase.regionserver.HRegionServer", *_definitions(options), "start"]


def _java_options(directory: Path) -> list[str]:
    return [
        "-Xms32m",
        "-XX:+UseSerialGC",
        "-XX:MaxDirectMemorySize=128m",
        "-XX:-UsePerfData",
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.net.preferIPv4Stack=true",
        f"-Djava.io.tmpdir={directory / 'tmp'}",
        "-Dzookeeper.jmx.log4j.disable=true",
        "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
        "-Dorg.slf4j.simpleLogger.showThreadName=false",
        *OPENED,
    ]


def _definitions(options: list[str]) -> list[str]:
    return [part for option in options for part in ("-D", option)]
