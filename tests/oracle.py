"""The test oracle: a model of the tables in plain Python, Spark's own answer to each view's SQL, and random writes.

compare_all_along    compares views with recomputation after they are built and after every epoch
verify_all_along     the same for SQL that leaves ties open: uses `verify`, which knows the plan's order
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import tailrace as tr
from tailrace.database.inside import inside
from tailrace_fuzz.model import Model, Row, interpreted, multiset, plain

__all__ = [
    "WIDE",
    "Model",
    "Row",
    "compare_all_along",
    "either",
    "multiset",
    "plain",
    "random_row",
    "random_step",
    "verify_all_along",
    "wide_store",
    "wide_tables",
]


def either(rng: random.Random, make: Callable[[], Any], nulls: float = 0.15) -> Any:
    return None if rng.random() < nulls else make()


def random_row(rng: random.Random) -> Row:
    """Values from small domains, so that groups, join matches and duplicates occur."""
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
    """One random write: put, update or delete some rows."""
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


@contextmanager
def wide_store(path: Path, spark: Any, names: str) -> Iterator[tr.Database]:
    """An embedded store with the tables of `wide_tables`."""
    with tr.open(path, create=True, spark=spark, map_size=1 << 30, durable=False) as db:
        wide_tables(db, names)
        yield db


def wide_tables(db: tr.Database, names: str) -> None:
    """Creates an empty table for each letter of `names`. Table `c` has a key of two columns."""
    for name in names:
        key = ("id INT, tag STRING", "id, tag") if name == "c" else ("id INT", "id")
        db.sql(f"CREATE TABLE {name} ({key[0]}, {WIDE}, PRIMARY KEY ({key[1]}))")


def compare_all_along(
    db: tr.Database, views: Sequence[str], rng: random.Random, changed: str, *, spread: bool, epochs: int = 1
) -> None:
    """Build views over random rows; run epochs of random writes, delete all rows, write again. Compare each time.

    `changed` has a letter for each table; a repeated letter makes its table change more often. With `spread`, every
    shard has its own task.
    """
    model = Model(db)
    if spread:
        inside(db).epochs.jobs.small = -1
    _write(rng, model, sorted(set(changed)), 6)
    _create(db, views)
    model.check()
    for _ in range(epochs):
        _write(rng, model, changed, rng.randrange(2, 15))
        db.refresh()
        model.check()
    for name, rows in model.tables.items():
        model.delete(name, [k if len(k) > 1 else k[0] for k in rows])
    db.refresh()
    model.check()
    _write(rng, model, changed, 8)
    db.refresh()
    model.check()
    for frame, reusable, *_ in inside(db).epochs.jobs.frames.values():
        if frame is not None and reusable:
            with redirect_stdout(StringIO()) as plan:
                frame.explain()
            assert "Exchange" not in plan.getvalue(), "Spark would answer a shuffle from the files of an earlier epoch"


def verify_all_along(db: tr.Database, views: Sequence[str], rng: random.Random, changed: str) -> None:
    """Build views over random rows and run epochs of random writes; verify all views after each."""
    model = Model(db)
    _write(rng, model, changed, 6)
    _create(db, views)
    for _ in range(2):
        _write(rng, model, changed, 8)
        db.refresh()
        with patch("tailrace.verify.comparison.session", interpreted):  # compiling the queries would take longest
            for name in db.views():
                report = db.verify(name)
                assert report.ok, report


def _create(db: tr.Database, views: Sequence[str]) -> None:
    for number, sql in enumerate(views):
        db.sql(f"CREATE MATERIALIZED VIEW v{number} AS {sql}")


def _write(rng: random.Random, model: Model, names: Sequence[str], steps: int) -> None:
    for _ in range(steps):
        random_step(rng, model, rng.choice(names), 13)
