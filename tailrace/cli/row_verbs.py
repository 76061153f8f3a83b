"""put, delete, get, scan."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer

from tailrace import terminal, types
from tailrace.cli.verb import Dir, Json, opened, usage
from tailrace.codec import text
from tailrace.codec.convert import key_values
from tailrace.database.database import Database
from tailrace.database.table import Table
from tailrace.database.view import View
from tailrace.database.waiting import PATIENCE
from tailrace.errors import UnknownName
from tailrace.store.base import Written
from tailrace.types import Column

TableName = Annotated[str, typer.Argument(metavar="TABLE", help="The table.", show_default=False)]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A table or a view.", show_default=False)]
AtLeast = Annotated[
    int | None,
    typer.Option(
        "--at-least",
        metavar="POSITION",
        help="Wait until the view covers this position (put and delete print theirs).",
        show_default=False,
    ),
]
Patience = Annotated[float, typer.Option("--timeout", min=0, help="Seconds that --at-least waits at most.")]


def put(
    directory: Dir,
    table: TableName,
    rows: Annotated[
        list[str] | None, typer.Argument(metavar="ROW", help="Rows as JSON objects.", show_default=False)
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Change only the columns given, of rows there are.")] = False,
    as_json: Json = False,
) -> None:
    """Insert or replace rows, given as JSON objects, or as JSON lines on stdin: all of them or none.

    Example:
      tailrace put shop orders '{"id": 1, "cust": 7, "price": "9.50"}'
      tailrace put shop orders --update '{"id": 1, "cust": 8}'
      tailrace put shop orders < orders.jsonl
    """
    if not rows and sys.stdin.isatty():
        raise usage("give rows as arguments or on stdin")
    with opened(directory) as db:
        target = db.table(table)
        texts = rows or [line for line in sys.stdin if line.strip()]
        found = text.rows_of(texts, target.columns)
        _tell(target.update_many(found) if update else target.put_many(found), "written", as_json)


def delete(
    directory: Dir,
    table: TableName,
    keys: Annotated[list[str], typer.Argument(metavar="KEY", help="Keys of the rows.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Delete rows by key, all in one transaction; keys that are not there are passed over.

    A composite key is a JSON array, or its values one after the other.

    Example:
      tailrace delete shop orders 1 2 3
      tailrace delete shop lines '[1, 4]' '[1, 5]'
    """
    with opened(directory) as db:
        target = db.table(table)
        found = text.keys_of(target.name, _key_columns(target), keys)
        _tell(target.delete_many(found), "deleted", as_json)


def _tell(written: Written, done: str, as_json: bool) -> None:
    if as_json:
        terminal.print_json({"transaction": written.transaction, "operations": written.operations})
    else:
        rows = "row" if written.operations == 1 else "rows"
        print(f"{written.operations:,} {rows} {done}, position {written.transaction}")


def get(
    directory: Dir,
    name: Name,
    key: Annotated[list[str] | None, typer.Argument(metavar="KEY", help="The key.", show_default=False)] = None,
    at_least: AtLeast = None,
    timeout: Patience = PATIENCE,
    as_json: Json = False,
) -> None:
    r"""Read one row by its key: the newest of a table, or that of the committed epoch of a view.

    A composite key is its values one after the other, or a JSON array; a view of one row needs no key.
    Exits with 1 if there is no such row.

    Example:
      tailrace get shop spend 7
      tailrace get shop lines 1 4
      tailrace get shop spend '\[null]'
      tailrace get shop spend 7 --at-least 1042 --timeout 5
    """
    with opened(directory) as db:
        source = _relation(db, name)
        columns = _key_columns(source)
        found = text.key_of(source.name, columns, key or []) if columns is not None else ()
        if isinstance(source, View):
            row = source.get(found, at_least=at_least, timeout=timeout)
        else:
            row = source.get(found)  # a table's newest row covers every position
    if row is not None:
        terminal.print_row(row, as_json=as_json)
        return
    if as_json:
        print("null")
    raise typer.Exit(1)


