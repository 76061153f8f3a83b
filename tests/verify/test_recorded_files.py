"""Recording files: those of other systems can be checked; invalid or damaged ones are refused with the reason."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tailrace as tr
from tailrace.errors import BadRecording
from tailrace.verify.history.history_file import Header, Line, Reader, RecordedView, Writer
from tailrace.verify.history.verdict import Level

T = "CREATE TABLE t (id INT PRIMARY KEY, v DECIMAL(6,2), x DOUBLE, at TIMESTAMP)"
COPY = {"name": "copy", "sql": "SELECT id, v FROM t", "key": ["id"]}
TOTAL = {"name": "total", "sql": "SELECT SUM(v) AS s FROM t", "key": []}
BAG = {"name": "bag", "sql": "SELECT x FROM t", "key": None}
HEADER = {"format": 1, "tables": [T], "views": [COPY]}
NAMES = ("kind", "name", "epoch", "transaction", "key", "row")
KINDS = (pa.string(), pa.string(), pa.int64(), pa.int64(), pa.string(), pa.string())

Row = tuple[str | None, str | None, int | None, int | None, str | None, str | None]


def make(path: Path, header: Any, rows: Sequence[Row]) -> Path:
    """Writes a recording with only Arrow and JSON, as another system would."""
    text = header if isinstance(header, str) else json.dumps(header)
    schema = pa.schema(list(zip(NAMES, KINDS, strict=True)), metadata={"tailrace.recording": text})
    columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(KINDS)]
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return path


def base(number: int | None, key: int, v: Any) -> Row:
    return ("base", "t", None, number, f"[{key}]", None if v is None else json.dumps({"id": key, "v": v}))


def epoch(number: int, cut: int | None = None, name: str | None = None) -> Row:
    return ("epoch", name, number, cut, None, None)


def view(number: int, key: int, v: Any) -> Row:
    return ("view", "copy", number, None, f"[{key}]", None if v is None else json.dumps({"id": key, "v": v}))


HISTORY = [base(None, 1, 1), base(10, 1, 2), base(11, 1, "3"), base(11, 2, "0.5")]


def copied(path: Path, *values: Any) -> Path:
    """Writes a recording in which record 1 of the view has these values, one per epoch."""
    seen = [row for i, v in enumerate(values) for row in (epoch(i), view(i, 1, v))]
    return make(path, HEADER, [*HISTORY, *seen, view(len(values) - 1, 2, 0.5)])


def test_states_without_cuts_are_explained_by_search(tmp_path: Path, spark: Any) -> None:
    checked = tr.check(copied(tmp_path / "h", 1, "2.0", 3), spark=spark)
    assert (checked.certified, checked.ok, checked.verdict.snapshot) == (False, True, None)
    assert checked.verdict.level >= Level.STRONG


def test_a_record_that_goes_back_is_not_strong(tmp_path: Path, spark: Any) -> None:
    checked = tr.check(copied(tmp_path / "h", 2, 1, 3), spark=spark)
    assert (checked.verdict.level, checked.verdict.at_most, checked.ok) == (Level.WEAK, Level.WEAK, False)
    witness = checked.verdict.witness
    assert witness is not None
    assert (witness.level, witness.view, witness.key) == (Level.STRONG, "copy", "[1]")
    assert [state.value["v"] for state in witness.states] == ["2.00", "1.00"]


def test_a_value_that_never_existed_is_not_weak(tmp_path: Path, spark: Any) -> None:
    checked = tr.check(copied(tmp_path / "h", 1, 7, 3), spark=spark)
    assert checked.verdict.level is Level.CONVERGENT
    assert checked.verdict.witness is not None
    assert [state.value["v"] for state in checked.verdict.witness.states] == ["7.00"]


def test_a_hit_bound_is_reported(tmp_path: Path, spark: Any) -> None:
    checked = tr.check(copied(tmp_path / "h", 2, 1, 3), bound=1, spark=spark)
    assert checked.verdict.bounded
    assert not checked.ok
    assert "raise the bound" in str(checked.verdict)


def test_each_state_is_compared_with_the_view_at_its_cut(tmp_path: Path, spark: Any) -> None:
    rows = [*HISTORY, epoch(5, 10), view(5, 1, 2), epoch(6, 11), view(6, 1, 3), view(6, 2, 0.5)]
    checked = tr.check(make(tmp_path / "right", HEADER, rows), spark=spark)
    assert (checked.certified, checked.ok, checked.verdict.level) == (True, True, Level.COMPLETE)
    rows = [*HISTORY, epoch(5, 10), view(5, 1, 1), epoch(6, 11), view(6, 1, 3), view(6, 2, 0.5)]
    checked = tr.check(make(tmp_path / "stale", HEADER, rows), spark=spark)
    assert checked.verdict.level is Level.CONVERGENT
    assert checked.verdict.witness is not None
    assert checked.verdict.witness.states[0].cut == 10
    assert tr.check(tmp_path / "stale", search=True, spark=spark).ok  # because another base state explains it


def test_views_at_different_cuts_are_no_snapshot(tmp_path: Path, spark: Any) -> None:
    total = [("view", "total", 1, None, "[]", '{"s": "3.50"}')]
    seen = [epoch(1, 10, "copy"), view(1, 1, 2), epoch(1, 11, "total"), *total]
    last = [epoch(2, 11, "copy"), view(2, 1, 3), view(2, 2, 0.5)]
    path = make(tmp_path / "h", {**HEADER, "views": [COPY, TOTAL]}, [*HISTORY, *seen, *last])
    checked = tr.check(path, spark=spark)
    assert (checked.verdict.level >= Level.STRONG, checked.verdict.snapshot, checked.ok) == (True, False, False)
    assert checked.verdict.witness is not None
    assert "epoch 1" in checked.verdict.witness.reason


def test_equal_values_may_be_written_differently(tmp_path: Path, spark: Any) -> None:
    def bag(x: Any, weight: int) -> Row:
        return ("view", "bag", 1, None, json.dumps([x]), json.dumps({"x": x, "_weight": weight}))

    xs = ["NaN", 0.0, -0.0, 0.1, None]
    rows: list[Row] = [
        ("base", "t", None, None, f"[{i}]", json.dumps({"id": i, "x": x, "at": "2026-01-01 01:00:00+01:00"}))
        for i, x in enumerate(xs)
    ]
    shown = [bag("NaN", 1), bag(0.0, 1), bag(-0.0, 1), bag(0.1 + 1e-17, 1), bag(None, 1)]
    timed = {"name": "timed", "sql": "SELECT at, COUNT(*) AS n FROM t GROUP BY at", "key": ["at"]}
    row: Row = ("view", "timed", 1, None, '["2026-01-01T00:00:00"]', '{"at": "2026-01-01T00:00:00Z", "n": 5}')
    header = {**HEADER, "views": [BAG, timed]}
    checked = tr.check(make(tmp_path / "h", header, [*rows, epoch(1, 1), *shown, row]), spark=spark)
    assert checked.ok, checked.verdict


WRONG = {
    "not JSON": ("nonsense", [], "invalid metadata"),
    "format": ({**HEADER, "format": 9}, [], "the file has format 9; this Tailrace reads format 1"),
    "no tables": ({"format": 1, "views": []}, [], "invalid metadata: KeyError 'tables'"),
    "no DDL": ({**HEADER, "tables": ["DROP TABLE t"]}, [], "is not a CREATE TABLE statement"),
    "bad DDL": ({**HEADER, "tables": ["CREATE TABLE t (id INT)"]}, [], "PRIMARY KEY"),
    "no view": ({**HEADER, "views": []}, [], "the file records no view"),
    "twice": ({**HEADER, "views": [COPY, COPY]}, [], "two tables or views are named 'copy'"),
    "bad SQL": ({**HEADER, "views": [{**COPY, "sql": "SELEC 1"}]}, [], "the SQL of view 'copy' is invalid"),
    "no column": ({**HEADER, "views": [{**COPY, "sql": "SELECT nosuch FROM t"}]}, [], "nosuch"),
    "no relation": ({**HEADER, "views": [{**COPY, "sql": "SELECT id FROM u"}]}, [], "no table or view named 'u'"),
    "a file": ({**HEADER, "views": [{**COPY, "sql": "SELECT * FROM csv.`/etc/passwd`"}]}, [], "qualified name"),
    "no key": ({**HEADER, "views": [{**COPY, "key": ["u"]}]}, [], "key column 'u' is not a column of view 'copy'"),
    "circle": ({**HEADER, "views": [{**COPY, "sql": "SELECT id FROM copy"}]}, [], "must be defined before it"),
    "plan": ({**HEADER, "views": [{**COPY, "plan": {"node": "nosuch"}}]}, [], "the plan of view 'copy' is invalid"),
    "foreign code": (
        {**HEADER, "views": [{**COPY, "sql": "SELECT id, reflect('java.lang.System', 'exit', 1) AS v FROM t"}]},
        [],
        "uses code or data outside the recorded tables",
    ),
    "foreign code in a plan": (
        {**HEADER, "views": [{**COPY, "plan": {"node": "Filter", "condition": "(SELECT 1) = 1"}}]},
        [],
        "uses code or data outside the recorded tables",
    ),
    "a file by its name": (
        {**HEADER, "views": [{**COPY, "sql": "SELECT * FROM IDENTIFIER('text.`/etc/passwd`')"}]},
        [],
        "uses code or data outside the recorded tables",
    ),
    "kind": (HEADER, [("what", "t", 1, 1, "[1]", None)], "kind must be base, epoch or view, not 'what'"),
    "no kind": (HEADER, [(None, "t", 1, 1, "[1]", None)], "kind must be base, epoch or view, not None"),
    "no epoch": (HEADER, HISTORY, "no epoch row for view 'copy'"),
    "epoch first": (HEADER, [view(1, 1, 1)], "the epoch row of epoch 1 must come before its view rows"),
    "epoch order": (HEADER, [epoch(2), epoch(1)], "epoch 1 is listed after epoch 2"),
    "epoch number": (HEADER, [("epoch", None, None, 1, None, None)], "an epoch row needs an epoch number"),
    "epoch name": (HEADER, [epoch(1, 1, "t")], "no recorded view named 't'"),
    "base order": (HEADER, [base(2, 1, 1), base(1, 1, 1)], "transaction 1 is listed after transaction 2"),
    "base late": (
        HEADER,
        [base(2, 1, 1), base(None, 1, 1)],
        "an initial row (no transaction) follows a change",
    ),
    "base name": (HEADER, [("base", "u", None, 1, "[1]", "{}")], "no table named 'u'"),
    "base key": (HEADER, [("base", "t", None, 1, "[1, 2]", "{}")], "the key must be a JSON array of 1 value"),
    "no base key": (HEADER, [("base", "t", None, 1, None, "{}")], "the key is missing"),
    "key and row": (HEADER, [("base", "t", None, 1, "[1]", '{"id": 2}')], "the row does not have the key [1]"),
    "row": (HEADER, [("base", "t", None, 1, "[1]", "{")], "the row is not valid JSON"),
    "row kind": (HEADER, [("base", "t", None, 1, "[1]", "[]")], "the row must be a JSON object"),
    "column": (HEADER, [("base", "t", None, 1, "[1]", '{"id": 1, "u": 1}')], "no column named 'u'"),
    "value": (HEADER, [base(1, 1, "x")], "column 'v': \"x\" does not fit DECIMAL(6,2)"),
    "view value": (HEADER, [epoch(1), view(1, 1, True)], "column 'v': true does not fit DECIMAL(6,2)"),
    "view name": (HEADER, [epoch(1), ("view", "u", 1, None, "[1]", "{}")], "no recorded view named 'u'"),
    "two rows": (
        {**HEADER, "views": [{**COPY, "key": []}]},
        [*HISTORY, epoch(1, 11), ("view", "copy", 1, None, "[]", '{"id": 1, "v": 3}')],
        "the key of view 'copy' is not unique",
    ),
    "no weight": (
        {**HEADER, "views": [BAG]},
        [epoch(1), ("view", "bag", 1, None, "[0.5]", '{"x": 0.5}')],
        "needs _weight, its number of copies",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_invalid_file_is_refused_with_the_reason(tmp_path: Path, spark: Any, wrong: str) -> None:
    header, rows, reason = WRONG[wrong]
    with pytest.raises(BadRecording) as refused:
        tr.check(make(tmp_path / "h", header, rows), spark=spark)
    assert reason in refused.value.reason


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.int64())])
    for name, metadata in (("other", None), ("columns", {"tailrace.recording": json.dumps(HEADER)})):
        with pa.OSFile(str(tmp_path / name), "wb") as file:
            pa.ipc.new_file(file, schema.with_metadata(metadata)).close()
    (tmp_path / "text").write_text("no Arrow at all")
    reasons = {
        "nosuch": "no such file",
        "text": "not a complete Arrow file",
        "other": "not a recording",
        "columns": "a recording has kind string",
    }
    for name, reason in reasons.items():
        with pytest.raises(BadRecording, match=reason):
            Reader(tmp_path / name)


def test_damage_to_any_byte_is_noticed(tmp_path: Path) -> None:
    """A file with a changed byte is either refused or has the same content."""
    path = tmp_path / "h"
    original = Reader(copied(tmp_path / "made", 1, 2, 3))
    with Writer(
        path, Header(original.header.tables, (RecordedView("copy", "SELECT id, v FROM t", ("id",)),))
    ) as writer:
        writer.write([line for _, line in original.lines()])
        writer.whole = True
    expected, content = everything(path), path.read_bytes()
    noticed = 0
    for at in range(0, len(content), 3):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :])
        try:
            assert everything(path) == expected, f"byte {at}"
        except BadRecording:
            noticed += 1
    assert noticed > len(content) // 12
    for length in range(0, len(content), 50):
        path.write_bytes(content[:length])
        with pytest.raises(BadRecording):
            everything(path)


def everything(path: Path) -> tuple[Header, list[Line]]:
    reader = Reader(path)
    return reader.header, [line for _, line in reader.lines()]
