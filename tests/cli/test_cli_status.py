"""`tailrace status`: rows and bytes of tables and views, in the width of the terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys

import pytest
from pyspark.sql import SparkSession
from shopping import SPEND, Tailrace

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.store.base import Store
from tailrace.store.lmdb import extents
from tailrace.store.lmdb.shard import decode_mark, encode_mark

MOST = "CREATE MATERIALIZED VIEW most AS SELECT cust, SUM(price) AS total, MAX(price) AS most FROM orders GROUP BY cust"
JOINS = [
    f"CREATE MATERIALIZED VIEW {name} AS SELECT o.id, l.line, {column} FROM orders o JOIN lines l ON o.id = l.id"
    for name, column in (("first", "o.cust"), ("second", "o.cust + 1 AS c"))
]


def fill(shop: Tailrace, rows: int) -> None:
    with tr.open(shop.path) as db:
        db.table("orders").put_many([{"id": i, "cust": i % 9, "price": i, "note": "x" * 50} for i in range(rows)])
        db.table("lines").put_many([{"id": i, "line": j} for i in range(rows) for j in range(2)])


def test_rows_and_bytes(shop: Tailrace, spark: SparkSession) -> None:
    fill(shop, 3000)
    shop("sql", ";".join([SPEND, MOST, *JOINS]))
    status = shop.json("status")
    tables = {t["name"]: t for t in status["tables"]}
    assert {name: t["rows"] for name, t in tables.items()} == {"orders": 3000, "lines": 6000}
    assert 3000 * 20 < tables["orders"]["bytes"] < 3000 * 300
    views = {v["name"]: v for v in status["views"]}
    assert {name: v["rows"] for name, v in views.items()} == pytest.approx(
        {"spend": 9, "most": 9, "first": 6000, "second": 6000}, rel=0.2
    )
    assert (views["spend"]["exact"], views["first"]["exact"]) == (True, True)
    assert views["first"]["shared_bytes"] == views["second"]["shared_bytes"] > 0
    sizes = status["sizes"]
    assert sizes["shared"] == views["first"]["shared_bytes"]
    assert sizes["views"] == sum(v["bytes"] for v in views.values())
    parts = ("tables", "views", "shared", "log", "undo", "free")
    assert sum(sizes[part] for part in parts) <= sizes["files"]
    assert sizes["fullest"] <= sizes["files"]
    assert sizes["limit"] == 256 << 30


def forget_counts(store: Store) -> None:
    """Makes the numbers of entries unknown, as in a store of format 2."""
    for index in range(store.shards):
        environment = store.shard(index).environment  # type: ignore[attr-defined]
        with environment.write() as txn, txn.cursor(environment.databases["marks"]) as cursor:
            for key, value in list(cursor):
                mark = decode_mark(value)
                assert mark is not None
                txn.put(key, encode_mark(mark._replace(entries=None)), db=environment.databases["marks"])


def test_counting_everything_gives_the_same(
    shop: Tailrace, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(shop, 2000)
    shop("sql", JOINS[0])
    with tr.open(shop.path) as db:
        catalog, store = inside(db).catalog, inside(db).store
        marked = store.sizes(list(catalog.tables.values()))
        forget_counts(store)
        monkeypatch.setattr(extents, "COUNTED", 10**9)
        exact = store.sizes(list(catalog.tables.values()))
        monkeypatch.setattr(extents, "COUNTED", 100)
        estimated = store.sizes(list(catalog.tables.values()))
        rows = catalog.views["first"].state
    assert all(extent.exact for extent in exact.states.values())
    assert marked.states == exact.states
    assert not any(extent.exact for extent in estimated.states.values())
    for state, extent in exact.states.items():
        assert estimated.states[state].entries == pytest.approx(extent.entries, rel=0.2)
    assert exact.states[rows].entries == 4000


def test_sizes_are_read_only_if_asked_for(shop: Tailrace) -> None:
    with tr.open(shop.path) as db:
        assert db.status().sizes is None
        assert "rows" not in db.status().tables[0]
        assert db.status(sizes=True).tables[0]["rows"] == 0


LONG = "a_view_with_a_name_that_is_rather_long_for_a_name"


def test_it_fits_the_terminal_and_breaks_no_name(shop: Tailrace, spark: SparkSession) -> None:
    views = [f"spend_of_customers_{i}" for i in range(9)] + [LONG]
    shop("sql", ";".join(SPEND.replace("spend", name) for name in views))
    for width in (60, 80, 100, 140):
        lines = on_a_terminal(width, "status", str(shop.path)).splitlines()
        table = [line for line in lines if line[:1] in "┏┃┡│└"]
        assert max(len(line) for line in table) <= width
        cells = {cell.strip() for line in table for cell in re.split("[│┃]", line)}
        assert {"orders", "lines", "view", "rows"} <= cells
        if width >= 80:  # at 60 columns the longest name does not fit
            assert set(views) <= cells, lines
            hidden = {"key", "reads", "size", "epoch", "behind", "state"} - cells
            (note,) = [line for line in lines if "not shown" in line] or [""]
            assert all(name in note for name in hidden), lines
            assert bool(hidden) == bool(note) == (width < 140)


def on_a_terminal(width: int, *args: str) -> str:
    """What a verb prints on a terminal of a width, without its colours."""
    main, worker = pty.openpty()
    env = {**os.environ, "COLUMNS": str(width), "TERM": "xterm"}
    process = subprocess.Popen([sys.executable, "-m", "tailrace", *args], stdout=worker, stderr=worker, env=env)
    os.close(worker)
    output = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        output += part
    os.close(main)
    assert process.wait(60) == 0, output
    return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", output.decode())


def test_numbers_have_the_right_plural(shop: Tailrace) -> None:
    shop("put", "orders", '{"id": 1}')
    assert "views are 1 operation and" in shop("status").stdout
    shop("put", "orders", '{"id": 2}')
    assert "views are 2 operations and" in shop("status").stdout
    assert "1 row deleted" in shop("delete", "orders", 1).stdout
    assert json.loads(shop("put", "orders", "--json", stdin='{"id": 3}').stdout)["operations"] == 1
