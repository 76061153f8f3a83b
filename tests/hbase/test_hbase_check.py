"""`tailrace hbase check` and `install` on a cluster that is in order, and on one with things broken on purpose."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from thrift_client import Client, hbase, tname
from thrift_servers import free_port
from typer.testing import CliRunner

import tailrace as tr
from tailrace.cli.app import app
from tailrace.database.inside import inside
from tailrace.doctor import hbase_cluster
from tailrace.store.hbase.admin import Admin
from tailrace.store.hbase.client import Client as StoreClient
from tailrace.store.hbase.endpoints import read_notes
from tailrace_hbase import artifacts, settings
from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase


@dataclass(frozen=True)
class Checked:
    """A store with one table, on a cluster."""

    cluster: LocalCluster
    name: str

    @property
    def url(self) -> str:
        return self.cluster.url(self.name)

    def run(self, verb: str, *options: str, code: int = 0) -> list[dict[str, Any]]:
        result = CliRunner().invoke(app, ["hbase", verb, self.url, *options, "--json"], env={"HBASE_HOME": ""})
        assert result.exit_code == code, result.output
        found: list[dict[str, Any]] = json.loads(result.stdout)
        return found

    def check(self, code: int = 0, java: bool = True) -> dict[str, dict[str, Any]]:
        options = ("--hbase-home", str(self.cluster.directory)) if java else ()
        return {finding["check"]: finding for finding in self.run("check", *options, code=code)}

    def check_any(self) -> dict[str, dict[str, Any]]:
        """The findings, whatever the exit code is."""
        found = CliRunner().invoke(
            app, ["hbase", "check", self.url, "--hbase-home", str(self.cluster.directory), "--json"]
        )
        return {finding["check"]: finding for finding in json.loads(found.stdout)}


@pytest.fixture(scope="module")
def shop(cluster: LocalCluster) -> Iterator[Checked]:
    """Set up by `install`, with a table that has rows."""
    checked = Checked(cluster, f"c{uuid.uuid4().hex[:8]}")
    steps = checked.run("install", "--hbase-home", str(cluster.directory))
    assert [step["state"] for step in steps] == ["todo", "todo", "todo", "done", "done", "todo"]
    with tr.open(checked.url) as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        db.table("t").put_many([{"id": n, "v": n} for n in range(10)])
        inside(db).store.catch_up()
    await_endpoints(checked)
    yield checked
    cluster.admin("peer", "remove", checked.name)
    client = StoreClient(settings.HOST, cluster.port)
    for namespace in (checked.name, f"{checked.name}_data"):
        Admin(client).drop_namespace(namespace)
    client.close()


def await_endpoints(checked: Checked, seconds: float = 120) -> None:
    client, end = StoreClient(settings.HOST, checked.cluster.port), time.monotonic() + seconds
    servers, notes = Admin(client).servers(), dict[str, Any]()
    while not set(servers) <= notes.keys():
        assert time.monotonic() < end, f"endpoints in {sorted(notes)} of {servers}"
        time.sleep(0.2)
        notes = read_notes(client, checked.name)
    client.close()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests with a broken cluster wait this long for a change that cannot come."""
    monkeypatch.setattr(hbase_cluster, "_PATIENCE", 3.0)


def test_everything_is_in_order(shop: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hbase_cluster, "_PATIENCE", 60.0)
    found = shop.check()
    assert [f for f in found.values() if f["level"] == "fail"] == []
    assert all(f["advice"] for f in found.values() if f["level"] != "ok")
    assert found["peer"]["found"] == f"tailrace_{shop.name}: enabled, serial"
    assert "HBASE-29501" in found["HBase"]["advice"]  # the tests run on an earlier version
    assert found[f"table {shop.name}_data:t"]["level"] == "ok"
    assert "1 region" in found["shipping"]["found"]
    endpoints = [f for name, f in found.items() if name.startswith("endpoint in ")]
    assert len(endpoints) == len([role for role in shop.cluster.running() if role.startswith("rs")])
    assert {f["level"] for f in endpoints} == {"ok"}


def test_without_java_only_the_peer_is_not_checked(shop: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hbase_cluster, "_PATIENCE", 60.0)
    monkeypatch.setenv("PATH", "")
    found = shop.check(java=False)
    assert found["peer"]["level"] == "warn"
    assert f"hbase io.tailrace.hbase.Admin check {shop.name}" in found["peer"]["advice"]
    assert found["shipping"]["level"] in ("ok", "warn")
    step = next(s for s in shop.run("install") if "peer" in s["what"])
    assert (step["state"], "Admin peer add" in step["detail"]) == ("todo", True)


def test_install_again_changes_nothing(shop: Checked) -> None:
    steps = shop.run("install", "--hbase-home", str(shop.cluster.directory))
    assert [step["detail"] for step in steps if step["state"] == "done"] == [
        "they existed already",
        f"tailrace_{shop.name}: serial",
    ]


def test_the_doctor_includes_the_check(shop: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hbase_cluster, "_PATIENCE", 60.0)
    monkeypatch.setenv("HBASE_HOME", str(shop.cluster.directory))
    result = CliRunner().invoke(app, ["doctor", shop.url, "--json"])
    found = {f["check"]: f for f in json.loads(result.stdout)}
    assert [f for f in found.values() if f["level"] == "fail"] == []
    assert {"Python", "peer", "shipping", "store", "runner", "epoch", "leases", "lag"} <= found.keys()


