"""`LocalSpark`: a standalone Spark cluster in one directory, started and stopped as a whole or role by role."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import psutil
import pyspark

from tailrace.spark.java import find_java
from tailrace_hbase.artifacts import CHECKOUT
from tailrace_hbase.java_process import OPENED, JavaProcess
from tailrace_hbase.problems import ClusterProblem
from tailrace_hbase.settings import HOST, forget_port, ports

DIRECTORY = CHECKOUT / ".spark"
START_SECONDS = 120
HOME = Path(pyspark.__file__).parent
MASTER, PAGE = "master", "master-page"  # ports; PAGE is the one of the master's web page
EXECUTOR = "CoarseGrainedExecutorBackend"


class LocalSpark:
    """A master and workers (w1, w2, ...) on the loopback interface. A worker runs one executor of an application.

    The directory keeps the ports. Processes outlive the object: another `LocalSpark` of the same directory controls
    the same cluster. `env` is added to the environment of workers, which executors inherit. With `own_hosts`, each
    worker has another loopback address (Linux only), so that Spark takes them for different machines.
    """

    def __init__(
        self, directory: Path | str = DIRECTORY, *, env: Mapping[str, str] | None = None, own_hosts: bool = False
    ) -> None:
        self.directory = Path(directory).absolute()
        self._env, self._own_hosts = env or {}, own_hosts

    @property
    def url(self) -> str:
        """The URL of the master, for `--master`."""
        return f"spark://{HOST}:{ports(self.directory, ())[MASTER]}"

    @property
    def workers(self) -> list[str]:
        """The roles of all workers that the directory knows."""
        known = ports(self.directory, ()) if self.directory.exists() else {}
        return sorted((role for role in known if role not in (MASTER, PAGE)), key=lambda role: int(role[1:]))

    def running(self) -> list[str]:
        roles = [MASTER, *self.workers] if self.workers else []
        return [role for role in roles if self.process(role).pid() is not None]

    def process(self, role: str) -> JavaProcess:
        if role != MASTER and role not in self.workers:
            raise ClusterProblem(
                f"There is no worker {role!r} in {self.directory}; workers: {', '.join(self.workers)}."
            )
        return JavaProcess(self.directory, role)

    def executors(self, role: str) -> list[psutil.Process]:
        """The executors that a worker has started and that run."""
        if (pid := self.process(role).pid()) is None:
            return []
        return [p for p in psutil.Process(pid).children() if any(EXECUTOR in word for word in p.cmdline())]

    def start(self, workers: int | None = None) -> list[str]:
        """Starts the processes that do not run, and waits until the master knows them. Returns their roles.

        `workers` is the number of workers, 2 in a new directory. More can be added, none are taken away.
        """
        for name in ("logs", "tmp", "work"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        known = len(self.workers) or 2
        ports(self.directory, (MASTER, PAGE, *(f"w{n + 1}" for n in range(workers or known))))
        missing = [role for role in (MASTER, *self.workers) if self.process(role).pid() is None]
        for role in missing:
            self._launch(role)
        self._await_workers(self.workers)
        return missing

    def add_worker(self) -> str:
        """Starts one more worker, and waits until the master knows it. Returns its role."""
        role = f"w{1 + int(self.workers[-1][1:])}"
        ports(self.directory, (role,))
        self._launch(role)
        self._await_workers([role])
        return role

    def remove_worker(self, role: str) -> None:
        """SIGKILL of a worker, which is not started again. Its executors notice, and end."""
        self.process(role).kill()
        forget_port(self.directory, role)

    def stop(self) -> list[str]:
        """Kills all processes. Returns the roles that ran."""
        ran = self.running()
        left = [executor for role in ran if role != MASTER for executor in self.executors(role)]
        for role in reversed(ran):
            self.process(role).kill()
        for executor in left:
            if executor.is_running():
                executor.kill()
        return ran

    def _launch(self, role: str) -> None:
        known, home = ports(self.directory, ()), find_java(self.directory)
        host, name = self._host(role), "Master" if role == MASTER else "Worker"
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", *OPENED]
        options += ["-Dspark.master.rest.enabled=false", f"-Djava.io.tmpdir={self.directory / 'tmp'}"]
        main = [f"org.apache.spark.deploy.{name.lower()}.{name}", "--host", host, "--port", str(known[role])]
        if role == MASTER:
            main += ["--webui-port", str(known[PAGE])]
        else:
            work = self.directory / "work" / role
            main += ["--webui-port", "0", "--cores", "1", "--memory", "2g", "--work-dir", str(work), self.url]
        self.process(role).launch(
            f"{home}/bin/java", [*options, "-cp", str(HOME / "jars" / "*")], main, self._environment(home, host)
        )
        if role == MASTER:
            self._await_workers([])

    def _host(self, role: str) -> str:
        return f"127.0.0.{role[1:]}" if self._own_hosts and role != MASTER else HOST

    def _environment(self, java_home: str, host: str) -> dict[str, str]:
        return {
            **os.environ,
            "JAVA_HOME": java_home,
            "SPARK_HOME": str(HOME),
            "SPARK_SCALA_VERSION": _scala_version(),
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_DIRS": str(self.directory / "tmp"),
            **self._env,
        }

    def _await_workers(self, roles: list[str]) -> None:
        """Waits until the master answers and knows these workers. Fails at once if a process has ended."""
        end = time.monotonic() + START_SECONDS
        wanted = {ports(self.directory, ())[role] for role in roles}
        while (known := self._registered()) is None or not wanted <= known:
            dead = [role for role in (MASTER, *roles) if self.process(role).pid() is None]
            if dead or time.monotonic() > end:
                process = self.process(dead[0] if dead else (*roles, MASTER)[0])
                what = "ended" if dead else f"did not answer within {START_SECONDS} s"
                raise ClusterProblem(f"Spark's {process.role} {what}. End of {process.log}:\n{process.tail()}")
            time.sleep(0.1)

    def _registered(self) -> set[int] | None:
        """The ports of the workers that the master knows; None if it does not answer."""
        page = f"http://{HOST}:{ports(self.directory, ())[PAGE]}/json/"
        try:
            with urllib.request.urlopen(page, timeout=10) as answer:
                workers = json.load(answer)["workers"]
        except OSError:
            return None
        return {worker["port"] for worker in workers if worker["state"] == "ALIVE"}


def _scala_version() -> str:
    """What Spark's start scripts tell workers, which start executors: 2.13, of `spark-core_2.13-4.3.0.jar`."""
    [core] = HOME.glob("jars/spark-core_*.jar")
    return core.name.partition("_")[2].partition("-")[0]
