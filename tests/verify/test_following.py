"""Checking many states: the tables and the view are followed from cut to cut, and only changed rows are looked at."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError

import tailrace as tr
from tailrace.codec.schema import TableDef
from tailrace.errors import BadHistory, BadRecording
from tailrace.types import Column
from tailrace.verify.history.evaluate import Evaluator
from tailrace.verify.history.following import BaseCursor
from tailrace.verify.history.history_file import Header, Line, RecordedView, Writer
from tailrace.verify.history.query_follower import QueryFollower
from tailrace.verify.history.row_shapes import Shape
from tailrace.verify.history.timelines import BaseHistory, Change
from tailrace.verify.history.versions import VersionedTables

TABLE = TableDef(1, "t", (Column("id", "int"), Column("v", "decimal(6,2)"), Column("x", "double")), ("id",))
OTHER = TableDef(2, "u", (Column("id", "int"),), ("id",))


def random_history(seed: int) -> BaseHistory:
    rng = random.Random(seed)

    def row(key: int) -> dict[str, Any] | None:
        x = rng.choice([None, 0.0, -0.0, 0.1, float("nan")])
        return None if rng.random() < 0.3 else {"id": key, "v": Decimal(f"{rng.randrange(4)}.00"), "x": x}

    initial = {("t", key): row(key) for key in range(5)}
    changes = []
    for number in range(1, 40):
        keys = rng.sample(range(8), rng.randrange(1, 4))
        changes += [Change(number, ("t", key), row(key)) for key in keys]
        changes += [Change(number, ("u", 1), rng.choice([None, {"id": 1}]))] if rng.random() < 0.2 else []
    return BaseHistory(initial, changes)


def rows_of(base: BaseHistory, cut: float, table: str) -> list[dict[str, Any]]:
    return [row for record, row in BaseCursor(base).move_to(cut).items() if record[0] == table]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("names", "key"), [(("id", "v", "x"), (0,)), (("v", "x"), None), (("v",), None)])
def test_a_followed_view_is_the_view_at_every_cut(
    seed: int, names: tuple[str, ...], key: tuple[int, ...] | None
) -> None:
    base = random_history(seed)
    shape = Shape(tuple(c for c in TABLE.columns if c.name in names), key)
    versions = VersionedTables(base, {"t": TABLE, "u": OTHER})

    def compute(tables: Mapping[str, pa.Table], time: int) -> pa.Table:
        shown = tables["t"].select(list(names))
        order = random.Random(seed).sample(range(shown.num_rows), shown.num_rows)  # as Spark gives them in any order
        return shown.take(order) if order else shown

    follower = QueryFollower(compute, shape, versions, ["t"], lambda text: BadHistory(name="v", reason=text))
    before: dict[Any, Any] = {}
    for cut in [*range(0, 41, 2), 7, 5, 5, float("inf")]:
        changed = set(follower.move_to(cut))
        expected = shape.build_state([row[n] for n in names] for row in rows_of(base, cut, "t"))
        assert repr(sorted(follower.rows.items())) == repr(sorted(expected.items()))
        moved = {k for k in {**before, **expected} if repr(before.get(k)) != repr(expected.get(k))}
        assert moved <= changed
        before = dict(follower.rows)


def test_a_view_is_computed_only_if_its_tables_changed() -> None:
    base = BaseHistory({}, [Change(1, ("u", 1), {"id": 1}), Change(2, ("t", 1), {"id": 1, "v": None, "x": None})])
    shape = Shape(TABLE.columns, (0,))
    versions = VersionedTables(base, {"t": TABLE, "u": OTHER})
    follower = QueryFollower(
        lambda tables, time: tables["t"], shape, versions, ["t"], lambda text: BadHistory(name="", reason=text)
    )
    assert [len(list(follower.move_to(cut))) for cut in (0, 1, 2, 2, 3)] == [0, 0, 1, 0, 0]
    assert follower.computed == 2


def test_two_rows_with_one_key_are_refused() -> None:
    base = BaseHistory({("t", key): {"id": key, "v": Decimal(1), "x": None} for key in (1, 2)}, [])
    versions = VersionedTables(base, {"t": TABLE})
    shape = Shape(TABLE.columns[1:2], (0,))
    follower = QueryFollower(
        lambda tables, time: tables["t"].select(["v"]),
        shape,
        versions,
        ["t"],
        lambda text: BadHistory(name="v", reason=text),
    )
    with pytest.raises(BadHistory, match=r"1\.00"):
        follower.move_to(0)


EPOCHS, INITIAL, CHANGED = 12, 400, 3
VIEWS = (
    RecordedView("copy", "SELECT id, v FROM t", ("id",)),
    RecordedView("bag", "SELECT v % 7 AS m FROM t", None),
    RecordedView("total", "SELECT COUNT(*) AS n, SUM(v) AS s FROM t", ()),
)


def record(path: Path) -> int:
    """Writes a recording of many rows that change little by little. Returns its number of lines."""
    table = TableDef(1, "t", (Column("id", "int"), Column("v", "int")), ("id",))
    now, lines = {key: key for key in range(INITIAL)}, []
    lines += [Line("base", "t", None, None, f"[{key}]", json.dumps({"id": key, "v": key})) for key in now]
    bags: dict[int, int] = {}
    for number in range(EPOCHS):
        keys = range(0) if not number else range(number * CHANGED, (number + 1) * CHANGED)
        for key in keys:
            now[key] += 1000
            lines.append(Line("base", "t", None, number, f"[{key}]", json.dumps({"id": key, "v": now[key]})))
        lines.append(Line("epoch", None, number, number))
        shown = keys if number else now
        lines += [Line("view", "copy", number, None, f"[{k}]", json.dumps({"id": k, "v": now[k]})) for k in shown]
        counts = {m: sum(v % 7 == m for v in now.values()) for m in range(7)}
        bag_rows = [(m, n) for m, n in counts.items() if bags.get(m) != n]
        lines += [Line("view", "bag", number, None, f"[{m}]", json.dumps({"m": m, "_weight": n})) for m, n in bag_rows]
        bags = counts
        total = json.dumps({"n": len(now), "s": sum(now.values())})
        lines.append(Line("view", "total", number, None, "[]", total))
    with Writer(path, Header((table,), VIEWS)) as writer:
        writer.write(lines)
        writer.whole = True
    return len(lines)


def test_a_check_looks_at_changed_rows_only(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, converted, steps = record(tmp_path / "h"), [0], list[str]()
    original = Shape.to_plain

    def to_plain(shape: Shape, row: Any) -> list[Any]:
        converted[0] += 1
        return original(shape, row)

    monkeypatch.setattr(Shape, "to_plain", to_plain)
    checked = tr.check(tmp_path / "h", spark=spark, progress=lambda step: steps.append(str(step)))
    assert checked.ok, str(checked.verdict)
    assert [v.looked_at for v in checked.verdict.views.values()] == [EPOCHS] * len(VIEWS)
    # A line of a view is converted when it is read; a changed row of a result, before and after the change.
    assert converted[0] <= 3 * lines
    assert converted[0] < EPOCHS * INITIAL
    assert steps[0] == f"checking copy: state 1 of {EPOCHS}"
    assert len(steps) == EPOCHS * len(VIEWS)


def test_an_error_of_spark_is_one_sentence(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path / "h")
    text = "An error occurred while calling o1.x\n: java.lang.OutOfMemoryError: Java heap space\n\tat org.apache.spark"

    def fail(*given: Any) -> Any:
        raise Py4JError(text)

    monkeypatch.setattr(Evaluator, "_frame_of", fail)
    with pytest.raises(BadRecording, match=r"Java heap space.*--memory") as caught:
        tr.check(tmp_path / "h", spark=spark)
    assert "\n" not in str(caught.value)
