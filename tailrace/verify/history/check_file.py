"""From a recording to the verdict: its histories are read, its views computed by Spark, and the model asked."""

from __future__ import annotations

from collections.abc import Mapping
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
from tailrace.verify.history.row_shapes import Bag, Shape, typed
from tailrace.verify.history.timelines import BaseHistory, Change, Record, ViewHistory, ViewState
from tailrace.verify.history.verdict import Level, Verdict

BOUND = 300  # base states that a search looks at, each a query


@dataclass(frozen=True)
class Checked:
    """What a recording shows. `certified`: its states name their cuts; otherwise these were searched for."""

    path: str
    verdict: Verdict
    certified: bool
    epochs: int
    transactions: int

    @property
    def ok(self) -> bool:
        """Whether all views are strongly consistent, and with each other."""
        return self.verdict.level >= Level.STRONG and self.verdict.snapshot is not False


def check_file(spark: SparkSession, path: Path, *, search: bool = False, bound: int = BOUND) -> Checked:
    """The verdict on a recording, by its cuts if it has them (unless `search` is true), else by search."""
    reader = Reader(path)
    evaluator = Evaluator(spark, reader.header, reader.refused)
    histories = _Histories(reader, evaluator.shapes)
    base, views = histories.read()
    certified = not search and all(state.cut is not None for view in views for state in view.states)
    definitions = {view.name: evaluator.definition(view.name) for view in views}
    matters = {view.name: evaluator.matters(view.name) for view in views}
    verdict = check(base, views, definitions, certificates=certified, bound=bound, tolerance=TOLERANCE, matters=matters)
    numbers = {change.transaction for change in base.changes}
    return Checked(str(path), verdict, certified, len(histories.epochs), len(numbers))


@dataclass
class _Seen:
    """A view's states as they are read; the last one is still open."""

    view: RecordedView
    shape: Shape
    bag: Bag
    states: list[ViewState] = field(default_factory=list)
    changes: dict[str, Any] = field(default_factory=dict)


class _Histories:
    """Reads the lines of a recording, each checked."""

    def __init__(self, reader: Reader, shapes: Mapping[str, Shape]) -> None:
        self._reader = reader
        self._tables = {t.name: t for t in reader.header.tables}
        self._views = {v.name: _Seen(v, shapes[v.name], Bag(shapes[v.name])) for v in reader.header.views if v.recorded}
        self._initial: dict[Record, Any] = {}
        self._changes: dict[tuple[int, Record], Any] = {}
        self._last = 0
        self.epochs: set[int] = set()

    def read(self) -> tuple[BaseHistory, list[ViewHistory]]:
        for number, line in self._reader.lines():
            try:
                self._take(line)
            except (ValueError, KeyError, TypeError) as error:
                said = error.args[0] if error.args else type(error).__name__
                raise self._reader.refused(f"row {number} ({_kind(line)}): {said}") from None
        for name, seen in self._views.items():
            if not seen.states:
                raise self._reader.refused(f"it has no epoch of view {name!r}")
        changes = [Change(number, record, row) for (number, record), row in self._changes.items()]
        views = [ViewHistory(name, seen.states) for name, seen in self._views.items()]
        return BaseHistory(self._initial, changes), views

    def _take(self, line: Line) -> None:
        match line.kind:
            case "base":
                self._base(line)
            case "epoch":
                self._epoch(line)
            case "view":
                self._view(line)
            case other:
                raise ValueError(f"kind is base, epoch or view, not {other!r}")

    def _base(self, line: Line) -> None:
        table = self._tables.get(line.name or "")
        if table is None:
            raise ValueError(f"there is no table {line.name!r}")
        key_columns = [table.columns[p] for p in table.positions]
        key = typed(dict(zip(table.key, _array(line.key, len(table.key)), strict=True)), key_columns)
        row = None if line.row is None else typed(_object(line.row), table.columns)
        record = table.name, text.to_json(list(key.values()))
        if row is not None and text.to_json([row[k] for k in table.key]) != record[1]:
            raise ValueError(f"the row's key is not {line.key}")
        if line.transaction is None:
            if self._changes:
                raise ValueError("a row of the first state comes after changes; changes have a transaction")
            self._initial[record] = row
            return
        if line.transaction < self._last:
            raise ValueError(f"transaction {line.transaction} comes after {self._last}")
        self._last = line.transaction
        self._changes[line.transaction, record] = row

    def _epoch(self, line: Line) -> None:
        if line.epoch is None:
            raise ValueError("an epoch has a number")
        if line.name is not None and line.name not in self._views:
            raise ValueError(f"there is no recorded view {line.name!r}")
        for name, seen in self._views.items():
            if line.name in (None, name):
                before = seen.states[-1].epoch if seen.states else None
                if before is not None and line.epoch <= before:
                    raise ValueError(f"epoch {line.epoch} comes after {before}")
                seen.changes = {}
                seen.states.append(ViewState(seen.changes, line.transaction, line.epoch))
        self.epochs.add(line.epoch)

    def _view(self, line: Line) -> None:
        seen = self._views.get(line.name or "")
        if seen is None:
            raise ValueError(f"there is no recorded view {line.name!r}")
        if not seen.states or seen.states[-1].epoch != line.epoch:
            raise ValueError(f"the epoch row of epoch {line.epoch} is not before it")
        if seen.shape.key is None:
            self._bag(seen, line)
            return
        key = seen.shape.key_text(_array(line.key, len(seen.shape.key)))
        if line.row is None:
            seen.changes[key] = None
            return
        row = seen.shape.plain(list(typed(_object(line.row), seen.shape.columns).values()))
        if seen.shape.record(row) != key:
            raise ValueError(f"the row's key is not {line.key}")
        seen.changes[key] = seen.shape.shown(row)

    def _bag(self, seen: _Seen, line: Line) -> None:
        columns = seen.shape.columns
        names = [c.name for c in columns]
        values = typed(dict(zip(names, _array(line.key, len(names)), strict=True)), columns)
        weight = 0 if line.row is None else _object(line.row).get(WEIGHT)
        if not isinstance(weight, int) or isinstance(weight, bool) or weight < 0:
            raise ValueError(f"a row of a view without a key says in {WEIGHT} how often it is there")
        row = seen.shape.plain(list(values.values()))
        seen.bag.put(row, weight)
        record = seen.shape.record(row)
        seen.changes[record] = seen.bag.value(record)


def _kind(line: Line) -> str:
    return " ".join(str(part) for part in (line.kind, line.name) if part is not None)


def _array(found: str | None, length: int) -> list[Any]:
    value = _json(found, "key")
    if not isinstance(value, list) or len(value) != length:
        raise ValueError(f"its key is a JSON array of {length} values, not {found}")
    return value


def _object(found: str) -> dict[str, Any]:
    value = _json(found, "row")
    if not isinstance(value, dict):
        raise ValueError(f"its row is a JSON object, not {found}")
    return value


def _json(found: str | None, what: str) -> Any:
    if found is None:
        raise ValueError(f"it has no {what}")
    try:
        return text.from_json(found)
    except ValueError as error:
        raise ValueError(f"its {what} is not JSON: {error}") from None
