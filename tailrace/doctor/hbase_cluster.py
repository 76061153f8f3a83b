"""Checks of an HBase cluster: can it be reached, and does everything that is written to its tables reach a store?

Through Thrift2 alone: the server, the store, the endpoint in each region server, the families of tables, and whether a
change of every region comes out of the log now. The replication peer and its lag need HBase's command `hbase`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from tailrace.doctor.finding import Finding, judge
from tailrace.errors import MissingPackage, StoreError, StoreUnavailable, TailraceError
from tailrace.store.store_ref import StoreRef
from tailrace.words import count

_OLDEST, _ORDERED = (2, 6), (2, 6, 5)
_CLOCK = 2.0  # seconds that clocks may differ
_LAG = 60_000  # milliseconds
_PATIENCE = 30.0  # seconds in which a change must come out of the log
_SOON = {"replication.source.sleepforretries": (1000, 100), "hbase.serial.replication.waiting.ms": (10_000, 1000)}
"""Settings that delay every change: HBase's default in milliseconds, and what is still short."""


def check_cluster(ref: StoreRef, hbase_home: str | None = None) -> Iterator[Finding]:
    """All checks. The later ones are left out if the server does not answer, or has no store."""
    try:
        from tailrace.store.hbase.opening import connect
    except ImportError as error:
        missing = MissingPackage(url=ref.url, package=error.name, extra="hbase")
        yield Finding("fail", "thriftpy2", str(missing), "run `pip install 'tailrace[hbase]'`")
        return
    try:
        began = time.monotonic()
        client = connect(ref)
    except (StoreUnavailable, TailraceError) as error:
        yield Finding("fail", "Thrift2", str(error), "repair this first: nothing else was checked")
        return
    yield Finding("ok", "Thrift2", f"{client.url} answers in {(time.monotonic() - began) * 1000:.0f} ms")
    with closing(client):
        from tailrace.store.hbase.hbase_store import parse_location
        from tailrace.store.hbase.namespace import read_settings

        namespace = parse_location(ref)[2]
        try:
            settings = read_settings(client, namespace)
        except StoreError as error:
            yield Finding("fail", "store", str(error), f"run `tailrace hbase install {ref.url}`")
            return
        yield Finding("ok", "namespace", f"{namespace}: format {settings.format}")
        yield from ClusterChecks(client, namespace, settings.nodes).run(hbase_home)


