"""A Spark cluster on this machine: a master, and two workers with one executor each on two loopback addresses.

Spark runs the speculative copy of a slow task only on another host. `local-cluster` has one host, so it never would.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pyspark
from fault_processes import until

from tailrace.spark.session import find_java

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
HOSTS = ("127.0.0.1", "127.0.0.2")


@contextmanager
def cluster(path: Path, faults: Path) -> Iterator[str]:
    """Runs the cluster; yields the address of its master."""
    with socket.socket() as free:
        free.bind((HOSTS[0], 0))
        port = free.getsockname()[1]
    address = f"spark://{HOSTS[0]}:{port}"
    env = {
        **os.environ,
        "JAVA_HOME": find_java(),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TAILRACE_FAULTS": str(faults),
    }
    master = ["org.apache.spark.deploy.master.Master", "--host", HOSTS[0], "--port", str(port), "--webui-port", "0"]
    with ExitStack() as running:
        running.enter_context(_process(master, path / "master.log", env))
        for host in HOSTS:
            log, work = path / f"worker-{host}.log", path / f"work-{host}"
            options = ["--webui-port", "0", "--cores", "1", "--memory", "1g", "--work-dir", str(work)]
            worker = ["org.apache.spark.deploy.worker.Worker", address, "--host", host, *options]
            running.enter_context(_process(worker, log, env))
        for host in HOSTS:
            log = path / f"worker-{host}.log"
            until(lambda log=log: "Successfully registered" in log.read_text(), f"worker {host}")  # type: ignore[misc]
        yield address


@contextmanager
def _process(arguments: list[str], log: Path, env: dict[str, str]) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen([str(SPARK_CLASS), *arguments], stdout=output, stderr=output, env=env)
    try:
        yield
    finally:
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()


def executor_of(worker: int) -> psutil.Process:
    """The executor process of a Python worker."""
    return next(p for p in psutil.Process(worker).parents() if "CoarseGrainedExecutorBackend" in " ".join(p.cmdline()))
