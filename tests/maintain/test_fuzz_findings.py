"""What the fuzzer found, made small: each is a story that ends in a comparison with recomputation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from oracle import Model

import tailrace as tr
from tailrace.errors import Unsupported

Write = tuple[str, str, list[dict[str, Any]]]


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with tr.open(tmp_path / "s", spark=spark, map_size=1 << 28) as database:
        yield database


def story(
    db: tr.Database, tables: Sequence[str], views: Sequence[str], *epochs: Sequence[Write], spread: bool = False
) -> None:
    """Tables, the first writes, views over them, and further epochs; everything is checked after each."""
    for ddl in tables:
        db.sql(ddl)
    db._epochs.small = -1 if spread else 50_000
    model = Model(db)
    for number, writes in enumerate(epochs):
        for kind, name, rows in writes:
            key = db.table(name).key
            if kind == "put":
                model.put(name, rows)
            elif kind == "update":
                model.update(name, rows[0])
            else:
                model.delete(name, [tuple(r[k] for k in key) if len(key) > 1 else r[key[0]] for r in rows])
        if number == 0:
            for view, sql in enumerate(views):
                db.sql(f"CREATE MATERIALIZED VIEW v{view} AS {sql}")
        db.refresh()
        model.check()


def test_a_struct_of_one_column_twice_inside_an_aggregate(db: tr.Database) -> None:
    story(
        db,
        ["CREATE TABLE a (id INT PRIMARY KEY, g INT, n INT)"],
        ["SELECT g, max_by(id, struct(n, n)) AS m FROM a GROUP BY g"],
        [],
        [("put", "a", [{"id": 1, "g": 1, "n": 2}, {"id": 2, "g": 1, "n": 3}])],
    )


def test_a_struct_of_one_column_twice_is_refused_as_a_column(db: tr.Database) -> None:
    db.sql("CREATE TABLE a (id INT PRIMARY KEY, n INT)")
    for struct in ("struct(n, n)", "named_struct('x', n, 'x', id)"):
        with pytest.raises(Unsupported):
            db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT id, {struct} AS s FROM a")