class ClusterChecks:
    """The checks of a cluster that answers, and has the store."""

    def __init__(self, client: Any, namespace: str, nodes: int) -> None:
        from tailrace.store.hbase.admin import Admin
        from tailrace.store.hbase.mapping import MAPPINGS
        from tailrace.store.hbase.meta import Documents

        self._client, self._namespace, self._admin = client, namespace, Admin(client)
        self._meta = client.table(f"{namespace}:meta", b"d")
        self._mappings = list(Documents(self._meta, nodes).documents(MAPPINGS).values())

    def run(self, hbase_home: str | None) -> Iterator[Finding]:
        yield self._check_clock()
        java, report = self._ask_java(hbase_home)
        yield from java
        yield from self._check_endpoints(report)
        for table in sorted({mapping.table for mapping in self._mappings}):
            yield from self._check_table(table)
        yield from self._check_shipping(report)

    def _check_clock(self) -> Finding:
        """HBase gives a cell the time of the region server, if its writer gives none."""
        before = time.time()
        self._meta.put_many([(b"check", {b"clock": b""})])
        after = time.time()
        server = self._meta.get(b"check", qualifiers=[b"clock"])[b"clock"][1] / 1000
        difference = max(before - server, server - after, 0.0)
        found = f"a region server's differs from this machine's by {difference:.1f} s"
        advice = "synchronize the clocks (NTP): the timestamps that HBase gives to cells depend on them"
        return judge(difference <= _CLOCK, "clock", found, advice, "warn")

    # the peer, by Java

    def _ask_java(self, hbase_home: str | None) -> tuple[list[Finding], Any]:
        """Findings about the peer, and the report of the Java program; None if it could not be asked."""
        from tailrace.store.hbase.java_admin import by_hand, find_hbase, run_admin

        try:
            hbase = find_hbase(hbase_home)
            if hbase is None:
                advice = (
                    "give --hbase-home or set HBASE_HOME; or run on a host of the cluster, and see that the peer is"
                    f" enabled and serial: {by_hand('check', self._namespace)}"
                )
                return [Finding("warn", "peer", "not checked: there is no command `hbase` here", advice)], None
            report = run_admin(hbase, "check", self._namespace)
        except TailraceError as error:
            return [Finding("warn", "peer", f"not checked: {error}", "see that this command works")], None
        peer = report["peer"]
        findings = [_check_peer(peer, self._namespace)]
        if peer is not None:
            findings += [_check_lag(server) for server in report["servers"]]
        return findings, report

    # endpoints

    def _check_endpoints(self, report: Any) -> Iterator[Finding]:
        from tailrace.store.hbase.endpoints import read_notes
        from tailrace.store.hbase.java_admin import jar_digest

        notes, own = read_notes(self._client, self._namespace), jar_digest()
        servers = self._admin.servers() if report is None else [server["name"] for server in report["servers"]]
        install = f"run `tailrace hbase install {self._client.url}/{self._namespace}`"
        for server in servers:
            check, note = f"endpoint in {_address(server)}", notes.get(server)
            if note is None:
                found = "it has not started since the server started"
                advice = f"put the jar on the server's classpath and restart it; its log says more; {install}"
                yield Finding("fail", check, found, advice)
                continue
            found = f"HBase {note.hbase}, Java {note.java}, jar {(note.jar or 'unknown')[:12]}"
            advice = (
                f"its jar differs from that of this Tailrace ({own[:12]}): put this one on the server, and restart it"
            )
            yield judge(note.jar == own, check, found, advice, "warn")
        running = [notes[server] for server in servers if server in notes]
        yield from _check_versions({note.hbase for note in running})
        yield from _check_settings([note.settings for note in running])

    # tables

    def _check_table(self, table: str) -> Iterator[Finding]:
        from tailrace.store.hbase.mapping import unescape

        check = f"table {table}"
        if not self._admin.table_exists(table):
            advice = "drop the table of Tailrace, too, or create it in HBase and then again in Tailrace"
            yield Finding("fail", check, "HBase does not have it any more", advice)
            return
        if not self._admin.is_enabled(table):
            yield Finding("fail", check, "it is disabled", f"run in the shell of HBase: enable '{table}'")
            return
        wanted = {unescape(text) for mapping in self._mappings if mapping.table == table for text in mapping.families}
        families = {family.name: family for family in self._admin.describe(table)}
        faults = [fault for name in sorted(wanted) for fault in _family_faults(table, name, families.get(name))]
        for found, advice in faults:
            yield Finding("fail", check, found, advice)
        if not faults:
            names = ", ".join(sorted(name.decode(errors="replace") for name in wanted))
            yield Finding("ok", check, f"families {names}: scope 1")

    # shipping

    def _check_shipping(self, report: Any) -> Iterator[Finding]:
        """Puts a barrier into each region, and waits until the log has it."""
        attached = [m for m in self._mappings if m.attached and self._admin.table_exists(m.table)]
        enabled = [m for m in attached if self._admin.is_enabled(m.table)]
        if not enabled:
            yield Finding("ok", "shipping", "not tried: no table is attached yet")
            return
        from tailrace.store.hbase.raw_log import read_marks
        from tailrace.store.hbase.tracking import Tracking

        marks = self._client.table(f"{self._namespace}:marks", b"m")
        before, began = read_marks(marks), time.monotonic()
        _, barriers = Tracking(self._client, self._namespace).put_barriers(enabled)
        left = {region.name: (table, region) for (table, _), region in barriers.items()}
        while left and time.monotonic() - began < _PATIENCE:
            time.sleep(0.05)
            now = read_marks(marks)
            left = {n: r for n, r in left.items() if n not in now or now[n].sequence <= _sequence(before, n)}
        seconds = time.monotonic() - began
        for table, region in left.values():
            found = f"nothing came from region {region.name} of {table} in {_PATIENCE:.0f} s"
            yield Finding("fail", f"shipping by {_address(region.server)}", found, self._advice(region.name, report))
        if not left:
            found = f"a change of each of {count(len(barriers), 'region')} was in the log after {seconds:.1f} s"
            advice = "see docs/hbase.md for the settings of hbase-site.xml, and the load of the servers"
            yield judge(seconds < _PATIENCE / 3, "shipping", found, advice, "warn")

    def _advice(self, region: str, report: Any) -> str:
        """What to do about a region from which nothing comes."""
        from tailrace.store.hbase.java_admin import by_hand

        unfinished = [] if report is None else [found["region"] for found in report["unfinished"]]
        if region in unfinished and report["peer"] is not None and report["peer"]["enabled"]:
            finish = by_hand("finish", self._namespace, region)
            return f"if this stays so, replication waits for an earlier part of its log (HBASE-29499): {finish}"
        return "check the peer, and the endpoint in this server; nothing is lost: HBase keeps its log meanwhile"


