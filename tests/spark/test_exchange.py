"""Rows packed in one task are unpacked in the task of their shard, for columns of all types."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tailrace.codec.murmur import hash_buckets
from tailrace.delta import SHARD, WEIGHT
from tailrace.task import exchange
from tailrace.task.exchange import PACKED, Pack, Unpack

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
    packed = Pack(ROWS.schema, ("_0",), shards=8, tasks=4).run([ROWS], TASK)
    assert packed is not None
    schema = ROWS.schema.append(pa.field(SHARD, pa.int32()))
    arrived = 0
    for number in range(4):
        task_packed = packed.filter(pc.equal(packed.column(SHARD), number))
        rows = Unpack(schema).run([task_packed], TASK)
        assert rows is not None
        shards = rows.column(SHARD).to_numpy()
        assert (shards % 4 == number).all()
        assert (shards == hash_buckets([rows.column("_0")], 8)).all()
        expected = ROWS.filter(pa.array(hash_buckets([ROWS.column("_0")], 8) % 4 == number))
        assert rows.drop_columns([SHARD]).to_pylist() == expected.to_pylist()
        arrived += rows.num_rows
    assert arrived == ROWS.num_rows


def test_large_deltas_are_sent_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "PIECE", 2000)
    packed = Pack(ROWS.schema, ("_0",), shards=2, tasks=2).run([ROWS], TASK)
    assert packed is not None
    sizes = [len(cell.as_py()) for cell in packed.column(PACKED)]
    assert len(sizes) > 5
    assert max(sizes) < 6000
    assert packed.column(PACKED).num_chunks == len(sizes)


def test_adjacent_wide_rows_are_sent_in_pieces_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "PIECE", 2000)
    rows = pa.table({"_0": ["x"] * 4000 + ["x" * 1000] * 10, WEIGHT: [1] * 4010})
    packed = Pack(rows.schema, (WEIGHT,), shards=1, tasks=1).run([rows], TASK)
    assert packed is not None
    assert max(len(cell.as_py()) for cell in packed.column(PACKED)) < 4000
    arrived = Unpack(rows.schema.append(pa.field(SHARD, pa.int32()))).run([packed], TASK)
    assert arrived is not None
    assert arrived.drop_columns([SHARD]) == rows


def test_columns_are_cast_to_the_schema_of_the_receiver() -> None:
    rows = pa.table({WEIGHT: pa.array([1, -1], pa.int8()), "_0": pa.array([5, 6], pa.int32())})
    schema = pa.schema([("_0", pa.int64()), (WEIGHT, pa.int64())])
    arrived = Unpack(schema.append(pa.field(SHARD, pa.int32()))).run(
        [Pack(schema, ("_0",), 1, 1).run([rows], TASK)], TASK
    )
    assert arrived is not None
    assert arrived.select(schema.names).to_pylist() == [{"_0": 5, WEIGHT: 1}, {"_0": 6, WEIGHT: -1}]


def test_empty_deltas_are_not_sent() -> None:
    pack = Pack(ROWS.schema, ("_0",), 2, 2)
    assert pack.run([None], TASK) is None
    assert pack.run([ROWS.slice(0, 0)], TASK) is None
    assert Unpack(ROWS.schema).run([None], TASK) is None
