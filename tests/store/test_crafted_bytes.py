"""Damaged log entries, notes, undo records, marks and weights raise a TailraceError, never another exception."""

from __future__ import annotations

import io
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from crafted import crafted, damaged, survives
from hypothesis import given
from hypothesis import strategies as st

from tailrace.codec import batches, weighted
from tailrace.codec.rows import RowCodec
from tailrace.codec.schema import TableDef
from tailrace.errors import Corrupt, DataError, SnapshotGone, TailraceError
from tailrace.store import log_entries
from tailrace.store.base import Change, Cut, Write
from tailrace.store.lmdb.settings import Settings, create
from tailrace.store.lmdb.store import LmdbStore
from tailrace.types import Column

TABLE = TableDef(
    7,
    "goods",
    (
        Column("id", "bigint"),
        Column("name", "string"),
        Column("price", "decimal(12,2)"),
        Column("raw", "binary"),
        Column("day", "date"),
        Column("at", "timestamp"),
        Column("on", "boolean"),
    ),
    ("id", "name"),
)
ROWS = [
    {"id": i, "name": f"name {i}" * (i % 3), "price": Decimal(i), "raw": b"\0\1" * i, "on": i % 2 == 0 or None}
    for i in range(40)
]
BATCH = pa.RecordBatch.from_pylist(ROWS, TABLE.schema)
IMAGES = log_entries.build_delta(TABLE, BATCH.slice(0, 10), BATCH)
ENTRIES = [
    log_entries.encode(TABLE, 40, 3, IMAGES),
    log_entries.encode(TABLE, 1, 1, IMAGES.slice(0, 1)),
    log_entries.encode(TABLE, 1, 1, IMAGES.slice(0, 0)),
]


@crafted
@given(damaged(ENTRIES))
def test_a_damaged_log_entry_is_corrupt(value: bytes) -> None:
    def read() -> None:
        log_entries.decode_rows(log_entries.decode(1, 5, value), TABLE)

    assert value in ENTRIES or isinstance(survives(read), Corrupt)


@crafted
@given(damaged([e[4:] for e in ENTRIES]))
def test_a_damaged_log_entry_with_a_right_checksum_is_checked_too(body: bytes) -> None:
    value = struct.pack("<I", zlib.crc32(body)) + body

    def read() -> pa.RecordBatch:
        return log_entries.decode_rows(log_entries.decode(1, 5, value), TABLE)

    batch = survives(read)
    if isinstance(batch, pa.RecordBatch):
        batch.validate(full=True)
        survives(lambda: log_entries.rows_before([batch], TABLE))


@crafted
@given(damaged([log_entries.encode_note(1.5, 7, (3, 4)), log_entries.encode_note(1.5, 7, ())]))
def test_a_damaged_note(value: bytes) -> None:
    survives(lambda: log_entries.decode_note(value))
    survives(lambda: log_entries.decode_log_key(value))


@crafted
@given(st.lists(damaged([struct.pack("<q", 3) + b"row", struct.pack("<q", 1)]), max_size=5))
def test_damaged_weights(entries: list[bytes]) -> None:
    parts = survives(lambda: weighted.split(entries))
    if not isinstance(parts, TailraceError):
        assert (parts[0] > 0).all()
    for entry in entries:
        survives(lambda entry=entry: weighted.weight_of(entry))
    olds = pa.array([None, *entries], pa.large_binary()).slice(1)
    rows, changes = pa.array([b"row"] * len(entries), pa.large_binary()), np.full(len(entries), -1)
    changed = survives(lambda: weighted.add_weights(1, olds, rows, changes))
    assert isinstance(changed, TailraceError) == isinstance(parts, TailraceError)


