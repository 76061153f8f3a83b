"""Loading files: every format and type is read, and a broken file changes nothing and gives a precise error."""

from __future__ import annotations

import datetime
import gzip
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tailrace as tr
from tailrace import loading
from tailrace.codec.text import to_json
from tailrace.errors import BadFile
from tailrace.loading import Options, Step, load

File = Callable[[str, str | bytes], Path]
DDL = """CREATE TABLE t (id BIGINT PRIMARY KEY, s STRING, d DECIMAL(9,2), f DOUBLE, b BOOLEAN, day DATE,
         at TIMESTAMP, ntz TIMESTAMP_NTZ, raw BINARY, small TINYINT)"""
ROW = {
    "id": 1,
    "s": "x",
    "d": Decimal("1.50"),
    "f": 0.25,
    "b": True,
    "day": datetime.date(2026, 1, 31),
    "at": datetime.datetime(2026, 1, 31, 12, 0, tzinfo=datetime.UTC),
    "ntz": datetime.datetime(2026, 1, 31, 12, 0, 0, 500000),
    "raw": b"\x00\xff",
    "small": -128,
}
NULLS = dict.fromkeys(ROW)


@pytest.fixture
def table(tmp_path: Path) -> Iterator[tr.Table]:
    with tr.open(tmp_path / "store", create=True) as db:
        db.sql(DDL)
        yield db.table("t")


def rows(table: tr.Table) -> list[dict[str, object]]:
    return sorted(table.scan().to_pylist(), key=lambda row: row["id"])


CSV = (
    "id,s,d,f,b,day,at,ntz,raw,small\n"
    "1,x,1.5,0.25,true,2026-01-31,2026-01-31 12:00:00,2026-01-31T12:00:00.5,0x00ff,-128\n"
)
JSON = (
    '{"id": 1, "s": "x", "d": "1.50", "f": 0.25, "b": true, "day": "2026-01-31",'
    ' "at": "2026-01-31T13:00:00+01:00", "ntz": "2026-01-31 12:00:00.5", "raw": "00FF", "small": -128}\n'
)


@pytest.mark.parametrize(("name", "content"), [("a.csv", CSV), ("a.jsonl", JSON), ("a.ndjson", JSON), ("a.json", JSON)])
def test_every_type_is_read(table: tr.Table, file: File, name: str, content: str) -> None:
    assert load(table, [file(name, content)]) == 1
    assert rows(table) == [ROW]


def test_every_type_of_parquet(table: tr.Table, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist([ROW, {**NULLS, "id": 2}], schema=table.schema), path)
    assert load(table, [path]) == 2
    assert rows(table) == [ROW, {**NULLS, "id": 2}]


def test_null_and_the_empty_string(table: tr.Table, file: File) -> None:
    load(table, [file("a.csv", 'id,s,d\n1,,\n2,"",""\n3,NULL, \n')])
    assert [(row["s"], row["d"]) for row in rows(table)] == [(None, None), ("", None), ("NULL", None)]
    load(table, [file("b.csv", 'id,s,d\n1,NULL,NULL\n2,"NULL",\n3,,1\n')], Options(null="NULL"))
    assert [(row["s"], row["d"]) for row in rows(table)] == [(None, None), ("NULL", None), ("", Decimal(1))]


def test_shapes_of_csv(table: tr.Table, file: File, tmp_path: Path) -> None:
    load(table, [file("a.csv", '\ufeff S ,ID\r\n"two\nlines, one ""field""",1\r\n\r\n')])
    load(table, [file("b.tsv", "id\ts\n2\ta,b\n")])
    load(table, [file("c.txt", "3|c|1|||||||4\n")], Options(format="csv", delimiter="|", header=False))
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(b"id,s\n4,zipped\n"))
    load(table, [tmp_path / "d.csv.gz"])
    assert load(table, [file("e.csv", "id,s")]) == 0
    assert [row["s"] for row in rows(table)] == ['two\nlines, one "field"', "a,b", "c", "zipped"]
    assert rows(table)[2]["small"] == 4


def test_shapes_of_json_lines(table: tr.Table, file: File) -> None:
    load(table, [file("a.jsonl", '\n{"ID": 1, "s": "é"}\n\n{"id": 2, "d": 1234567.89, "f": "NaN"}')])
    assert rows(table)[0] == {**NULLS, "id": 1, "s": "é"}
    assert rows(table)[1]["d"] == Decimal("1234567.89")
    assert str(rows(table)[1]["f"]) == "nan"


