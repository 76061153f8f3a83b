"""Audits of stores on HBase: an undamaged store is clean, every kind of damage is found, and repairs remove it.

The damage is done with cells that a Thrift client writes into the tables of the store, as `damage.py` does in LMDB.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.errors import NotCapable
from tailrace.store.base import Write
from tailrace.store.hbase.admin import Admin
from tailrace.store.hbase.client import Deletion
from tailrace.store.hbase.hbase_store import HbaseStore
from tailrace.store.hbase.images import image_prefix
from tailrace.store.hbase.shard_marks import DECISION, OLDEST, encode_oldest, state_column
from tailrace.store.hbase.state_rows import COLUMN, state_prefix
from tailrace.store.hbase.versioned_row import Update
from tailrace.store.log_entries import log_key
from tailrace.verify.audit.findings import AuditReport
from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase

VIEWS = {
    "totals": "SELECT g, SUM(v) AS s, COUNT(*) AS n, MAX(v) AS hi FROM a GROUP BY g",
    "pairs": "SELECT a.id, b.id AS bid, a.v + b.v AS v FROM a JOIN b ON a.g = b.g",
}


@pytest.fixture(scope="module")
def db(cluster: LocalCluster, spark: SparkSession) -> Iterator[tr.Database]:
    """One store for all tests: each leaves it repaired."""
    name = f"a{uuid.uuid4().hex[:8]}"
    with tr.open(cluster.url(name), create=True, spark=spark) as database:
        cluster.admin("peer", "add", name)
        database.sql("CREATE TABLE a (id INT PRIMARY KEY, g INT, v INT)")
        database.sql("CREATE TABLE b (id INT PRIMARY KEY, g INT, v INT)")
        write(database, 1)
        for view, sql in VIEWS.items():
            database.sql(f"CREATE MATERIALIZED VIEW {view} AS {sql}")
        write(database, 2)
        database.refresh()
        yield database
        cluster.admin("peer", "remove", name)
        for namespace in (name, f"{name}_data"):
            Admin(store(database).client).drop_namespace(namespace)


def store(db: tr.Database) -> HbaseStore:
    found = inside(db).store
    assert isinstance(found, HbaseStore)
    return found


def write(db: tr.Database, seed: int) -> None:
    rng = random.Random(seed)
    for table in "ab":
        keys = rng.sample(range(60), 30)
        db.table(table).put_many([{"id": k, "g": k % 6, "v": rng.randrange(100)} for k in keys])
    db.table("a").delete_many(rng.sample(range(60), 4))


def table(db: tr.Database, name: str, family: bytes) -> Any:
    return store(db).client.table(f"{store(db).namespace}:{name}", family)


def change_entry(db: tr.Database, view: str, change: Callable[[bytes], bytes]) -> None:
    """Changes the first entry of a view's rows, under its own timestamp."""
    state, states = inside(db).catalog.view(view).state, table(db, "state", b"s")
    for shard in range(store(db).shards):
        prefix = state_prefix(shard, state)
        for page in states.scan(prefix, state_prefix(shard, state + 1)):
            for row, cells in page:
                value, timestamp = cells[COLUMN]
                if value[:1] == b"\x01":
                    states.put_many([(row, {COLUMN: change(value)})], timestamp=timestamp)
                    return
    raise AssertionError("the view has no entries")


def image(db: tr.Database, name: str) -> tuple[bytes, dict[bytes, tuple[bytes, int]]]:
    """The first image of a table that has a row."""
    number = inside(db).catalog.tables[name].id
    for node in range(store(db).nodes):
        for page in table(db, "rows", b"r").scan(image_prefix(number, node), image_prefix(number, node + 1)):
            for row, cells in page:
                if cells[b"v"][0]:
                    return row, cells
    raise AssertionError("the table has no images")


def repaired(db: tr.Database, *where: str, kind: str | None = None) -> AuditReport:
    """Asserts that the audit finds damage in these places, and nothing after a repair; then that views go on."""
    before = db.audit()
    places = [finding.where for finding in before.findings]
    assert [w for w in where if not any(w in place for place in places)] == [], before.findings
    if kind is not None:
        assert kind in {finding.kind for finding in before.findings}
    after = db.audit(repair=True)
    assert after.ok, after.findings
    write(db, random.randrange(1 << 30))
    db.refresh()
    assert all(db.verify(view).ok for view in VIEWS)
    return before


def test_an_undamaged_store_is_clean_while_others_write(db: tr.Database) -> None:
    write(db, 3)  # not yet in the log, and not in the views
    report = db.audit()
    assert (report.ok, report.findings) == (True, ())
    assert report.rows > 0
    assert report.entries > report.rows
    assert not [t for t in Admin(store(db).client).tables(store(db).namespace) if ":scratch_" in t]


