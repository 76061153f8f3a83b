"""Random schemas, data and operations: views equal recomputation, and one epoch gives the same rows as many."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from oracle import Model, multiset

import tailrace as tr

VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 0, 127],
    "SMALLINT": [-32768, 1, 32767],
    "INT": [-(2**31), 0, 7, 2**31 - 1],
    "BIGINT": [-(2**62), 0, 5, 2**62],
    "FLOAT": [0.0, 1.5, -2.25],
    "DOUBLE": [0.0, -0.0, 0.1, 1e9],
    "DECIMAL(5,2)": [Decimal("-999.99"), Decimal("0.00"), Decimal("1.05")],
    "DECIMAL(20,4)": [Decimal("1234567890123456.7891"), Decimal("-0.0001")],
    "DECIMAL(38,10)": [Decimal("1234567890123456789012345678.0123456789"), Decimal("-1.0000000001")],
    "STRING": ["", "a", "a\x00b", "é", "z" * 300, "z" * 301],
    "BINARY": [b"", b"\x00", b"\x00\xff", b"ab"],
    "DATE": [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)],
    "TIMESTAMP": [datetime(1900, 1, 1, tzinfo=UTC), datetime(2026, 6, 1, 12, 0, 0, 123456, tzinfo=UTC)],
    "TIMESTAMP_NTZ": [datetime(1900, 1, 1), datetime(2026, 6, 1, 12, 0, 0, 123456)],
}
SUMMABLE = ("TINYINT", "SMALLINT", "INT", "FLOAT", "DOUBLE", "DECIMAL(5,2)", "DECIMAL(20,4)")


class Schema:
    """A random table: a key of one or two random types, and a handful of other columns."""

    def __init__(self, rng: random.Random) -> None:
        self.key = {f"k{i}": rng.choice(list(VALUES)) for i in range(rng.randrange(1, 3))}
        self.rest = {f"c{i}": kind for i, kind in enumerate(rng.sample(list(VALUES), 5))}

    def ddl(self, name: str) -> str:
        columns = ", ".join(f"{n} {kind}" for n, kind in (self.key | self.rest).items())
        return f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({', '.join(self.key)}))"

    def row(self, rng: random.Random) -> dict[str, Any]:
        keys = {n: rng.choice(VALUES[kind]) for n, kind in self.key.items()}
        return keys | {n: rng.choice([None, *VALUES[kind]]) for n, kind in self.rest.items()}

    def views(self, rng: random.Random) -> list[str]:
        g, x = rng.sample(list(self.rest), 2)
        summed = [n for n, kind in self.rest.items() if kind in SUMMABLE]
        totals = "".join(f", SUM({n}) AS s{n}, AVG({n}) AS a{n}" for n in summed)
        keys = ", ".join(self.key)
        return [
            f"SELECT {g}, COUNT(*) AS n, MIN({x}) AS lo, MAX({x}) AS hi, COUNT(DISTINCT {x}) AS d{totals} "
            f"FROM t GROUP BY {g}",
            f"SELECT {keys}, {x} FROM t WHERE {g} IS NOT NULL",
            f"SELECT {x}, {g} FROM t",
            f"SELECT DISTINCT {x} FROM t",
            f"SELECT a.{x}, COUNT(*) AS n FROM t a LEFT JOIN t b ON a.{g} = b.{g} GROUP BY a.{x}",
        ]


def normalize_zeros(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(0.0 if v == 0 and isinstance(v, float) else v for v in key)


def scenario(seed: int) -> tuple[Schema, list[str], list[tuple[str, Any]]]:
    """A schema, views and operations; "refresh" marks an epoch's end."""
    rng = random.Random(seed)
    schema = Schema(rng)
    operations: list[tuple[str, Any]] = []
    for _ in range(18):
        kind = rng.random()
        if kind < 0.6:
            operations.append(("put", [schema.row(rng) for _ in range(rng.randrange(1, 5))]))
        elif kind < 0.85:
            row = schema.row(rng)
            operations.append(("delete", [tuple(row[k] for k in schema.key)]))
        else:
            operations.append(("refresh", None))
    return schema, schema.views(rng), operations


def play(db: tr.Database, schema: Schema, views: list[str], operations: list[tuple[str, Any]], refreshes: bool) -> None:
    db.sql(schema.ddl("t"))
    for number, sql in enumerate(views):
        db.sql(f"CREATE MATERIALIZED VIEW v{number} AS {sql}")
    model = Model(db)
    for kind, what in operations:
        if kind == "put":
            model.put(
                "t", [{k: normalize_zeros((v,))[0] if k in schema.key else v for k, v in row.items()} for row in what]
            )
        elif kind == "delete":
            model.delete("t", [normalize_zeros(key) for key in what])
        elif refreshes:
            db.refresh()
            model.check()
    db.refresh()
    model.check()


@pytest.mark.parametrize("seed", range(4))
def test_oracle_random_schemas(tmp_path: Path, spark: Any, seed: int) -> None:
    schema, views, operations = scenario(seed)
    results = []
    for name, refreshes in (("many", True), ("one", False)):
        with tr.open(tmp_path / name, create=True, spark=spark, map_size=1 << 30) as db:
            play(db, schema, views, operations, refreshes)
            results.append({v: multiset(db.view(v).scan()) for v in db.views()})
    assert results[0] == results[1], "the same operations as many epochs and as one"
