"""The public API: statements, reads and handles; an invalid statement changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.errors import BadKey, Closed, InUse, NameTaken, NotAStore, SqlError, SyntaxFault, UnknownName, Unsupported
from tailrace.store.base import Write
from tailrace.store.commits import COMMITTED, read_committed


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "s", create=True, spark=spark, map_size=1 << 30) as database:
        database.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, cust BIGINT, price DECIMAL(12,2), day DATE)")
        database.table("orders").put_many(
            [{"id": i, "cust": i % 3, "price": Decimal(i) / 4, "day": f"2026-01-0{i + 1}"} for i in range(6)]
        )
        yield database


def catalog_summary(db: tr.Database) -> tuple[list[str], list[str], int]:
    return db.tables(), db.views(), len(inside(db).catalog.states)


def test_the_public_api_from_create_to_verify(db: tr.Database) -> None:
    db.sql(
        "CREATE MATERIALIZED VIEW spend AS SELECT cust, SUM(price) AS total, COUNT(*) AS n FROM orders GROUP BY cust"
    )
    view = db.view("spend")
    assert view.key == ["cust"]
    assert view.get(1) == {"cust": 1, "total": Decimal("1.25"), "n": 2}
    assert view.get(9) is None
    assert view.get_many([2, 9, 0]).column("cust").to_pylist() == [2, 0]
    assert view.scan().column("cust").to_pylist() == [0, 1, 2]
    assert view.scan(start=1).column("cust").to_pylist() == [1, 2]
    assert view.scan(start=0, stop=1).column("cust").to_pylist() == [0]
    assert view.scan(prefix=2).column("cust").to_pylist() == [2]
    assert view.scan(limit=1).num_rows == 1
    db.table("orders").update({"id": 1, "cust": 8})
    assert db.refresh().operations == 1
    assert view.get(8) == {"cust": 8, "total": Decimal("0.25"), "n": 1}
    assert db.query("SELECT MAX(total) AS m FROM spend").to_pylist() == [{"m": Decimal("1.75")}]
    joined = db.query("SELECT o.id FROM orders o JOIN spend s ON o.cust = s.cust WHERE s.n = 1 ORDER BY o.id")
    assert joined.column("id").to_pylist() == [1, 4]
    assert "accumulators" in db.explain("spend")
    assert db.explain("spend", json=True)["view"] == "spend"
    report = db.verify("spend")
    assert (report.ok, report.missing, report.extra, report.rows) == (True, 0, 0, 4)
    status = db.status()
    assert (status.lag_operations, [v["name"] for v in status.views]) == (0, ["spend"])


def test_queries_that_spark_does_not_have(db: tr.Database) -> None:
    """ANY, ALL and references over several levels, over tables and views, in queries and snapshots."""
    db.sql("CREATE MATERIALIZED VIEW spend AS SELECT cust, SUM(price) AS total FROM orders GROUP BY cust")
    db.sql("CREATE MATERIALIZED VIEW all_days WITH (refresh = 'full') AS SELECT id, cust, day FROM orders")
    queries = {
        "SELECT id FROM orders WHERE price >= ALL (SELECT price FROM orders) ORDER BY id": [5],
        "SELECT cust FROM spend WHERE total < ANY (SELECT total FROM spend) ORDER BY cust": [0, 1],
        "SELECT id, rand() AS r FROM all_days o WHERE EXISTS (SELECT 1 FROM spend s WHERE s.cust = o.cust"
        " AND EXISTS (SELECT 1 FROM orders p WHERE p.id = o.id + 1 AND p.cust > s.cust)) ORDER BY id": [0, 1, 3, 4],
        "TABLE spend": [0, 1, 2],
    }
    with db.snapshot() as snapshot:
        for source in (db, snapshot):
            for sql, expected in queries.items():
                assert sorted(source.query(sql).column(0).to_pylist()) == expected, sql
    inner = "(SELECT MAX(total) FROM spend WHERE cust = o.cust)"
    sql = f"SELECT id FROM orders o WHERE id = (SELECT COUNT(*) + {inner} FROM spend)"
    with pytest.raises(Unsupported, match="of a query two levels outside its subquery") as caught:
        db.query(sql)
    assert (caught.value.line, caught.value.column) == (1, sql.index("o.cust") + 1)


def test_show_describe_drop(db: tr.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, price * 2 AS twice FROM orders")
    assert db.sql("SHOW TABLES").to_pylist() == [{"name": "orders"}]
    assert db.sql("SHOW VIEWS").to_pylist() == [{"name": "v"}]
    described = db.sql("DESCRIBE v").to_pylist()
    assert described[0] == {"column": "id", "type": "bigint", "key": True}
    db.sql("DROP VIEW v; DROP VIEW IF EXISTS v; DROP TABLE orders")
    assert catalog_summary(db) == ([], [], 0)


def test_if_not_exists_and_names_taken(db: tr.Database) -> None:
    db.sql("CREATE TABLE IF NOT EXISTS orders (x INT PRIMARY KEY)")
    assert [c.name for c in db.table("orders").columns] == ["id", "cust", "price", "day"]
    with pytest.raises(NameTaken):
        db.sql("CREATE TABLE Orders (x INT PRIMARY KEY)")
    with pytest.raises(NameTaken):
        db.sql("CREATE MATERIALIZED VIEW orders AS SELECT 1 AS x FROM orders")


def test_tables_and_views_that_views_read_cannot_be_dropped(db: tr.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT cust, COUNT(*) AS n FROM orders GROUP BY cust")
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT n, COUNT(*) AS m FROM v GROUP BY n")
    before = catalog_summary(db)
    for statement, users in (("DROP VIEW v", "w"), ("DROP TABLE orders", "v")):
        with pytest.raises(InUse) as error:
            db.sql(statement)
        assert error.value.users == users
    assert catalog_summary(db) == before
    db.drop("w")
    db.drop("v")
    assert catalog_summary(db) == (["orders"], [], 0)


def test_dropping_a_view_keeps_states_that_other_views_share(db: tr.Database) -> None:
    join = "SELECT a.id, b.id AS bid, a.day FROM orders a JOIN orders b ON a.cust = b.cust"
    db.sql(f"CREATE MATERIALIZED VIEW v AS {join}")
    alone = len(inside(db).catalog.states)
    db.sql(f"CREATE MATERIALIZED VIEW w AS {join} WHERE a.id < b.id")
    db.sql("DROP VIEW v")
    assert 0 < len(inside(db).catalog.states) <= alone
    db.table("orders").put({"id": 50, "cust": 1})
    db.refresh()
    assert db.verify("w").ok


@pytest.mark.parametrize(
    ("sql", "error", "place"),
    [
        ("SELEC 1", SyntaxFault, (1, 1)),
        ("CREATE MATERIALIZED VIEW v AS SELECT id,\n  FROM orders", SyntaxFault, None),
        ("CREATE MATERIALIZED VIEW v AS SELECT x\nFROM nowhere", UnknownName, (2, 6)),
        ("CREATE MATERIALIZED VIEW v AS\nSELECT prise FROM orders", UnknownName, (2, 8)),
        ("CREATE MATERIALIZED VIEW v AS SELECT rand() AS r FROM orders", Unsupported, (1, 38)),
        ("CREATE MATERIALIZED VIEW v AS SELECT current_timestamp() AS r FROM orders", Unsupported, (1, 38)),
        ("CREATE MATERIALIZED VIEW v AS SELECT id, no_such(id) AS r FROM orders", SqlError, None),
        ("CREATE MATERIALIZED VIEW v AS SELECT id FROM orders TABLESAMPLE (3 ROWS)", Unsupported, None),
        ("CREATE TABLE t (a INT)", SqlError, None),
        ("CREATE TABLE t (a MONEY PRIMARY KEY)", Unsupported, (1, 19)),
        ("INSERT INTO orders VALUES (1)", Unsupported, (1, 1)),
        ("SELECT nope FROM orders", SqlError, None),
        ("DROP VIEW nope", UnknownName, None),
    ],
)
def test_bad_statements_say_where_and_change_nothing(
    db: tr.Database, sql: str, error: type[tr.TailraceError], place: tuple[int, int] | None
) -> None:
    before = catalog_summary(db)
    with pytest.raises(error) as raised:
        db.sql(sql)
    if place:
        assert (raised.value.line, raised.value.column) == place
    assert catalog_summary(db) == before


def test_views_without_a_key(db: tr.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT cust FROM orders")
    view = db.view("v")
    assert view.key is None
    assert sorted(view.scan().column("cust").to_pylist()) == [0, 0, 1, 1, 2, 2]
    with pytest.raises(BadKey):
        view.get(1)


def test_keys_of_the_wrong_shape(db: tr.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT cust, day, COUNT(*) AS n FROM orders GROUP BY cust, day")
    view = db.view("v")
    assert view.key == ["cust", "day"]
    assert view.get((1, "2026-01-02")) == view.get({"cust": 1, "day": "2026-01-02"})
    assert view.scan(prefix=1).num_rows == 2
    for key in (1, (1, 2, 3), ("x", "2026-01-02"), {"cust": 1}):
        with pytest.raises(BadKey):
            view.get(key)


def test_a_view_built_while_writers_write(db: tr.Database) -> None:
    stop = threading.Event()

    def write() -> None:
        number = 100
        while not stop.is_set():
            db.table("orders").put_many([{"id": number + i, "cust": i % 5, "price": 1} for i in range(20)])
            db.table("orders").delete(number - 15)
            number += 20

    writer = threading.Thread(target=write)
    writer.start()
    try:
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT cust, COUNT(*) AS n, MIN(id) AS lo FROM orders GROUP BY cust")
        assert db.verify("v").ok
        db.refresh()
        assert db.verify("v").ok
    finally:
        stop.set()
        writer.join()
    db.refresh()
    assert sum(db.view("v").scan().column("n").to_pylist()) == db.table("orders").scan().num_rows


def test_an_unfinished_build_leaves_nothing_behind(db: tr.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    class Crash(Exception):
        pass

    def crash(*_: Any) -> None:
        raise Crash

    statement = "CREATE MATERIALIZED VIEW v AS SELECT cust, MAX(price) AS m FROM orders GROUP BY cust"
    with monkeypatch.context() as patch:
        patch.setattr(type(inside(db).catalog), "publish", crash)
        with pytest.raises(Crash):
            db.sql(statement)
    assert db.views() == []
    db.table("orders").put({"id": 9, "cust": 0, "price": 1000})
    db.sql(statement)
    assert db.view("v").get(0) == {"cust": 0, "m": Decimal("1000.00")}
    assert inside(db).catalog.leftovers() == []


def test_verify_finds_a_missing_row(db: tr.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, price FROM orders")
    view, epoch = inside(db).catalog.view("v"), read_committed(inside(db).store).epoch
    for shard in range(inside(db).store.shards):
        holder = inside(db).store.shard(shard)
        with holder.at(epoch) as snapshot:
            entries = [entry for run in snapshot.scan(view.state) for entry in run]
        if entries:
            holder.apply(epoch + 1, [Write.of(view.state, [entries[0][0]], [None], None)], keep=epoch)
            break
    done = read_committed(inside(db).store)
    inside(db).store.change_documents({COMMITTED.name: structs.replace(done, epoch=epoch + 1)})
    report = db.verify("v")
    assert (report.ok, report.missing, report.extra) == (False, 1, 0)
    assert len(report.examples["missing"]) == 1


def test_a_store_can_be_opened_twice_and_a_closed_handle_refuses(tmp_path: Path, spark: Any) -> None:
    first = tr.open(tmp_path / "x", create=True, spark=spark, map_size=1 << 28)
    second = tr.open(tmp_path / "x", spark=spark)
    first.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    second.table("t").put({"id": 1})
    assert first.table("t").get(1) == {"id": 1}
    first.close()
    with pytest.raises(Closed):
        first.table("t")
    assert second.table("t").get(1) == {"id": 1}
    second.close()
    with pytest.raises(NotAStore):
        tr.open(tmp_path / "absent")


def test_a_view_is_no_table(db: tr.Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW spend AS SELECT cust, SUM(price) AS total FROM orders GROUP BY cust")
    db.sql("CREATE MATERIALIZED VIEW big AS SELECT cust FROM spend WHERE total > 10")
    for write in (lambda: db.table("Big").put({"cust": 1}), lambda: db.sql("ALTER TABLE big ADD COLUMN x INT")):
        with pytest.raises(UnknownName, match=r"no table named .*: it is a view, .* of orders: write to tables"):
            write()
    with pytest.raises(UnknownName, match="no view named 'orders': it is a table"):
        db.view("orders")