@pytest.mark.parametrize("change", [lambda value: value[:-1] + bytes([value[-1] ^ 1]), lambda value: b"\x07junk"])
def test_a_changed_row_of_a_view(db: tr.Database, change: Callable[[bytes], bytes]) -> None:
    change_entry(db, "totals", change)
    repaired(db, "rows of totals")


def test_a_damaged_mark_and_a_lost_record_of_an_epoch(db: tr.Database) -> None:
    write(db, 4)
    db.refresh()
    state = inside(db).catalog.view("pairs").state
    content = store(db).shard(0).content
    marks = table(db, "state", b"m")
    stamped = marks.get(content.row.name, qualifiers=[state_column(state)])
    timestamp = stamped[state_column(state)][1]
    marks.put_many([(content.row.name, {state_column(state): b"x"})], timestamp=timestamp)
    other = store(db).shard(1).content
    decisions = marks.get(other.row.name, prefixes=[DECISION])
    column, (_, written) = max(decisions.items())
    marks.put_many([(other.row.name, {column: b"x"})], timestamp=written)
    repaired(db, "mark in shard 0", "undo records in shard 1", kind="damaged")


def test_an_image_with_other_values_and_one_that_is_gone(db: tr.Database) -> None:
    images = table(db, "rows", b"r")
    row, cells = image(db, "a")
    packed, timestamp = cells[b"v"]
    images.put_many([(row, {b"v": packed[:-1] + bytes([packed[-1] ^ 1])})], timestamp=timestamp)
    lost, lost_cells = image(db, "b")
    images.delete_many([Deletion(lost, lost_cells[b"t"][1])])
    report = repaired(db, "table a", "table b")
    assert "not those of HBase" in str([f.examples for f in report.findings if f.where == "table a"])


def test_an_image_with_other_timestamps_and_one_of_no_row(db: tr.Database) -> None:
    images = table(db, "rows", b"r")
    row, cells = image(db, "a")
    stamps, timestamp = cells[b"t"]
    images.put_many([(row, {b"t": stamps[:-1] + bytes([stamps[-1] ^ 1])})], timestamp=timestamp)
    images.put_many([(row + b"more", {b"v": cells[b"v"][0], b"t": stamps})], timestamp=timestamp)
    report = repaired(db, "table a")
    assert "timestamps" in str(report.findings)
    assert "of no row" in str(report.findings)


def test_an_entry_of_the_log(db: tr.Database) -> None:
    write(db, 5)
    store(db).catch_up()
    node, end = 0, store(db).newest_cut().offsets[0]
    rows = [row for page in table(db, "log", b"l").scan(log_key(node, 0), log_key(node, end)) for row in page]
    row, cells = rows[-1]
    entry, timestamp = cells[b"e"]
    table(db, "log", b"l").put_many([(row, {b"e": entry[:-1] + bytes([entry[-1] ^ 1])})], timestamp=timestamp)
    repaired(db, "log of node 0")


def test_a_note_of_a_transaction(db: tr.Database) -> None:
    write(db, 6)
    store(db).catch_up()
    log = table(db, "log", b"l")
    notes = [row for page in log.scan(b"\xff\xff", None) for row in page]
    row, cells = notes[-1]
    log.put_many([(row, {b"n": b"short"})], timestamp=cells[b"n"][1])
    repaired(db, "list of transactions")


def test_a_state_of_no_view_staged_leftovers_and_a_wrong_count(db: tr.Database) -> None:
    table(db, "state", b"s").put_many([(state_prefix(1, 999_999) + b"k", {COLUMN: b"\x01v"})], timestamp=256)
    content = store(db).shard(2).content
    marks = content.read_marks()
    trimmed = encode_oldest(marks.oldest, max(marks.trimmed, 1))
    content.row.change([OLDEST], lambda values: Update({OLDEST: trimmed}))
    content.staging.write(1, bytes(8), [Write.of(1, [b"k"], [b"v"], None)])
    number = inside(db).catalog.tables["a"].id
    store(db).change_documents({f"count:{number}": 7_777})
    repaired(db, "state 999999", "staged writes in shard 2", "number of rows of a")


def test_a_damaged_document(db: tr.Database) -> None:
    documents, name = table(db, "meta", b"d"), f"count:{inside(db).catalog.tables['b'].id}".encode()
    timestamp = documents.get(b"documents", qualifiers=[name])[name][1]
    documents.put_many([(b"documents", {name: b"many"})], timestamp=timestamp)
    repaired(db, f"document {name.decode()}")


def test_backups_are_left_to_hbase(db: tr.Database, tmp_path: Any) -> None:
    with pytest.raises(NotCapable, match="backups"):
        db.backup(tmp_path / "backup")
