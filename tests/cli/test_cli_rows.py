"""put, delete, get, scan, status and init: none of them starts Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shopping import Tailrace


def test_a_row_is_read_as_it_was_written(shop: Tailrace) -> None:
    row = {"id": -1, "cust": 7, "price": "9.50", "note": "a [bold] note", "day": "2026-01-31"}
    assert shop(
        "put",
        "orders",
        f'{{"id": -1, "cust": 7, "price": 9.50, "note": "{row["note"]}", "day": "2026-01-31"}}',
    )
    assert shop.json("get", "orders", "-1") == row
    shown = shop("get", "orders", "-1").stdout
    assert "9.50" in shown
    assert "a [bold] note" in shown


def test_composite_keys_and_odd_values(shop: Tailrace) -> None:
    shop("put", "lines", '{"id": 1, "line": 2, "price": "NaN", "data": "0x00ff"}', '{"id": 1, "line": 10}')
    row = {"id": 1, "line": 2, "price": "NaN", "data": "0x00ff"}
    assert shop.json("get", "lines", 1, 2) == row
    assert shop.json("get", "lines", "[1, 2]") == row
    assert shop.json("get", "lines", 1, 10) == {"id": 1, "line": 10, "price": None, "data": None}


def test_put_reads_rows_from_stdin(shop: Tailrace) -> None:
    shop("put", "orders", stdin='{"id": 1}\n\n{"id": 2, "cust": 5}\n')
    shop("put", "orders", '[{"id": 3}, {"id": 4}]')
    assert [row["id"] for row in shop.rows("orders")] == [1, 2, 3, 4]


def test_update_changes_only_the_given_columns(shop: Tailrace) -> None:
    shop("put", "orders", '{"id": 1, "cust": 7, "note": "x"}')
    shop("put", "orders", "--update", '{"id": 1, "cust": 8}')
    assert shop.json("get", "orders", 1) == {"id": 1, "cust": 8, "price": None, "note": "x", "day": None}
    assert shop.error("put", "orders", "--update", '{"id": 2, "cust": 8}')["error"] == "NoSuchRow"


def test_delete(shop: Tailrace) -> None:
    shop("put", "orders", *(f'{{"id": {i}}}' for i in range(5)))
    assert shop("delete", "orders", 1, 2, 77).stdout == "2 rows deleted, position 2\n"
    assert [row["id"] for row in shop.rows("orders")] == [0, 3, 4]
    shop("put", "lines", *(f'{{"id": 1, "line": {i}}}' for i in range(5)))
    assert shop.json("delete", "lines", 1, 0)["operations"] == 1
    assert shop.json("delete", "lines", "[1, 1]", "[1, 3]")["operations"] == 2
    assert [row["line"] for row in shop.rows("lines")] == [2, 4]


def test_get_of_a_missing_row_exits_with_1_and_prints_nothing(shop: Tailrace) -> None:
    result = shop("get", "orders", 404, code=1)
    assert (result.stdout, result.stderr) == ("", "")
    assert shop.json("get", "orders", 404, code=1) is None


def test_a_table_is_scanned_in_key_order(shop: Tailrace) -> None:
    shop("put", "orders", *(f'{{"id": {i}}}' for i in range(-10, 30)))

    def ids(*options: object) -> list[int]:
        return [row["id"] for row in shop.json("scan", "orders", *options)]

    assert ids() == list(range(-10, 30))
    assert ids("--limit", 3) == [-10, -9, -8]
    assert ids("--start", "-2", "--stop", 2) == [-2, -1, 0, 1]
    assert ids("--prefix", 7) == [7]
    assert ids("--limit", 0) == []


def test_a_composite_range(shop: Tailrace) -> None:
    shop("put", "lines", *(f'{{"id": {i}, "line": {j}}}' for i in range(3) for j in range(3)))

    def keys(*options: object) -> list[tuple[int, int]]:
        return [(row["id"], row["line"]) for row in shop.json("scan", "lines", *options)]

    assert keys("--prefix", 1) == [(1, 0), (1, 1), (1, 2)]
    assert keys("--start", "[1, 2]", "--stop", "[2, 1]") == [(1, 2), (2, 0)]
    shop("scan", "lines", "--prefix", 1, "--start", 2, code=2)


def test_status_of_tables(shop: Tailrace) -> None:
    shop("put", "orders", '{"id": 1}', '{"id": 2}')
    status = shop.json("status")
    assert [table["name"] for table in status["tables"]] == ["lines", "orders"]
    assert (status["epoch"], status["lag_operations"]) == (0, 2)
    assert "2 operations" in shop("status").stdout


def test_init_refuses_an_existing_store_and_a_directory_with_files(tmp_path: Path) -> None:
    shop = Tailrace(tmp_path / "new" / "shop")
    made = shop.json("init", "--nodes", 3, "--shards", 6, "--relaxed")
    assert made == {"path": str(shop.path), "nodes": 3, "shards": 6, "durable": False}
    assert shop.error("init")["error"] == "StoreError"
    (tmp_path / "note.txt").write_text("mine")
    assert Tailrace(tmp_path).error("init")["error"] == "NotAStore"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new", "note.txt"]


BAD = [
    (["put", "orders", "{id: 1}"], "DataError", "row 1 is not JSON"),
    (["put", "orders", '[{"id": 1}, {"id": 2}]', "{id: 3}"], "DataError", "row 3 is not JSON"),
    (["put", "orders", '[{"id": 1}, {"id": 2}]', '{"id": "x"}'], "BadValue", "row 3, column 'id'"),
    (["put", "orders", "7"], "BadValue", "row 1 is 7; expected a dict of columns; nothing was written"),
    (["put", "orders", '{"id": "x"}'], "BadValue", "BIGINT"),
    (["put", "orders", '{"id": 1, "price": 1.005}'], "BadValue", "DECIMAL(12,2)"),
    (["put", "orders", '{"id": 1}', '{"id": 2, "day": "tomorrow"}'], "BadValue", "row 2, column 'day'"),
    (["put", "orders", '{"cust": 1}'], "NullKey", "'id'"),
    (["put", "orders", '{"id": 1, "colour": "red"}'], "UnknownColumn", "'colour'"),
    (["put", "lines", '{"id": 1, "line": 1, "data": "xyz"}'], "BadValue", "BINARY"),
    (["put", "nosuch", '{"id": 1}'], "UnknownName", "'nosuch'"),
    (["get", "nosuch", "1"], "UnknownName", "(known: lines, orders)"),
    (["get", "orders", "seven"], "BadKey", "BIGINT"),
    (["get", "orders"], "BadKey", "expected 1 value, got 0"),
    (["get", "lines", "1"], "BadKey", "expected 2 values, got 1"),
    (["get", "lines", "[1, 2, 3]"], "BadKey", "expected 2 values, got 3"),
    (["get", "lines", "[]"], "BadKey", "expected 2 values, got 0"),
    (["scan", "orders", "--start", "x"], "BadKey", "BIGINT"),
    (["delete", "orders", "x"], "BadKey", "BIGINT"),
    (["sql", "CREATE TABLE"], "SyntaxFault", "line 1"),
    (["sql", "DROP TABLE nosuch"], "UnknownName", "nosuch"),
    (["sql", "CREATE TABLE orders (id INT PRIMARY KEY)"], "NameTaken", "orders"),
    (["explain", "nosuch"], "UnknownName", "nosuch"),
    (["verify", "nosuch"], "UnknownName", "nosuch"),
]


@pytest.mark.parametrize(("command", "kind", "part"), BAD, ids=[" ".join(c[0]) for c in BAD])
def test_bad_input_is_an_error_and_changes_nothing(shop: Tailrace, command: list[str], kind: str, part: str) -> None:
    error = shop.error(*command)
    assert error["error"] == kind
    assert part in error["message"]
    assert shop.rows("orders") == shop.rows("lines") == []


@pytest.mark.parametrize("verb", ["status", "refresh", "run", "verify"])
def test_a_directory_that_is_not_a_store_is_refused_and_left_unchanged(tmp_path: Path, verb: str) -> None:
    assert Tailrace(tmp_path / "nowhere").error(verb)["error"] == "NotAStore"
    assert Tailrace(tmp_path).error(verb)["error"] == "NotAStore"
    assert list(tmp_path.iterdir()) == []


def test_a_newer_store_is_refused(shop: Tailrace) -> None:
    (shop.path / "store.json").write_text('{"format": 999}')
    assert shop.error("status")["found"] == 999


def test_a_table_is_copied_through_a_pipe(shop: Tailrace) -> None:
    shop(
        "sql",
        "CREATE TABLE n (id INT PRIMARY KEY, a ARRAY<STRUCT<x: DECIMAL(9,2), at: TIMESTAMP>>, m MAP<STRING, BINARY>)",
    )
    row = '{"id": 1, "a": [{"x": "1.50", "at": "2026-01-31T12:00:00+00:00"}, null], "m": [["k", "0x00ff"]]}'
    shop("put", "n", row, '{"id": 2, "a": [], "m": {"k": null}}')
    assert shop.json("get", "n", 1) == json.loads(row)
    printed = shop("scan", "n", "--json").stdout
    shop("delete", "n", 1, 2)
    assert shop("load", "n", "-", stdin=printed).stdout.startswith("loaded 2 rows into n")
    assert shop("scan", "n", "--json").stdout == printed
    assert shop.error("load", "n", "-", stdin=printed[:-20])["message"].startswith("stdin: ")
    assert shop("load", "n", "-", stdin="[]\n").stdout.startswith("loaded 0 rows")
