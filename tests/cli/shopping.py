"""Helpers of the command line tests: a store with the tables `orders` and `lines`, and a runner of verbs on it."""

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
    """Runs verbs on one store, in this process."""

    def __init__(self, path: Path | str) -> None:
        self.path = path

    def __call__(self, verb: str, *args: object, stdin: str | None = None, code: int = 0) -> Result:
        result = CliRunner().invoke(app, [verb, str(self.path), *map(str, args)], input=stdin)
        output = f"{verb} {args}: exit {result.exit_code}\n{result.stdout}\n{result.stderr}"
        assert result.exit_code == code, output
        return result

    def json(self, verb: str, *args: object, code: int = 0) -> Any:
        return json.loads(self(verb, *args, "--json", code=code).stdout)

    def error(self, verb: str, *args: object, stdin: str | None = None) -> dict[str, Any]:
        """Runs a command that must fail, with and without --json; returns the error as JSON."""
        plain = self(verb, *args, stdin=stdin, code=1)
        assert plain.stderr.startswith("error: ")
        assert "Traceback" not in plain.stderr
        error = json.loads(self(verb, *args, "--json", stdin=stdin, code=1).stderr)
        assert error["message"] == plain.stderr.removeprefix("error: ").rstrip("\n")
        return dict(error)

    def rows(self, table: str) -> list[dict[str, Any]]:
        return list(self.json("scan", table))
