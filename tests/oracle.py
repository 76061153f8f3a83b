"""The oracle: a model of the tables in plain Python, Spark's own answer to each view's SQL, and random writes."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tailrace_fuzz.model import Model, Row, multiset, plain

__all__ = ["WIDE", "Model", "Row", "either", "multiset", "plain", "random_row", "random_step"]


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
