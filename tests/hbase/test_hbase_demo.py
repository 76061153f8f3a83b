"""The demo on HBase: it verifies its views after a region server was killed, and ends what it has started."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from fault_processes import until

from tailrace.store.hbase.admin import Admin
from tailrace.store.hbase.client import Client
from tailrace_cluster.hbase_demo import NAMESPACE, VIEWS
from tailrace_cluster.local_spark import LocalSpark
from tailrace_hbase.local_cluster import LocalCluster
from tailrace_hbase.settings import HOST

pytestmark = [pytest.mark.hbase, pytest.mark.soak]


def start(cluster: LocalCluster, path: Path) -> subprocess.Popen[bytes]:
    sizes = ["--scale=0.001", "--seconds=30", "--rate=100"]
    places = [f"--hbase={cluster.directory}", f"--directory={path / 'spark'}"]
    with (path / "output").open("wb") as output:
        command = [sys.executable, "-m", "tailrace_cluster", "demo", *sizes, *places]
        return subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)


def check_the_end(cluster: LocalCluster, path: Path) -> None:
    """HBase ran before, so it runs on, without the demo's tables. Spark was started by the demo, so it has ended."""
    assert LocalSpark(path / "spark").running() == []
    assert cluster.running() == cluster.roles
    client = Client(HOST, cluster.port)
    assert not Admin(client).namespace_exists(NAMESPACE)
    client.close()


def test_the_demo_goes_on_without_a_region_server(cluster: LocalCluster, tmp_path: Path) -> None:
    process = start(cluster, tmp_path)
    code = process.wait()
    output = (tmp_path / "output").read_text()
    assert code == 0, output
    assert "is killed now" in output
    assert "Epochs go on" in output
    assert f"{len(VIEWS)} of {len(VIEWS)}" in output
    check_the_end(cluster, tmp_path)


def test_an_interrupted_demo_ends_what_it_has_started(cluster: LocalCluster, tmp_path: Path) -> None:
    process = start(cluster, tmp_path)
    output = tmp_path / "output"
    until(lambda: "3. Views" in output.read_text(), "the views of the demo", output.read_text)
    started = psutil.Process(process.pid).children(recursive=True)
    for child in (process.pid, *(child.pid for child in started)):  # as a terminal does
        if psutil.pid_exists(child) and psutil.Process(child).name().startswith("python"):
            psutil.Process(child).send_signal(signal.SIGINT)
    assert process.wait() == 128 + signal.SIGINT, output.read_text()
    assert "Traceback" not in output.read_text()
    psutil.wait_procs(started, timeout=30)
    assert [p for p in started if p.is_running() and p.status() != psutil.STATUS_ZOMBIE] == []
    check_the_end(cluster, tmp_path)
