"""The oracle: a model of the tables in plain Python, and Spark's own answer to each view's SQL."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

import tailrace as tr
from tailrace.source.session import session
from tailrace.types import schema

Row = dict[str, Any]


class Model:
    """A database and what its tables ought to hold."""

    def __init__(self, db: tr.Database) -> None:
        self.db = db
        self.tables: dict[str, dict[Any, Row]] = {name: {} for name in db.tables()}

    def put(self, name: str, rows: list[Row]) -> None:
        table = self.db.table(name)
        table.put_many(rows)
        for row in rows:
            full = {c.name: row.get(c.name) for c in table.columns}
            self.tables[name][tuple(full[k] for k in table.key)] = full

    def update(self, name: str, row: Row) -> None:
        table = self.db.table(name)
        table.update(row)
        self.tables[name][tuple(row[k] for k in table.key)].update(row)

    def delete(self, name: str, keys: list[Any]) -> None:
        self.db.table(name).delete_many(keys)
        for key in keys:
            self.tables[name].pop(key if isinstance(key, tuple) else (key,), None)

    def check(self) -> None:
        """Every table equals the model and every view equals Spark's answer over the model."""
        spark = session(self.db.spark)
        for name, rows in self.tables.items():
            table = self.db.table(name)
            arrow = pa.Table.from_pylist(list(rows.values()), schema=schema(table.columns))
            assert multiset(table.scan()) == multiset(arrow), f"table {name}"
            ddl = ", ".join(f"`{c.name}` {c.type}" for c in table.columns)
            spark.createDataFrame(arrow, schema=ddl).createOrReplaceTempView(name)
        pending = list(self.db.views())
        while pending:  # a view over views comes after these
            name = pending.pop(0)
            view = self.db.view(name)
            if any(used in pending for used in self.db._catalog.view(name).uses):
                pending.append(name)
                continue
            answer = spark.sql(view.sql)
            answer.createOrReplaceTempView(name)
            assert_same(view.scan(), answer.toArrow(), f"view {name}: {view.sql}")


def plain(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, list):
        return tuple(plain(v) for v in value)
    if isinstance(value, dict):
        return tuple(sorted((k, plain(v)) for k, v in value.items()))
    return value


def multiset(table: pa.Table) -> Counter[Any]:
    return Counter(tuple(plain(v) for v in row.values()) for row in table.to_pylist())


def alike(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= 1e-9 * max(abs(a), abs(b))
    return bool(a == b)


def assert_same(found: pa.Table, expected: pa.Table, what: str) -> None:
    missing, extra = multiset(expected) - multiset(found), multiset(found) - multiset(expected)
    for row in list(missing.elements()):
        partner = next((e for e in extra.elements() if all(map(alike, row, e))), None)
        if partner is not None:
            missing.subtract([row])
            extra.subtract([partner])
    missing, extra = +missing, +extra
    assert (missing, extra) == (Counter(), Counter()), f"{what}\n missing {dict(missing)}\n extra {dict(extra)}"


def either(rng: random.Random, make: Callable[[], Any], nulls: float = 0.15) -> Any:
    return None if rng.random() < nulls else make()


def random_row(rng: random.Random) -> Row:
    """Values from small domains, so that groups, joins and duplicates really happen."""
    return {
        "g": either(rng, lambda: rng.randrange(4)),
        "h": either(rng, lambda: rng.choice(["a", "b", "", "\x00z", "ü"])),
        "n": either(rng, lambda: rng.choice([0, 1, -1, 7, 2**40, -(2**40)])),
        "p": either(rng, lambda: Decimal(rng.randrange(-500, 500)) / 100),
        "x": either(rng, lambda: rng.choice([0.0, -0.0, 0.1, 2.5, -1e3, 1e3, 3e-2])),
        "d": either(rng, lambda: date(2026, 1, 1) + timedelta(days=rng.randrange(5))),
        "t": either(rng, lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=rng.randrange(5))),
        "b": either(rng, lambda: rng.random() < 0.5),
    }


WIDE = "g INT, h STRING, n BIGINT, p DECIMAL(8,2), x DOUBLE, d DATE, t TIMESTAMP, b BOOLEAN"


def random_step(rng: random.Random, model: Model, name: str, keys: int) -> None:
    """One random write: rows put, changed, moved, deleted, put back."""
    table = model.db.table(name)
    present = list(model.tables[name])
    kind = rng.random()
    if kind < 0.5 or not present:
        rows = []
        for key in rng.sample(range(keys), rng.randrange(1, 8)):
            values = [key, f"k{key % 3}"][: len(table.key)]
            rows.append({**random_row(rng), **dict(zip(table.key, values, strict=True))})
        model.put(name, rows)
    elif kind < 0.75:
        key = rng.choice(present)
        changed = rng.sample(sorted(random_row(rng)), 2)
        fresh = random_row(rng)
        model.update(name, {**dict(zip(table.key, key, strict=True)), **{c: fresh[c] for c in changed}})
    else:
        gone = rng.sample(present, min(len(present), rng.randrange(1, 5)))
        model.delete(name, [k if len(k) > 1 else k[0] for k in gone])
