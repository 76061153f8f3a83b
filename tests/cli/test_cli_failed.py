"""What every verb says about a view that has failed, and that it recovers."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession
from shopping import SPEND, Tailrace
from typer.testing import CliRunner

from tailrace.cli.app import app

STRICT = "CREATE MATERIALIZED VIEW strict AS SELECT id, IF(cust < 0, raise_error('no'), cust) AS cust FROM orders"


def test_every_verb_tells_a_failed_view(shop: Tailrace, spark: SparkSession, tmp_path: Path) -> None:
    shop("sql", f"{SPEND}; {STRICT}")
    healthy = shop("status").stdout.replace(str(shop.path), "")
    assert "failed" not in healthy
    assert shop.json("status")["ok"] is True
    shop("put", "orders", '{"id": 1, "cust": -7}')
    refreshed = shop("refresh", code=1)
    assert "strict failed" in refreshed.stdout
    assert "on the row orders: id = 1: no; it is tried again when that row changes" in refreshed.stderr
    status = shop("status", code=1).stdout.splitlines()
    assert status[0] == "1 view has failed: strict"
    assert f"`tailrace resume {shop.path} strict` tries it at once" in status[-1]
    assert shop.json("status", code=1)["ok"] is False
    verified = shop("verify", code=1).stdout
    assert "strict: has failed; compared at epoch 0, which it shows: " in verified
    assert {r["view"]: (r["ok"], bool(r["failed"])) for r in shop.json("verify", code=1)} == {
        "spend": (True, False),
        "strict": (True, True),
    }
    assert "strict: has failed; only its rows were audited, at epoch 0, which it shows" in shop("audit").stdout
    stale = shop("sql", "SELECT * FROM strict").stderr
    assert "strict has failed and shows epoch 0: " in stale
    assert "--fresh" not in stale
    assert shop.error("sql", "SELECT * FROM strict", "--fresh")["error"] == "ViewFailed"
    assert "up to date" in shop("sql", "SELECT * FROM spend", "--fresh").stderr
    shop("dump", tmp_path / "dump")
    restored = CliRunner().invoke(app, ["restore", str(tmp_path / "dump"), str(tmp_path / "again")])
    assert restored.exit_code == 1
    assert "strict: has failed, shows nothing, because it could not be built: " in restored.stdout
    assert "restored " in restored.stdout.splitlines()[-1]
    again = Tailrace(tmp_path / "again")
    assert again.error("scan", "strict")["error"] == "ViewFailed"
    assert json.loads(again("scan", "spend", "--json").stdout)
    for store in (shop, again):
        store("put", "orders", '{"id": 1, "cust": 7}')
        assert "strict recovered" in store("refresh").stdout
        assert store.rows("strict") == [{"id": 1, "cust": 7}]
        store("verify")
