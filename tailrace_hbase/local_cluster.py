"""`LocalCluster`: a cluster in one directory, started and stopped as a whole or role by role."""

from __future__ import annotations

import signal
import socket
import time
from pathlib import Path
from typing import Any

from tailrace_hbase import artifacts, settings
from tailrace_hbase.admin_session import AdminSession
from tailrace_hbase.administration import write_command
from tailrace_hbase.probing import answers
from tailrace_hbase.problems import ClusterProblem
from tailrace_hbase.servers import MASTER, THRIFT, ZOOKEEPER, Server, is_region_server
from tailrace_hbase.whole_files import write_whole

DIRECTORY = artifacts.CHECKOUT / ".hbase"
START_SECONDS = 180
STOP_SECONDS = 60


class LocalCluster:
    """ZooKeeper, a master, region servers and a Thrift2 server, all on 127.0.0.1.

    The directory keeps ports, data and logs, so a cluster that was stopped starts again with what it had. Processes
    outlive the object: another `LocalCluster` of the same directory controls the same cluster.
    """

    def __init__(self, directory: Path | str = DIRECTORY) -> None:
        self.directory = Path(directory).absolute()
        self._admin = AdminSession(self.directory / "bin" / "hbase")

    @property
    def roles(self) -> list[str]:
        """All roles that the directory knows, in the order of starting."""
        known = settings.ports(self.directory, ()) if self.directory.exists() else {}
        return sorted(known, key=lambda role: (_ORDER.get(role, 1), len(role), role))

    @property
    def port(self) -> int:
        """The port of the Thrift2 server."""
        return settings.ports(self.directory, ())[THRIFT]

    def url(self, namespace: str) -> str:
        return f"hbase://{settings.HOST}:{self.port}/{namespace}"

    def server(self, role: str) -> Server:
        if role not in self.roles:
            raise ClusterProblem(f"There is no role {role!r} in {self.directory}; roles: {', '.join(self.roles)}.")
        return Server(self.directory, role)

    def running(self) -> list[str]:
        return [role for role in self.roles if self.server(role).pid() is not None]

    def start(self, servers: int | None = None) -> list[str]:
        """Starts the roles that do not run, and waits until the cluster answers. Returns the roles it started.

        `servers` is the number of region servers, 3 in a new directory. More can be added, none are taken away.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        for name in ("logs", "tmp", "data"):
            (self.directory / name).mkdir(exist_ok=True)
        if servers is None:
            servers = len([role for role in self.roles if is_region_server(role)]) or 3
        settings.ports(self.directory, (ZOOKEEPER, *(f"rs{n + 1}" for n in range(servers)), MASTER, THRIFT))
        missing = [role for role in self.roles if self.server(role).pid() is None]
        for role in missing:
            self._launch(role)
        if missing:
            self.await_answer()
        return missing

    def restart(self, role: str) -> None:
        """Starts one role, after ending it if it runs, and waits until the cluster answers."""
        self.server(role).kill(signal.SIGTERM)
        self._launch(role)
        self.await_answer()

    def kill(self, role: str) -> None:
        """SIGKILL of one role."""
        self.server(role).kill()

    def add_server(self) -> str:
        """Starts one more region server. Returns its role. It joins the cluster soon (`await_server`)."""
        number = 1 + max(int(role[2:]) for role in self.roles if is_region_server(role))
        role = f"rs{number}"
        settings.ports(self.directory, (role,))
        self._launch(role)
        return role

    def remove_server(self, role: str, orderly: bool = False) -> None:
        """Ends a region server, which is not started again. An orderly end moves its regions away first."""
        if orderly:
            self.admin("drain", self.address(role))
        self.server(role).kill(signal.SIGTERM if orderly else signal.SIGKILL)
        settings.forget_port(self.directory, role)

    def stop(self, orderly: bool = True) -> list[str]:
        """Ends all processes. Returns the roles that ran.

        An orderly stop closes the regions first. Without it the next start is a recovery from the write-ahead logs, and
        serial replication may stand still for ever (HBASE-29499) if it happens twice without a write in between.
        """
        ran = self.running()
        closing = [role for role in ran if role == MASTER or is_region_server(role)]
        if orderly and MASTER in closing and ZOOKEEPER in ran:
            self._close(closing)
        self._admin.close()
        for role in reversed(ran):
            self.server(role).kill()
        return ran

    def admin(self, *arguments: str) -> Any:
        """Runs a command of `io.tailrace.hbase.Admin`, such as `admin("peer", "add", "shop")`. Returns its answer."""
        write_command(self.directory, self.classpath())
        return self._admin.run(*arguments)

    def address(self, role: str) -> str:
        """The address of a region server, as `admin` names it."""
        return f"localhost:{settings.ports(self.directory, ())[role]}"

    def classpath(self) -> list[str]:
        """The configuration, the endpoint's jar, the jars of HBase."""
        jars = artifacts.classpath()
        own = [str(self._endpoint())] if artifacts.ENDPOINT_JAR.exists() else []
        return [str(self.directory / "conf"), *own, *jars]

    def await_answer(self, seconds: float = START_SECONDS) -> None:
        """Waits until a put and a get succeed. Fails at once if a process of the cluster has ended."""
        end = time.monotonic() + seconds
        expected = self.running()
        while (problem := answers(self.port)) is not None:
            dead = [role for role in expected if self.server(role).pid() is None]
            if dead or time.monotonic() > end:
                role = dead[0] if dead else THRIFT
                what = f"{role} ended" if dead else f"no answer within {seconds:.0f} s ({problem})"
                server = self.server(role)
                raise ClusterProblem(f"The cluster did not start: {what}. End of {server.log}:\n{server.tail()}")
            time.sleep(0.2)

    def await_server(self, role: str, seconds: float = START_SECONDS) -> None:
        """Waits until the master knows a region server."""
        end = time.monotonic() + seconds
        while self.address(role) not in {s["server"] for s in self.admin("check", "none")["servers"]}:
            if time.monotonic() > end or self.server(role).pid() is None:
                raise ClusterProblem(f"{role} did not join the cluster. Its log ends with:\n{self.server(role).tail()}")
            time.sleep(0.2)

    def _close(self, roles: list[str]) -> None:
        """Lets master and region servers end by themselves. Whoever has not ended in time is killed by the caller."""
        try:
            self.admin("shutdown")
        except ClusterProblem:
            return
        end = time.monotonic() + STOP_SECONDS
        while set(roles) & set(self.running()) and time.monotonic() < end:
            time.sleep(0.1)

    def _launch(self, role: str) -> None:
        ports = settings.ports(self.directory, ())
        settings.write_settings(self.directory, ports[ZOOKEEPER])
        write_command(self.directory, self.classpath())
        region_servers = len([r for r in self.running() if is_region_server(r)])
        self.server(role).start(artifacts.java(), self.classpath(), ports[role], max(region_servers, 1))
        if role == ZOOKEEPER:
            self._await_port(ports[role])

    def _await_port(self, port: int) -> None:
        """Without ZooKeeper the others would wait for seconds between two attempts."""
        end = time.monotonic() + 60
        while True:
            with socket.socket() as probe:
                if probe.connect_ex((settings.HOST, port)) == 0:
                    return
            server = self.server(ZOOKEEPER)
            if server.pid() is None or time.monotonic() > end:
                raise ClusterProblem(f"ZooKeeper did not start. End of {server.log}:\n{server.tail()}")
            time.sleep(0.05)

    def _endpoint(self) -> Path:
        """Copies the jar of the endpoint: a JVM fails if a jar it has open is overwritten by a build."""
        copy = self.directory / "lib" / "tailrace-hbase.jar"
        write_whole(copy, artifacts.ENDPOINT_JAR.read_bytes())
        return copy


_ORDER = {ZOOKEEPER: 0, MASTER: 2, THRIFT: 3}
