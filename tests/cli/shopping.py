"""The command line, run on a store of orders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from tailrace.cli.app import app

ORDERS = "CREATE TABLE orders (id BIGINT PRIMARY KEY, cust BIGINT, price DECIMAL(12,2), note STRING, day DATE)"
LINES = "CREATE TABLE lines (id BIGINT, line INT, price DOUBLE, data BINARY, PRIMARY KEY (id, line))"
SPEND = """CREATE MATERIALIZED VIEW spend AS
    SELECT cust, SUM(price) AS total, COUNT(*) AS n FROM orders GROUP BY cust"""


class Tailrace:
    """The command line, run in this process, on one store."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, verb: str, *args: object, stdin: str | None = None, code: int = 0) -> Result:
        result = CliRunner().invoke(app, [verb, str(self.path), *map(str, args)], input=stdin)
        said = f"{verb} {args}: exit {result.exit_code}\n{result.stdout}\n{result.stderr}"
        assert result.exit_code == code, said
        return result

    def json(self, verb: str, *args: object, code: int = 0) -> Any:
        return json.loads(self(verb, *args, "--json", code=code).stdout)

    def error(self, verb: str, *args: object, stdin: str | None = None) -> dict[str, Any]:
        """The error of a command that must fail, as JSON; for people it is one line."""
        plain = self(verb, *args, stdin=stdin, code=1)
        assert plain.stderr.startswith("error: ")
        assert "Traceback" not in plain.stderr
        found = json.loads(self(verb, *args, "--json", stdin=stdin, code=1).stderr)
        assert found["message"] == plain.stderr.removeprefix("error: ").rstrip("\n")
        return dict(found)

    def rows(self, table: str) -> list[dict[str, Any]]:
        return list(self.json("scan", table))