def test_large_files_are_read_in_pieces(table: tr.Table, file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "MAX_BUFFERED", 1000)
    monkeypatch.setattr(loading, "CHUNK", 700)
    monkeypatch.setattr(loading.lines, "BLOCK", 2000)
    monkeypatch.setattr(loading.delimited, "BLOCK", 2000)
    steps: list[Step] = []
    csv = file("a.csv", "id,s\n" + "".join(f"{i},row {i}\n" for i in range(5000)))
    lines = file("b.jsonl", "".join(f'{{"id": {i}, "s": "row {i}"}}\n' for i in range(5000, 8000)))
    assert load(table, [csv, lines], None, steps.append) == 8000
    assert [(row["id"], row["s"]) for row in rows(table)] == [(i, f"row {i}") for i in range(8000)]
    assert {step.phase for step in steps} == {"checking", "writing"}
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert steps[-1].done == 1.0


MANY = "".join(f"{i},x\n" for i in range(3, 3000))
BROKEN = [
    ("a.csv", "id,s\n1,x\n2,x,y\n", 3, "line 3 has 3 fields, expected 2"),
    ("a.csv", 'id,s\n1,"a\nb"\n\n2\n', 5, "line 5 has 1 fields, expected 2"),
    ("a.csv", f"id,s\n1,x\n{MANY}seven,x\n", 3000, "line 3000, column 'id': 'seven' does not fit BIGINT"),
    (
        "a.csv",
        'id,s,d\n1,"a\nb",1\n\n2,x,1.005\n',
        5,
        "line 5, column 'd': '1.005' does not fit DECIMAL(9,2)",
    ),
    ("a.csv", "id,small\n1,127\n2,128\n", 3, "line 3, column 'small': '128' does not fit TINYINT"),
    ("a.csv", "id,day\n1,2026-02-28\n2,2026-02-30\n", 3, "line 3, column 'day'"),
    ("a.csv", "id,s\n1,x\n,y\n", 3, "line 3: key column 'id' is NULL"),
    ("a.csv", 'id,s\n1,x\n2,"open\n3,y\n4,z\n', 3, "line 3: a quote is not closed"),
    ("a.csv", b"id,s\n1,x\n2,\xff\n", 3, "line 3 is not UTF-8"),
    ("a.csv", "id,colour\n1,x\n", None, "line 1: 't' has no column 'colour'"),
    ("a.csv", "id,id\n1,2\n", None, "line 1: column 'id' appears twice"),
    ("a.csv", "s\nx\n", None, "line 1: key column 'id' of 't' is missing"),
    ("a.csv", "", None, "the file is empty"),
    ("a.csv", "\n\n", None, "the file is empty"),
    ("a.jsonl", "", None, "the file is empty"),
    ("a.jsonl", '{"id": 1}\n\n{"id": 2\n{"id": 3}\n', 3, "line 3 is not JSON"),
    ("a.jsonl", '{"id": 1}\n[{"id": 2}]\n', 2, "line 2 is an array"),
    ("a.jsonl", '[\n{"id": 2}, {"id": 3}\n]\n', 2, "expected one JSON object per line"),
    ("a.jsonl", '[{"id": 2},\n{"id": 3}]\n{"id": 4}', 2, "line 2 is not JSON"),
    ("a.jsonl", '[{"id": 2},\n{"id": 3},\n', None, "the file is incomplete"),
    ("a.jsonl", '[\n{\n"id": 2\n}\n]\n', 2, "expected one JSON object per line"),
    ("a.jsonl", '{"id": 1}\n{"id": 1.5}\n', 2, "line 2, column 'id': Decimal('1.5') does not fit BIGINT"),
    ("a.jsonl", '{"id": 1}\n{"s": "x"}\n', 2, "line 2: key column 'id' is NULL"),
    ("a.jsonl", '{"id": 1}\n{"id": 2, "colour": 1}\n', 2, "line 2: 't' has no column 'colour'"),
    ("a.jsonl", '{"id": 1}\n{"id": 2, "s": 7}\n', 2, "line 2, column 's': 7 does not fit STRING"),
    ("a.jsonl", b'{"id": 1}\n{"id": 2, "s": "\xff"}\n', 2, "line 2 is not JSON"),
    ("a.parquet", "not parquet", None, "cannot be read as Parquet"),
    ("a.xlsx", "x", None, "unknown file extension"),
]


@pytest.mark.parametrize(("name", "content", "line", "message"), BROKEN, ids=[b[3][:50] for b in BROKEN])
def test_a_broken_file_changes_nothing(
    table: tr.Table, file: File, name: str, content: str | bytes, line: int | None, message: str
) -> None:
    good = file("good.csv", "id,s\n100,fine\n")
    with pytest.raises(BadFile) as caught:
        load(table, [good, file(name, content)])
    assert message in str(caught.value)
    assert str(caught.value).endswith("; nothing was loaded")
    assert caught.value.data.get("line") == line
    assert rows(table) == []