def _relation(db: Database, name: str) -> Table | View:
    if name.lower() in db.views():
        return db.view(name)
    if name.lower() in db.tables():
        return db.table(name)
    known = ", ".join([*db.tables(), *db.views()][:8])
    raise UnknownName(kind="table or view", name=name, hint=f" (there are: {known})" if known else " (there are none)")


def _key_columns(source: Table | View) -> Any:
    """The columns of the key, None if there is no key: the engine says what to do then."""
    if source.key is None:
        return None
    by_name = {c.name: c for c in source.columns}
    return [by_name[name] for name in source.key]


def _bound(option: str) -> Any:
    return typer.Option(option, metavar="KEY", show_default=False, help=_BOUNDS[option])


_BOUNDS = {
    "--prefix": "Only rows whose key begins with this (a value, or a JSON array of the first values).",
    "--start": "Only rows from this key on.",
    "--stop": "Only rows before this key.",
}


def scan(
    directory: Dir,
    name: Name,
    prefix: Annotated[str | None, _bound("--prefix")] = None,
    start: Annotated[str | None, _bound("--start")] = None,
    stop: Annotated[str | None, _bound("--stop")] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="At most so many rows.", show_default=False)] = None,
    at_least: AtLeast = None,
    timeout: Patience = PATIENCE,
    as_json: Json = False,
) -> None:
    """Read the rows of a table or a view, all or a range: by key, a view with ORDER BY as that says.

    Example:
      tailrace scan shop spend --limit 10
      tailrace scan shop lines --prefix 1
      tailrace scan shop spend --start 100 --stop 200 --json
    """
    if prefix is not None and (start is not None or stop is not None):
        raise usage("--prefix goes without --start and --stop")
    with opened(directory) as db:
        source = _relation(db, name)
        columns = _key_columns(source)
        bounds = {
            side: text.key_of(source.name, columns or [], [given], prefix=True)
            for side, given in (("prefix", prefix), ("start", start), ("stop", stop))
            if given is not None
        }
        if isinstance(source, View):
            start_, stop_ = bounds.get("start"), bounds.get("stop")
            found = source.scan(
                bounds.get("prefix"), start=start_, stop=stop_, limit=limit, at_least=at_least, timeout=timeout
            )
        else:
            found = _scan_table(source, columns, bounds, limit)
    terminal.print_rows(found, as_json=as_json)


def _scan_table(table: Table, key: list[Column], bounds: dict[str, tuple[Any, ...]], limit: int | None) -> pa.Table:
    """A table's rows in key order. They lie by hash, so all are read, and `limit` of them held."""
    bounds = {s: tuple(key_values(table.name, key, v, prefix=True)) for s, v in bounds.items()}
    found = [table.schema.empty_table()]
    for batch in table.batches():
        for side, values in bounds.items():
            batch = batch.filter(_inside(batch, key, side, values))
        found.append(pa.Table.from_batches([batch]))
        if limit is not None:
            found = [_sorted(found, key).slice(0, limit)]
    return _sorted(found, key)


def _sorted(tables: list[pa.Table], key: list[Column]) -> pa.Table:
    return pa.concat_tables(tables).sort_by([(c.name, "ascending") for c in key])


def _inside(batch: pa.RecordBatch, key: list[Column], side: str, values: tuple[Any, ...]) -> pa.Array:
    """Which rows have a key that begins with `values` (prefix), is not before them (start), or is (stop)."""
    before = pa.array([False] * batch.num_rows)
    same = pa.array([True] * batch.num_rows)
    for column, value in zip(key, values, strict=False):
        bound, array = pa.scalar(value, types.arrow(column.type)), batch.column(column.name)
        before = pc.or_(before, pc.and_(same, pc.less(array, bound)))
        same = pc.and_(same, pc.equal(array, bound))
    return {"prefix": same, "start": pc.invert(before), "stop": before}[side]