@crafted
@given(damaged(TABLE.rows.encode(BATCH).to_pylist()))
def test_a_damaged_row(row: bytes) -> None:
    whole, one = survives(lambda: TABLE.rows.decode([row])), survives(lambda: TABLE.rows.decode_one(row))
    assert isinstance(whole, Corrupt) == isinstance(one, Corrupt)
    named = survives(lambda: TABLE.decode([row]))
    if isinstance(whole, Corrupt):
        assert named.where == "a row of table 'goods'"


def test_dates_outside_the_range_of_python() -> None:
    schema = pa.schema({"day": pa.date32(), "at": pa.timestamp("us")})
    codec = RowCodec(schema)
    for row in ({"day": 4_000_000}, {"day": -(2**31)}, {"at": 2**62}):
        arrays = [pa.array([row.get(f.name)], pa.int32() if f.name == "day" else pa.int64()) for f in schema]
        batch = pa.RecordBatch.from_arrays([a.cast(f.type) for a, f in zip(arrays, schema, strict=True)], schema=schema)
        with pytest.raises(DataError, match="read it by SQL"):
            codec.decode_one(codec.encode(batch)[0].as_py())


# Damage in a store on disk


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LmdbStore]:
    path: Path = tmp_path_factory.mktemp("crafted") / "store"
    create(path, Settings(nodes=1, shards=1, map_size=1 << 28, durable=False))
    opened = LmdbStore(path)
    opened.write([Change(TABLE, "put", BATCH)])
    shard = opened.shard(0)
    for epoch, step in ((1, 1), (2, 20), (3, 30)):
        keys = [b"%05d" % i for i in range(0, 4200, step)]
        shard.apply(epoch, [Write.of(5, keys, [b"new"] * len(keys), [b"old"] * len(keys))], 0)
    yield opened
    opened.close()


@contextmanager
def replaced(environment: Any, database: str, key: bytes, value: bytes | None) -> Iterator[None]:
    """Replaces a value on disk (None: deletes it) for the duration of the block."""
    db = environment.databases[database]

    def put(given: bytes | None) -> bytes | None:
        with environment.write() as txn:
            old = txn.get(key, db=db)
            if given is None:
                txn.delete(key, db=db)
            else:
                txn.put(key, given, db=db)
            return old

    old = put(value)
    try:
        yield
    finally:
        put(old)


def read_everything(store: LmdbStore) -> None:
    keys = [b"%05d" % i for i in range(0, 4300, 300)]
    for epoch in (0, 1, 2, 3):
        with store.shard(0).at(epoch) as snapshot:
            snapshot.applied(5)
            snapshot.get_many(5, keys[:3])
            snapshot.get_many(5, keys * 4)
            for _ in snapshot.scan(5, b"04000"):
                pass
            for _ in snapshot.scan_back(5, b"00100", b"00200"):
                pass


UNDO_CHUNK_KEY = struct.Struct(">IQI")
UNDO_KEY = struct.Struct(">IQ")


def undo_value(store: LmdbStore, key: bytes) -> bytes:
    environment = store.shard(0).environment
    with environment.read() as txn:
        value: bytes = txn.get(key, db=environment.databases["undo"])
        return value


@crafted
@given(st.data())
def test_a_damaged_undo_record(store: LmdbStore, data: st.DataObject) -> None:
    key = UNDO_CHUNK_KEY.pack(5, *data.draw(st.sampled_from([(1, 0), (1, 1), (2, 0), (3, 0)])))
    value = data.draw(damaged([undo_value(store, key)]))
    with replaced(store.shard(0).environment, "undo", key, value or b"x"):
        error = survives(lambda: read_everything(store))
        assert error is None or (isinstance(error, Corrupt) and "state 5" in error.where)


@crafted
@given(damaged([struct.pack("<I", 3)]), st.integers(1, 3))
def test_a_damaged_number_of_chunks(store: LmdbStore, value: bytes, epoch: int) -> None:
    with replaced(store.shard(0).environment, "undo", UNDO_KEY.pack(5, epoch), value or b"x"):
        survives(lambda: read_everything(store))