def test_a_missing_file(table: tr.Table, tmp_path: Path) -> None:
    for path, message in ((tmp_path / "no.csv", "no such file"), (tmp_path, "not a file")):
        with pytest.raises(BadFile, match=message):
            load(table, [path], Options(format="csv"))


def test_a_bad_row_of_parquet(table: tr.Table, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1, 2, None]}), path)
    with pytest.raises(BadFile, match="row 3: key column 'id' is NULL"):
        load(table, [path])
    pq.write_table(pa.table({"id": [1, 2], "small": [1, 300]}), path)
    with pytest.raises(BadFile, match="row 2, column 'small': 300 does not fit TINYINT"):
        load(table, [path])
    assert rows(table) == []


NESTED = """CREATE TABLE n (id BIGINT PRIMARY KEY, f FLOAT, d DECIMAL(20,4), raw BINARY, at TIMESTAMP,
            i INTERVAL DAY TO SECOND, a ARRAY<DOUBLE>, s STRUCT<x: DATE, y: ARRAY<BINARY>>, m MAP<STRING, INT>,
            keyed MAP<DATE, STRUCT<p: DECIMAL(4,1)>>)"""
NESTED_ROWS: list[dict[str, object]] = [
    {
        "id": 1,
        "f": 0.1,
        "d": Decimal("1234567890123456.7891"),
        "raw": b"\x00",
        "at": datetime.datetime(2026, 1, 31, 12, 0, 0, 7, tzinfo=datetime.UTC),
        "i": -datetime.timedelta(days=1, microseconds=1),
        "a": [0.5, None, float("inf")],
        "s": {"x": datetime.date(2026, 1, 31), "y": [b"\xff", None]},
        "m": [("k", 1), ("", None)],
        "keyed": [(datetime.date(1970, 1, 1), {"p": Decimal("1.5")})],
    },
    {"id": 2, "a": [], "s": {"x": None, "y": None}, "m": [], "keyed": []},
    {"id": 3},
]


@pytest.fixture
def nested(tmp_path: Path) -> Iterator[tr.Table]:
    with tr.open(tmp_path / "nested", create=True) as db:
        db.sql(NESTED)
        yield db.table("n")


def test_nested_columns_of_every_format(nested: tr.Table, file: File, tmp_path: Path) -> None:
    nested.put_many(NESTED_ROWS)
    expected = rows(nested)
    pq.write_table(nested.scan(), tmp_path / "a.parquet")
    objects = [to_json(row) for row in expected]
    cells = [[cell(row[name]) for name in nested.schema.names] for row in expected]
    quoted = [",".join('"' + c.replace('"', '""') + '"' if c else "" for c in line) for line in cells]
    files = [
        tmp_path / "a.parquet",
        file("a.jsonl", "\n".join(objects)),
        file("b.jsonl", "[" + ",\n ".join(objects) + "]\n"),
        file("c.json", "[\n" + ",\r\n".join(objects) + "\n]"),
        file("a.csv", "\n".join([",".join(nested.schema.names), *quoted])),
    ]
    for path in files:
        nested.delete_many([1, 2, 3])
        assert load(nested, [path]) == 3
        assert rows(nested) == expected, path


def cell(value: object) -> str:
    """The text of a value in a CSV file."""
    text = "" if value is None else to_json(value)
    return str(json.loads(text)) if text.startswith('"') else text


def test_a_bad_part_of_a_nested_value_is_named(nested: tr.Table, file: File) -> None:
    with pytest.raises(BadFile, match=r"line 2, column 's\.y\[0\]': 'zz' does not fit BINARY"):
        load(nested, [file("a.jsonl", '{"id": 1}\n{"id": 2, "s": {"y": ["zz"]}}\n')])
    with pytest.raises(BadFile, match=r"line 3, column 'a\[1\]': 'x' does not fit DOUBLE"):
        load(nested, [file("a.csv", 'id,a\n1,"[1]"\n2,"[1, ""x""]"\n')])
    with pytest.raises(BadFile, match=r"line 2, column 'a': '\[1' does not fit ARRAY<DOUBLE>"):
        load(nested, [file("a.csv", 'id,a\n1,"[1"\n')])
    assert rows(nested) == []


def test_json_objects_are_maps(nested: tr.Table, file: File) -> None:
    load(nested, [file("a.jsonl", '{"id": 1, "m": {"k": 1}, "keyed": {"2026-01-31": {"P": 2}}}')])
    row = nested.get(1)
    assert row is not None
    assert row["m"] == [("k", 1)]
    assert row["keyed"] == [(datetime.date(2026, 1, 31), {"p": Decimal("2.0")})]
