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
from thrift_client import Client, hbase, tname

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


def images(db: tr.Database, name: str) -> list[tuple[bytes, dict[bytes, tuple[bytes, int]]]]:
    """The images of a table that have a row: more than the stamps of three columns and the cell `_`."""
    number, found = inside(db).catalog.tables[name].id, []
    for node in range(store(db).nodes):
        for page in table(db, "rows", b"r").scan(image_prefix(number, node), image_prefix(number, node + 1)):
            found += [(row, cells) for row, cells in page if len(cells[b"v"][0]) > 4 + 2 + 8 * 4]
    return found


def repair(db: tr.Database, *where: str) -> str:
    """Repairs the store. Asserts that the audit before found damage in these places, and the one after finds none.

    Returns the findings as text.
    """
    report = db.audit(repair=True)
    assert report.ok, report.findings
    places = [finding.where for finding in report.repaired]
    assert [w for w in where if not any(w in place for place in places)] == [], report.repaired
    return str(report.repaired)


def flip(value: bytes) -> bytes:
    return value[:-1] + bytes([value[-1] ^ 1])


def test_an_undamaged_store_is_clean_while_others_write(db: tr.Database) -> None:
    write(db, 3)  # not yet in the log, and not in the views
    report = db.audit()
    assert (report.ok, report.findings) == (True, ())
    assert report.rows > 0
    assert report.entries > report.rows
    assert not [t for t in Admin(store(db).client).tables(store(db).namespace) if ":scratch_" in t]


def test_changed_rows_of_views(db: tr.Database) -> None:
    change_entry(db, "totals", flip)
    change_entry(db, "pairs", lambda value: b"\x07junk")
    repair(db, "rows of totals", "rows of pairs")


def test_a_damaged_mark_and_a_lost_record_of_an_epoch(db: tr.Database) -> None:
    write(db, 4)
    db.refresh()
    column = state_column(inside(db).catalog.view("pairs").state)
    marks, row = table(db, "state", b"m"), store(db).shard(0).content.row.name
    timestamp = marks.get(row, qualifiers=[column])[column][1]
    marks.put_many([(row, {column: b"x"})], timestamp=timestamp)
    other = store(db).shard(1).content.row.name
    decision, (_, written) = max(marks.get(other, prefixes=[DECISION]).items())
    marks.put_many([(other, {decision: b"x"})], timestamp=written)
    repair(db, "mark in shard 0", "undo records in shard 1")


def test_images_that_are_not_the_rows_of_hbase(db: tr.Database) -> None:
    """Other values, other timestamps, one that is gone, one of no row."""
    stored = table(db, "rows", b"r")
    (row, cells), (second, second_cells), *_ = images(db, "a")
    stored.put_many([(row, {b"v": flip(cells[b"v"][0])})], timestamp=cells[b"v"][1])
    value, timestamp = second_cells[b"v"]  # the stamps begin with the number of columns and their timestamps
    stored.put_many([(second, {b"v": value[:6] + bytes([value[6] ^ 1]) + value[7:]})], timestamp=timestamp)
    (lost, lost_cells), *_ = images(db, "b")
    stored.delete_many([Deletion(lost, lost_cells[b"v"][1])])
    copied = {name: value for name, (value, _) in cells.items()}
    stored.put_many([(row + b"more", copied)], timestamp=cells[b"v"][1])
    found = repair(db, "table a", "table b")
    for fault in ("its values are", "its timestamps are", "it is missing", "it is of no row"):
        assert fault in found


def test_the_log(db: tr.Database) -> None:
    write(db, 5)
    store(db).catch_up()
    log, end = table(db, "log", b"l"), store(db).newest_cut().offsets[0]
    row, cells = [found for page in log.scan(log_key(0, 0), log_key(0, end)) for found in page][-1]
    log.put_many([(row, {b"e": flip(cells[b"e"][0])})], timestamp=cells[b"e"][1])
    row, cells = [found for page in log.scan(b"\xff\xff", None) for found in page][-1]
    log.put_many([(row, {b"n": b"short"})], timestamp=cells[b"n"][1])
    repair(db, "log of node 0", "list of transactions")


def test_a_state_that_has_not_changed_while_others_have(db: tr.Database) -> None:
    """Epochs of other states make earlier ones unreadable in its shard."""
    db.sql("CREATE TABLE c (id INT PRIMARY KEY); CREATE MATERIALIZED VIEW alone AS SELECT id FROM c")
    db.table("c").put_many([{"id": number} for number in range(20)])
    for seed in range(10, 14):
        write(db, seed)
        db.refresh()
    report = db.audit()
    assert (report.ok, report.findings) == (True, ())
    db.sql("DROP VIEW alone; DROP TABLE c")
    db.refresh()


def test_what_belongs_to_nothing_a_count_and_a_document(db: tr.Database) -> None:
    table(db, "state", b"s").put_many([(state_prefix(1, 999_999) + b"k", {COLUMN: b"\x01v"})], timestamp=256)
    content = store(db).shard(2).content
    marks = content.read_marks()
    trimmed = encode_oldest(marks.oldest, max(marks.trimmed, 1))
    content.row.change([OLDEST], lambda values: Update({OLDEST: trimmed}))
    content.staging.write(1, bytes(8), [Write.of(1, [b"k"], [b"v"], None)])
    repair_count = f"count:{inside(db).catalog.tables['a'].id}"
    store(db).change_documents({repair_count: 7_777})
    repair(db, "state 999999", "staged writes in shard 2", "number of rows of a")
    documents, name = table(db, "meta", b"d"), repair_count.encode()
    timestamp = documents.get(b"documents", qualifiers=[name])[name][1]
    documents.put_many([(b"documents", {name: b"many"})], timestamp=timestamp)
    repair(db, f"document {repair_count}")


def test_a_table_that_was_changed_behind_the_log(db: tr.Database, client: Client) -> None:
    """As by `restore_snapshot`: rows are there or not, and no log says so."""
    name = f"{store(db).namespace}_data:a"
    before = db.table("a").scan().num_rows
    (first, _), *_ = [found for page in store(db).client.table(name, None).scan(b"", None) for found in page]
    for scope in (0, 1):
        family = hbase.TColumnFamilyDescriptor(name=b"f", scope=scope, maxVersions=1)
        client.modifyColumnFamily(tname(name), family)
        if scope == 0:
            client.delete(name, first)
            db.table("a").put_many([{"id": n, "g": n % 6, "v": n} for n in range(100, 110)])
    assert db.table("a").scan().num_rows == before + 9
    assert db.query("SELECT SUM(n) AS n FROM totals", fresh=True).to_pylist() == [{"n": before}]
    found = repair(db, "table a")
    assert "HBase does not have the row" in found
    assert db.query("SELECT SUM(n) AS n FROM totals").to_pylist() == [{"n": before + 9}]


def test_views_go_on_after_all_repairs(db: tr.Database) -> None:
    write(db, 6)
    db.refresh()
    assert all(db.verify(view).ok for view in VIEWS)


def test_backups_are_left_to_hbase(db: tr.Database, tmp_path: Any) -> None:
    with pytest.raises(NotCapable, match="backups"):
        db.backup(tmp_path / "backup")
    db.dump(tmp_path / "dump")
    with pytest.raises(NotCapable, match="a restore makes a store in a directory"):
        tr.restore(tmp_path / "dump", db.path)
    tr.restore(tmp_path / "dump", tmp_path / "copy", verify=False, spark=db.spark)
    with tr.open(tmp_path / "copy") as copy:
        assert copy.table("a").scan().num_rows == db.table("a").scan().num_rows