def test_a_disabled_peer(shop: Checked) -> None:
    shop.cluster.admin("peer", "disable", shop.name)
    try:
        found = shop.check(code=1)
        assert (found["peer"]["level"], "disabled" in found["peer"]["found"]) == ("fail", True)
        assert "peer enable" in found["peer"]["advice"]
        stuck = [f for name, f in found.items() if name.startswith("shipping by ")]
        assert [f["level"] for f in stuck] == ["fail"]
        assert f"of {shop.name}_data:t" in stuck[0]["found"]
    finally:
        shop.cluster.admin("peer", "enable", shop.name)


def test_a_missing_and_a_non_serial_peer(shop: Checked) -> None:
    shop.cluster.admin("peer", "remove", shop.name)
    try:
        found = shop.check(code=1)
        assert found["peer"]["found"] == "there is none: HBase does not ship its log"
        shop.cluster.admin("peer", "add", shop.name, "--not-serial")
        found = shop.check(code=1)
        assert "not serial: nothing is shipped" in found["peer"]["found"]
        shop.cluster.admin("peer", "remove", shop.name)
    finally:
        shop.cluster.admin("peer", "add", shop.name)


def test_a_wrong_family_and_a_disabled_table(shop: Checked, client: Client) -> None:
    table = f"{shop.name}_data:t"

    def alter(scope: int, ttl: int | None, kept: int | None = None) -> None:
        family = hbase.TColumnFamilyDescriptor(
            name=b"f", scope=scope, timeToLive=ttl, maxVersions=1, keepDeletedCells=kept
        )
        client.modifyColumnFamily(tname(table), family)

    alter(0, 86_400)
    try:
        shown = shop.run("check", code=1)
        faults = [f for f in shown if f["check"] == f"table {table}"]
        assert [f["found"] for f in faults] == ["family f has replication scope 0", "family f has a TTL of 86400 s"]
        assert f"alter '{table}', {{NAME => 'f', REPLICATION_SCOPE => 1}}" in faults[0]["advice"]
    finally:
        alter(1, None)
    alter(1, None, hbase.TKeepDeletedCells.TRUE)
    try:
        fault = shop.check(code=1, java=False)[f"table {table}"]
        assert (fault["level"], fault["found"]) == ("fail", "family f has KEEP_DELETED_CELLS")
        assert f"alter '{table}', {{NAME => 'f', KEEP_DELETED_CELLS => 'FALSE'}}" in fault["advice"]
    finally:
        alter(1, None)
    client.disableTable(tname(table))
    try:
        assert shop.check(code=1, java=False)[f"table {table}"]["found"] == "it is disabled"
    finally:
        client.enableTable(tname(table))


def test_a_server_without_the_jar(shop: Checked) -> None:
    """It has no regions, so only Java knows of it. It would not ship what is written there."""
    cluster = shop.cluster
    port = settings.ports(cluster.directory, ("rs99",))["rs99"]
    without = [part for part in cluster.classpath() if not part.endswith("tailrace-hbase.jar")]
    cluster.server("rs99").start(artifacts.java(), without, port, 1)
    end, check = time.monotonic() + 120, f"endpoint in localhost:{port}"
    try:
        while check not in (found := shop.check_any()):
            assert time.monotonic() < end, sorted(found)
        assert found[check]["level"] == "fail"
        assert "classpath" in found[check]["advice"]
    finally:
        cluster.remove_server("rs99")
        end = time.monotonic() + 120
        while check in shop.check_any():  # until the master knows that it is gone
            assert time.monotonic() < end


def test_a_server_with_another_jar(shop: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.store.hbase.java_admin.jar_digest", lambda: "0" * 64)
    found = shop.check(java=False)
    assert {f["level"] for name, f in found.items() if name.startswith("endpoint in ")} == {"warn"}


def test_an_old_version_of_hbase() -> None:
    levels = [
        [f.level for f in hbase_cluster._check_versions({v})] for v in ("2.5.9", "2.6.4-hadoop3", "2.6.5", "3.0.0")
    ]
    assert levels == [["fail"], ["warn"], ["ok"], ["ok"]]


def test_thrift_is_down(cluster: LocalCluster) -> None:
    url = f"hbase://127.0.0.1:{free_port()}/shop"
    result = CliRunner().invoke(app, ["hbase", "check", url, "--json"])
    assert result.exit_code == 1
    (finding,) = json.loads(result.stdout)
    assert (finding["check"], finding["level"]) == ("Thrift2", "fail")
    assert "nothing listens there" in finding["found"]


def test_a_namespace_without_a_store(cluster: LocalCluster) -> None:
    result = CliRunner().invoke(app, ["hbase", "check", cluster.url("no_such_namespace"), "--json"])
    assert result.exit_code == 1
    assert "tailrace hbase install" in json.loads(result.stdout)[-1]["advice"]


def test_a_directory_is_no_url() -> None:
    result = CliRunner().invoke(app, ["hbase", "check", "shop"])
    assert (result.exit_code, "hbase://host:port/namespace" in result.output) == (1, True)
