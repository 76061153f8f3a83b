"""The Java processes of the cluster: each has a role, a pid file and a log file, and outlives its starter."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from tailrace_hbase.problems import ClusterProblem
from tailrace_hbase.settings import HOST

# Region servers are "rs1", "rs2", ...
ZOOKEEPER, MASTER, THRIFT = "zookeeper", "master", "thrift"

HEAP_MB = {ZOOKEEPER: 64, MASTER: 256, THRIFT: 256}
REGION_SERVER_HEAP_MB = 448

# Java 17 does not let HBase and Hadoop reflect on these packages otherwise.
OPENED = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.io", "java.lang", "java.lang.reflect", "java.net", "java.nio", "java.util", "sun.nio.ch")
)


def is_region_server(role: str) -> bool:
    return role.startswith("rs") and role[2:].isdigit()


@dataclass(frozen=True)
class Server:
    """One role of the cluster in `directory`."""

    directory: Path
    role: str

    @property
    def log(self) -> Path:
        return self.directory / "logs" / f"{self.role}.log"

    def pid(self) -> int | None:
        """Returns the id of the running process. A pid that belongs to another program by now does not count."""
        try:
            pid = int(self._pid_file.read_text())
            ours = self._mark in _command(psutil.Process(pid))
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            return None
        return pid if ours else None

    def memory(self) -> int:
        """Returns the resident memory in bytes, 0 if the process does not run."""
        pid = self.pid()
        return psutil.Process(pid).memory_info().rss if pid is not None else 0

    def start(self, java: str, classpath: list[str], port: int, region_servers: int) -> None:
        heap = REGION_SERVER_HEAP_MB if is_region_server(self.role) else HEAP_MB[self.role]
        command = [java, self._mark, f"-Xmx{heap}m", *_java_options(self.directory), "-cp", os.pathsep.join(classpath)]
        command += self._main(port, region_servers)
        with open(self.log, "ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory, start_new_session=True
            )
        self._pid_file.write_text(str(process.pid))
        _children.append(process)

    def kill(self, sent: signal.Signals = signal.SIGKILL, seconds: float = 30) -> None:
        """Sends a signal and waits for the end. A process that ignores SIGTERM is killed after `seconds`."""
        pid = self.pid()
        if pid is not None:
            os.kill(pid, sent)
            if not self._ended_within(seconds):
                os.kill(pid, signal.SIGKILL)
                if not self._ended_within(30):
                    raise ClusterProblem(f"{self.role} (process {pid}) does not end.")
        self._pid_file.unlink(missing_ok=True)

    def tail(self, lines: int = 15) -> str:
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _ended_within(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while self.pid() is not None:
            for child in _children:
                child.poll()  # a child that ended stays a zombie until somebody asks for it
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    @property
    def _pid_file(self) -> Path:
        return self.directory / f"{self.role}.pid"

    @property
    def _mark(self) -> str:
        return f"-Dtailrace.local={self.directory}:{self.role}"

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


def _command(process: psutil.Process) -> list[str]:
    """The command line of a process; empty if it has ended, or if there is none."""
    end = time.monotonic() + 5
    while not (command := process.cmdline()) and time.monotonic() < end:  # none for a moment while it is started
        if process.status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.01)
    return command if process.status() != psutil.STATUS_ZOMBIE else []


# Processes that this process started itself.
_children: list[subprocess.Popen[bytes]] = []


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
