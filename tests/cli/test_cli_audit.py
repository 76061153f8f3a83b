"""`tailrace audit`: what it prints, and its exit codes."""

from __future__ import annotations

from typing import Any

from shopping import SPEND, Tailrace

import tailrace as tr
from tailrace.database.inside import inside


def break_rows(shop: Tailrace) -> None:
    """Delete the view's rows from every shard, behind the store's back."""
    with tr.open(shop.path) as db:
        state = inside(db).catalog.view("spend").state
        prefix = inside(db).store.settings.form.prefix(state)
        for index in range(inside(db).store.shards):
            environment = inside(db).store.shard(index).environment
            data = environment.databases["data"]
            with environment.write() as txn:
                with txn.cursor(data) as cursor:
                    keys = [bytes(k) for k, _ in cursor if bytes(k).startswith(prefix)]
                for key in keys:
                    txn.delete(key, db=data)


def test_audit(shop: Tailrace, spark: Any) -> None:
    shop("put", "orders", '{"id": 1, "cust": 7, "price": "9.50"}', '{"id": 2, "cust": 8, "price": "1.50"}')
    shop("sql", SPEND)
    assert "no damage found: audited 2 rows of 1 view and" in shop("audit").stdout
    break_rows(shop)
    output = shop("audit", code=1).stdout
    assert "rows of spend" in output
    assert "missing" in output
    assert "--repair" in output
    shop("audit", "spend", "--from", 7, "--to", 8, code=1)
    shop("audit", "spend", "--from", 9)
    shop("audit", "--from", 9, code=2)
    assert shop.json("audit", "spend", "--sample", 1.0, code=1)["findings"][0]["count"] == 2
    repaired = shop.json("audit", "--repair")
    assert repaired["ok"]
    assert [(f["where"], f["kind"], f["count"]) for f in repaired["repaired"]] == [("rows of spend", "missing", 2)]
    assert shop.rows("spend")[0]["cust"] == 7
    shop("audit")
