"""Checks a recording: reads its histories, computes its views with Spark, and runs the checker."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tailrace.codec import text
from tailrace.delta import WEIGHT
from tailrace.verify.equality import TOLERANCE
from tailrace.verify.history.checker import check
from tailrace.verify.history.evaluate import Evaluator
from tailrace.verify.history.history_file import Line, Reader, RecordedView
from tailrace.verify.history.row_shapes import Bag, Shape, convert_row
from tailrace.verify.history.timelines import BaseHistory, Change, Record, ViewHistory, ViewState
from tailrace.verify.history.verdict import BOUND, Level, Verdict


@dataclass(frozen=True)
class Checked:
    """The result for a recording. `certified`: it was checked by the cuts of its states, otherwise by search."""

    path: str
    verdict: Verdict
    certified: bool
    epochs: int
    transactions: int

    @property
    def ok(self) -> bool:
        """Whether all views are strongly consistent, and views published together have the same cut."""
        return self.verdict.level >= Level.STRONG and self.verdict.snapshot is not False


def check_file(spark: SparkSession, path: Path, *, search: bool = False, bound: int = BOUND) -> Checked:
    """Checks a recording: by its cuts if all states have one and `search` is false, otherwise by search."""
    reader = Reader(path)
    evaluator = Evaluator(spark, reader.header, reader.refused)
    timed = {v.name for v in reader.header.views if v.recorded and evaluator.reads_time(v.name)}
    histories = _Histories(reader, evaluator.shapes, timed)
    base, views = histories.read()
    certified = not search and all(state.cut is not None for view in views for state in view.states)
    if timed and not certified:
        reason = f"view {min(timed)!r} reads the time: it can be checked by the cuts of its states only, not by search"
        raise reader.refused(reason)
    definitions = {view.name: evaluator.definition(view.name) for view in views}
    matters = {view.name: evaluator.matters(view.name) for view in views}
    verdict = check(base, views, definitions, certificates=certified, bound=bound, tolerance=TOLERANCE, matters=matters)
    transactions = {change.transaction for change in base.changes}
    return Checked(str(path), verdict, certified, len(histories.epochs), len(transactions))


@dataclass
class _ReadView:
    """The states of one view read so far. `changes` belongs to the last state, which may still grow."""

    view: RecordedView
    shape: Shape
    bag: Bag
    states: list[ViewState] = field(default_factory=list)
    changes: dict[str, Any] = field(default_factory=dict)


class _Histories:
    """Reads and validates the lines of a recording. `timed` are the views that read the time."""

    def __init__(self, reader: Reader, shapes: Mapping[str, Shape], timed: Set[str]) -> None:
        self._reader, self._timed = reader, timed
        self._tables = {t.name: t for t in reader.header.tables}
        self._views = {
            v.name: _ReadView(v, shapes[v.name], Bag(shapes[v.name])) for v in reader.header.views if v.recorded
        }
        self._initial: dict[Record, Any] = {}
        self._changes: dict[tuple[int, Record], Any] = {}
        self._last_transaction = 0
        self.epochs: set[int] = set()

    def read(self) -> tuple[BaseHistory, list[ViewHistory]]:
        for number, line in self._reader.lines():
            try:
                self._add_line(line)
            except (ValueError, KeyError, TypeError) as error:
                reason = error.args[0] if error.args else type(error).__name__
                raise self._reader.refused(f"row {number} ({_describe(line)}): {reason}") from None
        for name, view in self._views.items():
            if not view.states:
                raise self._reader.refused(f"no epoch row for view {name!r}")
        changes = [Change(number, record, row) for (number, record), row in self._changes.items()]
        views = [ViewHistory(name, view.states) for name, view in self._views.items()]
        return BaseHistory(self._initial, changes), views

    def _add_line(self, line: Line) -> None:
        match line.kind:
            case "base":
                self._add_base_row(line)
            case "epoch":
                self._add_epoch(line)
            case "view":
                self._add_view_row(line)
            case unknown:
                raise ValueError(f"kind must be base, epoch or view, not {unknown!r}")

    def _add_base_row(self, line: Line) -> None:
        table = self._tables.get(line.name or "")
        if table is None:
            raise ValueError(f"no table named {line.name!r}")
        key_columns = [table.columns[p] for p in table.positions]
        key = convert_row(dict(zip(table.key, _array(line.key, len(table.key)), strict=True)), key_columns)
        row = None if line.row is None else convert_row(_object(line.row), table.columns)
        record = table.name, text.to_json(list(key.values()))
        if row is not None and text.to_json([row[k] for k in table.key]) != record[1]:
            raise ValueError(f"the row does not have the key {line.key}")
        if line.transaction is None:
            if self._changes:
                raise ValueError("an initial row (no transaction) follows a change")
            self._initial[record] = row
            return
        if line.transaction < self._last_transaction:
            raise ValueError(f"transaction {line.transaction} is listed after transaction {self._last_transaction}")
        self._last_transaction = line.transaction
        self._changes[line.transaction, record] = row

    def _add_epoch(self, line: Line) -> None:
        if line.epoch is None:
            raise ValueError("an epoch row needs an epoch number")
        if line.name is not None and line.name not in self._views:
            raise ValueError(f"no recorded view named {line.name!r}")
        for name, view in self._views.items():
            if line.name in (None, name):
                before = view.states[-1].epoch if view.states else None
                if before is not None and line.epoch <= before:
                    raise ValueError(f"epoch {line.epoch} is listed after epoch {before}")
                view.changes = {}
                time = _time(line) if name in self._timed else None
                view.states.append(ViewState(view.changes, line.transaction, line.epoch, time=time))
        self.epochs.add(line.epoch)

    def _add_view_row(self, line: Line) -> None:
        view = self._views.get(line.name or "")
        if view is None:
            raise ValueError(f"no recorded view named {line.name!r}")
        if not view.states or view.states[-1].epoch != line.epoch:
            raise ValueError(f"the epoch row of epoch {line.epoch} must come before its view rows")
        if view.shape.key is None:
            self._add_bag_row(view, line)
            return
        key = view.shape.key_text(_array(line.key, len(view.shape.key)))
        if line.row is None:
            view.changes[key] = None
            return
        row = view.shape.to_plain(list(convert_row(_object(line.row), view.shape.columns).values()))
        if view.shape.record_text(row) != key:
            raise ValueError(f"the row does not have the key {line.key}")
        view.changes[key] = view.shape.named(row)

    def _add_bag_row(self, view: _ReadView, line: Line) -> None:
        """Adds a row of a view without a key."""
        columns = view.shape.columns
        names = [c.name for c in columns]
        values = convert_row(dict(zip(names, _array(line.key, len(names)), strict=True)), columns)
        weight = 0 if line.row is None else _object(line.row).get(WEIGHT)
        if not isinstance(weight, int) or isinstance(weight, bool) or weight < 0:
            raise ValueError(f"a row of a view without a key needs {WEIGHT}, its number of copies")
        row = view.shape.to_plain(list(values.values()))
        view.bag.put(row, weight)
        record = view.shape.record_text(row)
        view.changes[record] = view.bag.value(record)


def _describe(line: Line) -> str:
    return " ".join(str(part) for part in (line.kind, line.name) if part is not None)


def _time(line: Line) -> int:
    """The time of an epoch row."""
    time = None if line.row is None else _object(line.row).get("time")
    if not isinstance(time, int) or isinstance(time, bool):
        raise ValueError('a recorded view reads the time, so the row needs it: {"time": microseconds since 1970}')
    return time


def _array(json_text: str | None, length: int) -> list[Any]:
    value = _parse(json_text, "key")
    if not isinstance(value, list) or len(value) != length:
        unit = "value" if length == 1 else "values"
        raise ValueError(f"the key must be a JSON array of {length} {unit}, not {json_text}")
    return value


def _object(json_text: str) -> dict[str, Any]:
    value = _parse(json_text, "row")
    if not isinstance(value, dict):
        raise ValueError(f"the row must be a JSON object, not {json_text}")
    return value


def _parse(json_text: str | None, what: str) -> Any:
    if json_text is None:
        raise ValueError(f"the {what} is missing")
    try:
        return text.from_json(json_text)
    except ValueError as error:
        raise ValueError(f"the {what} is not valid JSON: {error}") from None
