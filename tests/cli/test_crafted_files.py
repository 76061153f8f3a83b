"""`load` answers a damaged or malicious file with a BadFile that names it, and loads nothing."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crafted import crafted, damaged, survives
from hypothesis import given, settings
from hypothesis import strategies as st

import tailrace as tr
from tailrace.database.table import Table
from tailrace.errors import BadFile, BadValue
from tailrace.loading import load

COLUMNS = (
    "id BIGINT PRIMARY KEY, name STRING, price DECIMAL(12,2), day DATE, at TIMESTAMP, raw BINARY, x DOUBLE, b BOOLEAN"
)
ROWS = [
    {
        "id": i,
        "name": f"name {i}",
        "price": Decimal(i) / 4,
        "day": date(2026, 1, 1 + i),
        "at": None,
        "raw": bytes([i, 255]),
        "x": i / 3,
        "b": i % 2 == 0,
    }
    for i in range(20)
]


def parquet(compression: str, version: str = "2.6") -> bytes:
    out = io.BytesIO()
    schema = pa.schema(
        {
            "id": pa.int64(),
            "name": pa.string(),
            "price": pa.decimal128(12, 2),
            "day": pa.date32(),
            "at": pa.timestamp("us", "UTC"),
            "raw": pa.binary(),
            "x": pa.float64(),
            "b": pa.bool_(),
        }
    )
    pq.write_table(pa.Table.from_pylist(ROWS, schema), out, compression=compression, version=version)
    return out.getvalue()


CSV = b'id,name,price,day,at,raw,x,b\n1,"a ""b"", c",1.50,2026-01-31,2026-01-31 10:00:00,00ff,1e300,true\n2,,,,,,,\n'
LINES = b"".join(
    [
        b'{"id": 1, "name": "caf\\u00e9", "price": "1.50", "day": "2026-01-31", "raw": "0x00", "x": 1e3, "b": true}\n',
        b'{"id": 2, "name": null, "x": "NaN"}\n',
        b'{"id": 3, "price": 2.25}\n',
    ]
)
VALID = {
    "csv": [CSV],
    "csv.gz": [gzip.compress(CSV)],
    "tsv": [CSV.replace(b",", b"\t")],
    "jsonl": [LINES],
    "json.gz": [gzip.compress(LINES)],
    "parquet": [parquet("none"), parquet("snappy"), parquet("zstd", "1.0")],
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    with tr.open(tmp_path_factory.mktemp("crafted") / "store", create=True, map_size=1 << 28, durable=False) as db:
        db.sql(f"CREATE TABLE t ({COLUMNS})")
        yield db.table("t")


@pytest.mark.parametrize("ending", VALID)
@settings(crafted, max_examples=300)
@given(data=st.data())
def test_a_damaged_file(
    table: Table, tmp_path_factory: pytest.TempPathFactory, ending: str, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / f"damaged.{ending}"
    path.write_bytes(data.draw(damaged(VALID[ending])))
    outcome = survives(lambda: load(table, [path]))
    assert isinstance(outcome, int | BadFile), outcome
    if isinstance(outcome, BadFile):
        assert outcome.path == str(path)


@pytest.mark.parametrize("ending", VALID)
def test_an_undamaged_file_is_loaded(table: Table, tmp_path: Path, ending: str) -> None:
    for content in VALID[ending]:
        path = tmp_path / f"whole.{ending}"
        path.write_bytes(content)
        assert load(table, [path]) > 0


MALICIOUS = {
    "deep.jsonl": b'{"id": 1, "name": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "deeper.jsonl": b'{"id": 1, "unknown": ' + b'{"a":' * 200_000 + b"1" + b"}" * 200_000 + b"}",
    "digits.jsonl": b'{"id": ' + b"9" * 100_000 + b"}",
    "tiny.jsonl": b'{"id": 1, "price": "1e-999999999"}',
    "tinier.jsonl": b'{"id": 1, "price": 1E-999999999 }',
    "disguised.jsonl": b'{"id": 1, "price": "1\\u0065-999999999"}',
    "huge.jsonl": b'{"id": 1, "price": 1e999999999}',
    "half.jsonl": b'{"id": 1, "name": "\\ud800"}',
    "tiny.csv": b"id,price\n1,1e-999999999\n",
    "zeros.csv": b"id,price\n1,0." + b"0" * 5_000_000 + b"1\n",
    "wide.csv": b",".join(b"c%d" % i for i in range(100_000)) + b"\n",
    "line.csv.gz": gzip.compress(b"id,name\n1," + b"a" * (1 << 25)),
    "header.csv.gz": gzip.compress(b"a" * (1 << 25)),
    "quote.csv.gz": gzip.compress(b'id,name\n1,"' + b"a\n" * (1 << 23) + b'"\n'),
}


@pytest.mark.parametrize("name", MALICIOUS)
def test_a_malicious_file(table: Table, tmp_path: Path, name: str) -> None:
    """Deep nesting, exponents that crash Arrow and lines that fill the memory give a short error."""
    (tmp_path / name).write_bytes(MALICIOUS[name])
    with pytest.raises(BadFile) as caught:
        load(table, [tmp_path / name])
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_texts_for_decimals_in_arrow_tables(table: Table, kind: pa.DataType) -> None:
    with pytest.raises(BadValue):
        table.put_many(pa.table({"id": [1], "price": pa.array(["1e-999999999"]).cast(kind)}))
    assert table.put_many(pa.table({"id": [1, 2], "price": pa.array(["1.5", "2e-1"]).cast(kind)})).operations == 2
    assert table.get(2)["price"] == Decimal("0.20")


def test_numbers_with_small_exponents_are_read(table: Table, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "price": 25e-2, "name": "3e-41"}\n{"id": 2, "price": "1.5e-01"}\n')
    (tmp_path / "a.csv").write_text("id,price\n3,25e-2\n4,1.5\n")
    assert load(table, [tmp_path / "a.jsonl", tmp_path / "a.csv"]) == 4
    prices = [table.get(i)["price"] for i in (1, 2, 3, 4)]
    assert prices == [Decimal("0.25"), Decimal("0.15"), Decimal("0.25"), Decimal("1.50")]