def test_a_missing_chunk_is_named(store: LmdbStore) -> None:
    with replaced(store.shard(0).environment, "undo", UNDO_CHUNK_KEY.pack(5, 2, 0), None):
        error = survives(lambda: read_everything(store))
    assert isinstance(error, Corrupt)
    assert error.where == "undo record of epoch 2 of state 5"
    assert "chunk 0" in error.reason


@crafted
@given(damaged([struct.pack("<QQ", 3, 0)]))
def test_a_damaged_mark(store: LmdbStore, value: bytes) -> None:
    began = time.monotonic()
    with replaced(store.shard(0).environment, "marks", struct.pack(">I", 5), value or b"x"):
        error = survives(lambda: read_everything(store))
    assert error is None or isinstance(error, Corrupt | SnapshotGone)
    assert time.monotonic() - began < 5  # no loop up to the epoch of a mark far in the future


def test_an_undo_record_under_a_key_without_an_epoch(store: LmdbStore) -> None:
    with replaced(store.shard(0).environment, "undo", struct.pack(">I", 5) + b"\xff", b"x"):
        survives(lambda: read_everything(store))


@crafted
@given(st.data())
def test_a_damaged_log_or_note_on_disk(store: LmdbStore, data: st.DataObject) -> None:
    database, key = data.draw(
        st.sampled_from([("log", log_entries.log_key(0, 0)), ("transactions", struct.pack(">Q", 1))])
    )
    with store.environment.read() as txn:
        valid = txn.get(key, db=store.environment.databases[database])
    start, end = Cut(0, (0,)), Cut(1, (40,))

    def read() -> None:
        list(store.deltas(TABLE, 0, Cut(0, (0,)), Cut(1, (40,)), range(7)))
        list(store.rows(TABLE, 0, start, range(7)))

    def look() -> None:
        store.touched(start, end)
        store.newest_cut()
        store.cut_after(start, 5)
        store.written_after(Cut(0, (0,) * store.nodes))

    with replaced(store.environment, database, key, data.draw(damaged([valid])) or b"x"):
        survives(read)
        survives(look)
        survives(lambda: store.write([Change(TABLE, "delete", BATCH.slice(0, 0).select(["id", "name"]))]))
    read()


def test_log_and_transaction_keys_that_are_too_short(store: LmdbStore) -> None:
    for database, key in (("log", b"\0\0\0"), ("transactions", b"\xff\xff")):
        with replaced(store.environment, database, key, b"x" * 24):
            survives(lambda: list(store.deltas(TABLE, 0, Cut(0, (0,)), Cut(1, (40,)), range(7))))
            survives(lambda: store.newest_cut())


@crafted
@given(st.data())
def test_a_damaged_row_on_disk(store: LmdbStore, data: st.DataObject) -> None:
    with store.environment.read() as txn, txn.cursor(store.environment.databases["rows"]) as cursor:
        entries = list(cursor)
    key, value = data.draw(st.sampled_from(entries))
    with replaced(store.environment, "rows", key, data.draw(damaged([value])) or b"x"):
        survives(lambda: list(store.rows(TABLE, 0, None, range(7))))
        survives(lambda: store.write([Change(TABLE, "put", BATCH.slice(0, 0))]))


def test_a_compressed_batch_that_claims_to_be_enormous() -> None:
    batch = pa.record_batch([pa.array([b"a" * 10_000], pa.large_binary())] * 2, names=["key", "old"])
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    messages = pa.ipc.MessageReader.open_stream(stream.getvalue())
    messages.read_next_message()
    value = messages.read_next_message().serialize().to_pybytes()
    for claimed in (1 << 40, 1 << 62, -5):
        made = value.replace(struct.pack("<q", 10_000), struct.pack("<q", claimed))
        assert made != value
        with pytest.raises(Corrupt, match="a batch is damaged"):
            batches.read(made, batch.schema, "a batch")
