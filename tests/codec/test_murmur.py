"""`hash_columns` equals Spark's `hash`, bit for bit."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from strategies import SCALARS, columns, tuples

from tailrace import types
from tailrace.codec.murmur import hash_bucket, hash_buckets, hash_columns, hash_one
from tailrace.errors import Unsupported

ROWS = 2_000


def random_column(kind: pa.DataType, source: random.Random) -> pa.Array:
    """`ROWS` random values over the whole range of a type, with NULLs."""
    wide = [source.getrandbits(128) for _ in range(ROWS)]
    mask = np.array([source.random() < 0.1 for _ in range(ROWS)])
    if pa.types.is_decimal(kind):
        # Every number of digits, so that BigInteger.toByteArray() has every length.
        numbers = [(w >> 1) % 10 ** source.randint(1, kind.precision) * (-1) ** (w & 1) for w in wide]
        text = pa.array([str(n) for n in numbers], mask=mask)
        whole = text.cast(pa.decimal128(38, 0))
        words = pa.Array.from_buffers(kind, ROWS, whole.buffers())
        words.validate(full=True)
        return words
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        data = [w.to_bytes(16, "little")[: source.randint(0, 16)] * source.choice([1, 1, 3]) for w in wide]
        if pa.types.is_string(kind):
            return pa.array([d.decode("latin-1") for d in data], kind, mask=mask)
        return pa.array(data, kind, mask=mask)
    if pa.types.is_boolean(kind):
        return pa.array([bool(w & 1) for w in wide], kind, mask=mask)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        size, span = kind.bit_width // 8, 700_000 if pa.types.is_date(kind) else 10**16
        numbers = np.array([w % (2 * span) - span for w in wide], f"<i{size}")
        return pa.array(numbers, mask=mask).cast(kind)
    size = kind.bit_width // 8
    raw = np.frombuffer(b"".join(w.to_bytes(16, "little")[:size] for w in wide), kind.to_pandas_dtype()).copy()
    if pa.types.is_floating(kind):
        raw[:4] = [0.0, -0.0, np.nan, np.inf]
        raw.view(f"<u{size}")[4:8] = np.array([np.nan, -np.nan, np.inf, -np.inf], raw.dtype).view(f"<u{size}") + 1
        mask[:8] = False
    return pa.array(raw, mask=mask, from_pandas=False)


def spark_hash(spark: SparkSession, data: pa.Table, names: list[str]) -> list[int]:
    frame = spark.createDataFrame(data.append_column("i", pa.array(range(len(data)), pa.int32())))
    hashes = frame.select("i", sf.hash(*names).alias("h")).toArrow().sort_by("i")
    return hashes.column("h").to_pylist()


@pytest.mark.parametrize("kind", SCALARS, ids=str)
def test_hash_of_one_column_equals_spark(spark: SparkSession, kind: pa.DataType) -> None:
    column = random_column(kind, random.Random(str(kind)))
    data = pa.table({"c": column})
    assert data.num_rows == ROWS
    assert hash_columns([column]).tolist() == spark_hash(spark, data, ["c"])


def test_hash_of_several_columns_equals_spark(spark: SparkSession) -> None:
    source = random.Random(1)
    data = pa.table({f"c{i}": random_column(kind, source) for i, kind in enumerate(SCALARS)})
    for _ in range(5):
        names = source.sample(data.column_names, source.randint(2, len(SCALARS)))
        assert hash_columns(data.select(names).columns).tolist() == spark_hash(spark, data, names)


def test_hash_buckets_equal_spark(spark: SparkSession) -> None:
    data = pa.table({"k": random_column(pa.int64(), random.Random(2))})
    frame = spark.createDataFrame(data).select(sf.pmod(sf.hash("k"), sf.lit(7)).alias("p"))
    buckets = hash_buckets(data.columns, 7)
    assert buckets.dtype == np.int32
    assert buckets.tolist() == frame.toArrow().column("p").to_pylist()


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_one_key_hashes_like_a_column(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(SCALARS), max_size=4))
    rows: list[tuple[Any, ...]] = data.draw(tuples(kinds, most=20))
    arrays = columns(kinds, rows)
    assert hash_columns(arrays, len(rows)).tolist() == [hash_one(row, kinds) for row in rows]
    assert hash_buckets(arrays, 13, len(rows)).tolist() == [hash_bucket(row, kinds, 13) for row in rows]


def test_strings_of_very_different_lengths() -> None:
    source = random.Random(3)
    texts = [source.randbytes(source.choice([0, 1, 3, 4, 7, 40, 1000])) for _ in range(200)]
    texts[100] = source.randbytes(300_001)
    column = pa.array(texts, pa.binary())
    expected = [hash_one([text], [pa.binary()]) for text in texts]
    assert hash_columns([column]).tolist() == expected
    assert hash_columns([column.slice(50)]).tolist() == expected[50:]
    assert hash_columns([pa.chunked_array([column[:7], column[7:]])]).tolist() == expected
    assert hash_columns([column.cast(pa.large_binary())]).tolist() == expected


def test_the_empty_key_has_a_bucket() -> None:
    assert hash_buckets([], 5, length=3).tolist() == [42 % 5] * 3
    assert hash_bucket([], [], 5) == 42 % 5
    with pytest.raises(ValueError, match="length"):
        hash_buckets([], 5)
    assert hash_columns([pa.array([], pa.string())]).tolist() == []


def test_nested_keys_are_not_hashed() -> None:
    kind = types.arrow("array<int>")
    with pytest.raises(Unsupported):
        hash_columns([pa.array([[1]], kind)])
    with pytest.raises(Unsupported):
        hash_one([[1]], [kind])
