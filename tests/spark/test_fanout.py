"""Many selections of one table are maintained together and give the same rows as if maintained alone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import Model, random_step, wide_store

from tailrace.codec.sorting import order
from tailrace.database.inside import inside
from tailrace.errors import Corrupt
from tailrace.rules.sink import Sorted, keyed_write, net_keyed
from tailrace.spark.compile import Compiler
from tailrace.store.base import Write

SELECTIONS = (
    *(f"SELECT id, g, n FROM a WHERE {c}" for c in ("g >= 1", "g < 2", "n > 0 AND g IS NOT NULL", "g + n > 1")),
    # conditions on columns that are not selected
    *(
        f"SELECT id, g, n FROM a WHERE {c}"
        for c in ("h = 'a'", "h < 'b'", "h > 'a' AND g > 0", "length(h) = 1", "h IS NULL")
    ),
)
OTHERS = (
    "SELECT id, h FROM a WHERE g >= 1",
    "SELECT g, n FROM a WHERE g >= 1",  # without a key
    "SELECT id, n + 1 AS n FROM a WHERE g >= 1",
    "SELECT h, COUNT(*) AS n FROM a WHERE g >= 1 GROUP BY h",
)


@pytest.mark.parametrize("small", [100_000, -1], ids=["one-task", "all-shards"])
def test_selections_with_equal_columns_are_maintained_together(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    group_sizes: list[int] = []
    original = Compiler._fan_out

    def spied(self: Compiler, selections: Any) -> Any:
        group_sizes.append(len(selections))
        return original(self, selections)

    monkeypatch.setattr(Compiler, "_fan_out", spied)
    rng = random.Random(7)
    with wide_store(tmp_path / "s", spark, "ab") as db:
        model = Model(db)
        for number, sql in enumerate(SELECTIONS + OTHERS):
            db.sql(f"CREATE MATERIALIZED VIEW v{number} AS {sql}")
        inside(db).epochs.jobs.small = small
        for _ in range(4):
            for _ in range(6):
                random_step(rng, model, "a", 13)
            db.refresh()
            model.check()
        model.update("a", {"id": next(iter(model.tables["a"]))[0], "t": None})  # changes no selected column
        db.refresh()
        model.check()
        group_sizes.clear()
        model.put("b", [{"id": 1}])
        db.refresh()
        assert group_sizes == []  # the table of the selections did not change
        inside(db).epochs.jobs.frames.clear()
        random_step(rng, model, "a", 13)
        db.refresh()
        model.check()
        assert group_sizes == [4, 5]
        assert all(report.ok for report in map(db.verify, db.views()))


ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.sampled_from([-1, 1]), st.booleans()), max_size=12)


def _try_write(make: Any) -> tuple[Any, ...] | str:
    try:
        write: Write = make()
    except Corrupt as error:
        return error.args[0] if error.args else str(error)
    assert write.olds is not None
    return write.keys.to_pylist(), write.values.to_pylist(), write.olds.to_pylist()


@given(ROWS)
def test_a_view_writes_the_same_rows_as_alone(rows: list[tuple[int, int, int, bool]]) -> None:
    keys = pa.array([b"%d" % key for key, _, _, _ in rows], pa.large_binary())
    encoded = pa.array([b"%d/%d" % (key, value) for key, value, _, _ in rows], pa.large_binary())
    weights = np.array([weight for _, _, weight, _ in rows], dtype=np.int64)
    mask = np.array([picked for _, _, _, picked in rows], dtype=bool)
    at, fresh = order(keys)
    sorted_ = Sorted(at, keys.take(pa.array(at)), encoded.take(pa.array(at)), weights[at], np.cumsum(fresh))
    picked_at = pa.array(np.flatnonzero(mask))
    alone = keys.take(picked_at), encoded.take(picked_at)
    expected = _try_write(lambda: keyed_write(7, *alone, net_keyed(*alone, weights[mask])))
    assert _try_write(lambda: sorted_.write(7, mask[at])) == expected
