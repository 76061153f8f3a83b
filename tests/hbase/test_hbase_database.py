"""A database on HBase: tables by SQL, views over them, and what happens when other clients write."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator

import pytest
from foreign import ROWS, foreign_table
from pyspark.sql import SparkSession
from thrift_client import Client, hbase, tname

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.errors import NotCapable, SqlError, Unsupported, ViewFailed
from tailrace_hbase.local_cluster import LocalCluster
from tailrace_hbase.scratch import scratch_database

pytestmark = pytest.mark.hbase


@pytest.fixture
def db(cluster: LocalCluster, spark: SparkSession) -> Iterator[tr.Database]:
    with scratch_database(cluster, spark) as database:
        yield database


def rows(db: tr.Database, query: str) -> list[tuple[object, ...]]:
    """The rows of a query, sorted, with empty texts for NULLs in the column b."""
    found = db.query(query, fresh=True).to_pylist()
    return sorted(tuple("" if name == "b" and v is None else v for name, v in row.items()) for row in found)


def test_views_follow_other_clients(db: tr.Database, client: Client) -> None:
    with foreign_table(client, splits=(ROWS[2],)) as name:
        client.put(name, ROWS[0], {"f:a": struct.pack(">q", 5), "f:n": b"early"})
        db.sql(f"""
            CREATE TABLE t (id INT PRIMARY KEY, a BIGINT, b STRING)
            WITH (hbase.table = '{name}', hbase.columns = 'id=:key#binary, a=f:a#binary, b=f:b#string')
        """)
        db.sql("CREATE TABLE own (id INT PRIMARY KEY, t INT, note STRING)")
        db.table("own").put_many([{"id": 1, "t": -1, "note": "x"}, {"id": 2, "t": 0}])
        db.sql("CREATE MATERIALIZED VIEW total AS SELECT b, SUM(a) AS a, COUNT(*) AS n FROM t GROUP BY b")
        db.sql("CREATE MATERIALIZED VIEW joined AS SELECT own.id, note, a FROM own LEFT JOIN t ON own.t = t.id")
        assert rows(db, "SELECT * FROM total") == [("", 5, 1)]
        assert rows(db, "SELECT * FROM joined") == [(1, "x", 5), (2, None, None)]
        client.put(name, ROWS[1], {"f:a": struct.pack(">q", 7)})
        client.put(name, ROWS[0], {"f:b": b"z"})
        client.put(name, ROWS[3], {"f:a": struct.pack(">q", 9), "f:b": b"z"})
        assert rows(db, "SELECT * FROM total") == [("", 7, 1), ("z", 14, 2)]
        client.delete(name, ROWS[3])
        db.table("own").update({"id": 2, "note": "y"})
        assert rows(db, "SELECT * FROM total") == [("", 7, 1), ("z", 5, 1)]
        assert rows(db, "SELECT * FROM joined") == [(1, "x", 5), (2, "y", 7)]
        assert rows(db, "SELECT * FROM t") == [(-1, 5, "z"), (0, 7, "")]
        for view in db.views():
            assert db.verify(view).ok


def test_a_bad_cell_fails_only_the_views_over_its_table(db: tr.Database, client: Client) -> None:
    with foreign_table(client) as name:
        db.sql(f"""
            CREATE TABLE t (id INT PRIMARY KEY, a BIGINT)
            WITH (hbase.table = '{name}', hbase.columns = 'id=:key, a=f:a')
        """)
        db.sql("CREATE TABLE own (id INT PRIMARY KEY)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
        db.sql("CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n FROM own")
        client.put(name, ROWS[0], {"f:a": b"wrong"})
        db.table("own").put({"id": 1})
        epoch = db.refresh()
        assert list(epoch.failed) == ["v"]
        assert rows(db, "SELECT n FROM w") == [(1,)]
        with pytest.raises(ViewFailed, match="f:a of row"):
            db.resume("v")
        client.put(name, ROWS[0], {"f:a": bytes(8)})
        db.refresh()
        assert rows(db, "SELECT n FROM v") == [(1,)]


def test_rows_that_take_several_cells_of_the_raw_log(db: tr.Database, client: Client) -> None:
    """The endpoint ships rows above 8 MiB in one chunk of several cells."""
    with foreign_table(client) as name:
        db.sql(f"""
            CREATE TABLE t (id INT PRIMARY KEY, a STRING, b STRING)
            WITH (hbase.table = '{name}', hbase.columns = 'id=:key, a=f:a#string, b=f:b#string')
        """)
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, length(a) AS a, length(b) AS b FROM t")
        client.put(name, ROWS[0], {"f:a": b"x" * (5 << 20), "f:b": b"y" * (4 << 20)})
        client.put(name, ROWS[1], {"f:a": b"z"})
        db.refresh()
        assert db.view("v").get(-1) == {"id": -1, "a": 5 << 20, "b": 4 << 20}
        assert db.view("v").get(0) == {"id": 0, "a": 1, "b": None}


def test_a_reader_waits_for_its_own_write(db: tr.Database) -> None:
    db.sql("CREATE TABLE own (id INT PRIMARY KEY)")
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n FROM own")
    runner = threading.Thread(target=lambda: db.run(interval=0.05))
    runner.start()
    try:
        for number in range(1, 4):
            written = db.table("own").put({"id": number})
            [row] = db.view("w").scan(at_least=written).to_pylist()
            assert row["n"] == number
    finally:
        db.stop()
        runner.join()


def test_where_tables_are(db: tr.Database, client: Client) -> None:
    """SHOW CREATE says where a table is; columns are added there; a dropped table of another client stays."""
    with foreign_table(client) as name:
        db.sql(f"""
            CREATE TABLE t (id INT PRIMARY KEY, a BIGINT)
            WITH (hbase.table = '{name}', hbase.columns = 'id=:key, a=f:x\\\\x2cy#string')
        """)
        [[statement]] = [list(row.values()) for row in db.sql("SHOW CREATE TABLE t").to_pylist()]
        cells = r"'id=:key#binary, a=f:x\\x2cy#string'"
        assert statement.endswith(f"WITH (hbase.table = '{name}', hbase.columns = {cells})")
        client.put(name, ROWS[0], {"f:x,y": b"12", "f:later": bytes(4)})
        assert rows(db, "SELECT * FROM t") == [(-1, 12)]
        db.sql("ALTER TABLE t ADD COLUMN later INT")
        assert rows(db, "SELECT * FROM t") == [(-1, 12, 0)]
        db.sql("ALTER TABLE t RENAME COLUMN a TO b")
        db.table("t").put({"id": 5, "b": 6, "later": 7})
        assert rows(db, "SELECT id, b, later FROM t") == [(-1, 12, 0), (5, 6, 7)]
        db.sql("DROP TABLE t")
        assert [row.row for row in client.scan(name)] == [struct.pack(">i", 5), ROWS[0]]
    with pytest.raises(SqlError, match="HBase has no namespace 'no_such'"):
        db.sql("CREATE TABLE t (id INT PRIMARY KEY) WITH (hbase.table = 'no_such:t')")
    db.sql("CREATE TABLE own (id INT PRIMARY KEY)")
    place = inside(db).catalog.place(inside(db).catalog.table("own"))["hbase.table"]
    assert place.endswith("_data:own")
    assert client.tableExists(tname(place))
    db.sql("DROP TABLE own")
    assert not client.tableExists(tname(place))


def test_what_is_refused(db: tr.Database, client: Client) -> None:
    with pytest.raises(NotCapable, match="transactions over several rows"), db.transaction():
        pass
    with foreign_table(client) as name:
        with pytest.raises(SqlError, match=r"hbase\.columns must say"):
            db.sql(f"CREATE TABLE t (id INT PRIMARY KEY) WITH (hbase.table = '{name}')")
        with pytest.raises(SqlError, match="has no family 'h'"):
            db.sql(f"""CREATE TABLE t (id INT PRIMARY KEY, a INT)
                WITH (hbase.table = '{name}', hbase.columns = 'id=:key, a=h:a')""")
    with pytest.raises(Unsupported, match=r"option hbase\.peer"):
        db.sql("CREATE TABLE t (id INT PRIMARY KEY) WITH (hbase.peer = 'x')")
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    with pytest.raises(NotCapable, match="added with a default"):
        db.sql("ALTER TABLE t ADD COLUMN a INT DEFAULT 7")
    assert db.tables() == ["t"]


@pytest.mark.parametrize("kept", [hbase.TKeepDeletedCells.TRUE, hbase.TKeepDeletedCells.TTL])
def test_a_family_that_keeps_deleted_cells_is_refused(db: tr.Database, client: Client, kept: int) -> None:
    with foreign_table(client) as name:
        create = f"""CREATE TABLE t (id INT PRIMARY KEY, a BIGINT, b BIGINT)
            WITH (hbase.table = '{name}', hbase.columns = 'id=:key, a=f:a, b=g:b')"""
        alter_family(client, name, kept)
        with pytest.raises(Unsupported) as error:
            db.sql(create)
        assert f"family 'g' of the HBase table {name}" in str(error.value)
        assert f"alter '{name}', {{NAME => 'g', KEEP_DELETED_CELLS => 'FALSE'}}" in str(error.value)
        alter_family(client, name, hbase.TKeepDeletedCells.FALSE)
        db.sql(create)


def alter_family(client: Client, table: str, kept: int) -> None:
    """Says whether the family `g` keeps deleted cells."""
    family = hbase.TColumnFamilyDescriptor(name=b"g", maxVersions=1, keepDeletedCells=kept)
    client.modifyColumnFamily(tname(table), family)
