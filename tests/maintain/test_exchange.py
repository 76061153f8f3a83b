"""What is packed in one task is unpacked in the task of its shard, whatever its columns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tailrace.delta import SHARD, WEIGHT
from tailrace.maintain import exchange
from tailrace.maintain.exchange import PACKED, Pack, Unpack
from tailrace.store.place import place

ROWS = pa.table(
    {
        "_0": pa.array([*range(500), None], pa.int64()),
        "_1": pa.array([*(f"name {i % 7}" if i % 5 else None for i in range(500)), ""]),
        "_2": pa.array([*([i] * (i % 3) for i in range(500)), None], pa.list_(pa.int32())),
        WEIGHT: pa.array([*([1, -1] * 250), 3], pa.int64()),
    }
)
TASK: Any = SimpleNamespace()


@pytest.mark.parametrize("piece", [1, 2000, 1 << 20])
def test_rows_arrive_at_the_task_of_their_shard(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "PIECE", piece)
    packed = Pack(("_0",), shards=8, tasks=4).run([ROWS], TASK)
    assert packed is not None
    schema = ROWS.schema.append(pa.field(SHARD, pa.int32()))
    arrived = 0
    for number in range(4):
        mine = packed.filter(pa.compute.equal(packed.column(SHARD), number))
        rows = Unpack(schema).run([mine], TASK)
        assert rows is not None
        shards = rows.column(SHARD).to_numpy()
        assert (shards % 4 == number).all()
        assert (shards == place([rows.column("_0")], 8)).all()
        wanted = ROWS.filter(pa.array(place([ROWS.column("_0")], 8) % 4 == number))
        assert rows.drop_columns([SHARD]).to_pylist() == wanted.to_pylist()
        arrived += rows.num_rows
    assert arrived == ROWS.num_rows


def test_large_deltas_go_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "PIECE", 2000)
    packed = Pack(("_0",), shards=2, tasks=2).run([ROWS], TASK)
    assert packed is not None
    sizes = [len(cell.as_py()) for cell in packed.column(PACKED)]
    assert len(sizes) > 5
    assert max(sizes) < 6000
    assert packed.column(PACKED).num_chunks == len(sizes)


def test_nothing_is_sent_of_nothing() -> None:
    pack = Pack(("_0",), 2, 2)
    assert pack.run([None], TASK) is None
    assert pack.run([ROWS.slice(0, 0)], TASK) is None
    assert Unpack(ROWS.schema).run([None], TASK) is None