def _sequence(marks: Mapping[str, Any], region: str) -> int:
    return marks[region].sequence if region in marks else 0


def _address(server: str) -> str:
    host, port, *_ = server.split(",")
    return f"{host}:{port}"


def _family_faults(table: str, name: bytes, family: Any) -> Iterator[tuple[str, str]]:
    """What is wrong with a family, which is None if it does not exist, and what to do."""
    text = name.decode(errors="replace")
    alter = f"alter '{table}', {{NAME => '{text}', "
    if family is None:
        yield f"family {text} does not exist", f"create the family: {alter[:-2]}}}; or drop the table in Tailrace"
        return
    repair = "then run `tailrace audit --repair`"
    if family.scope != 1:
        advice = f"{alter}REPLICATION_SCOPE => 1}}, {repair}: changes are not in the log"
        yield f"family {text} has replication scope {family.scope}", advice
    if family.ttl is not None:
        advice = f"{alter}TTL => 'FOREVER'}}; cells vanish without an entry in the log"
        yield f"family {text} has a TTL of {family.ttl} s", advice
    if family.by_sequence:
        advice = f"{alter}NEW_VERSION_BEHAVIOR => false}}; it gives deletions another meaning"
        yield f"family {text} has NEW_VERSION_BEHAVIOR", advice
    if family.keeps_deleted:
        advice = f"{alter}KEEP_DELETED_CELLS => 'FALSE'}}, {repair}: deleted rows may have come back"
        yield f"family {text} has KEEP_DELETED_CELLS", advice


def _check_peer(peer: Any, namespace: str) -> Finding:
    from tailrace.store.hbase.java_admin import by_hand

    add = by_hand("peer", "add", namespace)
    again = (
        f"remove it and add it again: {by_hand('peer', 'remove', namespace)}; {add}; then run `tailrace audit --repair`"
    )
    if peer is None:
        return Finding(
            "fail", "peer", "there is none: HBase does not ship its log", f"`tailrace hbase install`, or {add}"
        )
    if peer["endpoint"] != "io.tailrace.hbase.LogEndpoint" or peer["namespace"] != namespace:
        return Finding("fail", "peer", f"{peer['id']} ships to {peer['endpoint']} ({peer['namespace']})", again)
    if not peer["serial"]:
        return Finding(
            "fail", "peer", f"{peer['id']} is not serial: nothing is shipped; the order would be wrong", again
        )
    if not peer["enabled"]:
        enable = by_hand("peer", "enable", namespace)
        return Finding(
            "fail", "peer", f"{peer['id']} is disabled; HBase keeps its log until then", f"enable it: {enable}"
        )
    return Finding("ok", "peer", f"{peer['id']}: enabled, serial")


def _check_lag(server: Any) -> Finding:
    lag = max((source["lag_ms"] for source in server["sources"]), default=0)
    files = sum(source["files"] for source in server["sources"])
    found = f"{lag / 1000:.1f} s, {count(files, 'log file')}"
    advice = "see the server's log for errors of the endpoint, and its load"
    return judge(lag < _LAG, f"lag of {server['server']}", found, advice, "warn")


def _check_versions(versions: set[str]) -> Iterator[Finding]:
    for text in sorted(versions):
        number = tuple(int(part) for part in text.partition("-")[0].split(".") if part.isdigit())
        if number < _OLDEST:
            yield Finding("fail", "HBase", text, "upgrade to HBase 2.6 or later")
            continue
        advice = "upgrade to 2.6.5 or later: HBASE-29501 lets serial replication ship out of order after an I/O error"
        yield judge(number >= _ORDERED or number[:2] > _OLDEST, "HBase", text, advice, "warn")


def _check_settings(settings: Sequence[Mapping[str, str | None]]) -> Iterator[Finding]:
    for name, (default, short) in _SOON.items():
        slowest = max((int(found.get(name) or default) for found in settings), default=0)
        if slowest > short:
            advice = f"set it to {short} or less in hbase-site.xml: changes wait that long (docs/hbase.md says which)"
            yield Finding("warn", name, f"{slowest} ms", advice)
    name = "hbase.replication.bulkload.enabled"
    if any((found.get(name) or "false") != "true" for found in settings):
        advice = "set it to true in hbase-site.xml, else bulk loads into attached tables are not noticed"
        yield Finding("warn", name, "false", advice)
