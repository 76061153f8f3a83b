"""The verbs `put`, `delete`, `get` and `scan`. None of them starts Spark."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer

from tailrace import terminal, types
from tailrace.catalog.catalog import known_names
from tailrace.cli.verb import Dir, Json, open_store, usage_error
from tailrace.codec import text
from tailrace.codec.convert import key_values
from tailrace.database.database import Database
from tailrace.database.table import Table
from tailrace.database.view import View
from tailrace.database.waiting import PATIENCE
from tailrace.errors import UnknownName
from tailrace.store.base import Written
from tailrace.types import Column
from tailrace.words import count

TableName = Annotated[str, typer.Argument(metavar="TABLE", help="Name of the table.", show_default=False)]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a table or view.", show_default=False)]
AtLeast = Annotated[
    int | None,
    typer.Option(
        "--at-least",
        metavar="POSITION",
        help="Wait until the view includes the write with this position (put and delete print it).",
        show_default=False,
    ),
]
Patience = Annotated[float, typer.Option("--timeout", min=0, help="How many seconds --at-least waits before it fails.")]


def put(
    directory: Dir,
    table: TableName,
    rows: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ROW", help="Rows as JSON objects; read from stdin if none are given.", show_default=False
        ),
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Change only the given columns of existing rows.")] = False,
    as_json: Json = False,
) -> None:
    """Insert or replace rows in one transaction. Rows are JSON objects, or JSON lines on stdin.

    Example:
      tailrace put shop orders '{"id": 1, "cust": 7, "price": "9.50"}'
      tailrace put shop orders --update '{"id": 1, "cust": 8}'
      tailrace put shop orders < orders.jsonl
    """
    if not rows and sys.stdin.isatty():
        raise usage_error("no rows: give them as arguments or on stdin")
    with open_store(directory) as db:
        target = db.table(table)
        json_rows = rows or [line for line in sys.stdin if line.strip()]
        parsed_rows = text.rows_of(json_rows, target.columns)
        _print_written(target.update_many(parsed_rows) if update else target.put_many(parsed_rows), "written", as_json)


def delete(
    directory: Dir,
    table: TableName,
    keys: Annotated[list[str], typer.Argument(metavar="KEY", help="Keys of the rows to delete.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Delete rows by key, in one transaction. Keys without a row are ignored.

    Write a composite key as a JSON array.
    A single composite key may also be given as separate values.

    Example:
      tailrace delete shop orders 1 2 3
      tailrace delete shop lines '[1, 4]' '[1, 5]'
    """
    with open_store(directory) as db:
        target = db.table(table)
        parsed_keys = text.keys_of(target.name, _key_columns(target), keys)
        _print_written(target.delete_many(parsed_keys), "deleted", as_json)


def _print_written(written: Written, verb: str, as_json: bool) -> None:
    if as_json:
        terminal.print_json({"transaction": written.transaction, "operations": written.operations})
    else:
        print(f"{count(written.operations, 'row')} {verb}, position {written.transaction}")


def get(
    directory: Dir,
    name: Name,
    key: Annotated[list[str] | None, typer.Argument(metavar="KEY", help="Key of the row.", show_default=False)] = None,
    at_least: AtLeast = None,
    timeout: Patience = PATIENCE,
    as_json: Json = False,
) -> None:
    r"""Read one row by its key. Tables show their newest row, views their row at the committed epoch.

    Write a composite key as separate values or as a JSON array.
    A view that always has exactly one row needs no key.
    Exits with 1 if the row does not exist.

    Example:
      tailrace get shop spend 7
      tailrace get shop lines 1 4
      tailrace get shop spend '\[null]'
      tailrace get shop spend 7 --at-least 1042 --timeout 5
    """
    with open_store(directory) as db:
        source = _find_relation(db, name)
        columns = _key_columns(source)
        parsed_key = text.key_of(source.name, columns, key or []) if columns is not None else ()
        if isinstance(source, View):
            row = source.get(parsed_key, at_least=at_least, timeout=timeout)
        else:
            row = source.get(parsed_key)  # a table includes every write: nothing to wait for
    if row is not None:
        terminal.print_row(row, as_json=as_json)
        return
    if as_json:
        print("null")
    raise typer.Exit(1)


def _find_relation(db: Database, name: str) -> Table | View:
    if name.lower() in db.views():
        return db.view(name)
    if name.lower() in db.tables():
        return db.table(name)
    raise UnknownName(kind="table or view", name=name, hint=known_names([*db.tables(), *db.views()]))


def _key_columns(source: Table | View) -> Any:
    """The key columns, or None for a view without a key; reading that by key raises BadKey with advice."""
    if source.key is None:
        return None
    by_name = {c.name: c for c in source.columns}
    return [by_name[name] for name in source.key]


def _key_option(option: str) -> Any:
    return typer.Option(option, metavar="KEY", show_default=False, help=_KEY_OPTIONS[option])


_KEY_OPTIONS = {
    "--prefix": "Only rows whose key begins with this value (or with these values, as a JSON array).",
    "--start": "Only rows whose key is greater than or equal to this one.",
    "--stop": "Only rows whose key is less than this one.",
}


def scan(
    directory: Dir,
    name: Name,
    prefix: Annotated[str | None, _key_option("--prefix")] = None,
    start: Annotated[str | None, _key_option("--start")] = None,
    stop: Annotated[str | None, _key_option("--stop")] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="Print at most this many rows.", show_default=False)] = None,
    at_least: AtLeast = None,
    timeout: Patience = PATIENCE,
    as_json: Json = False,
) -> None:
    """Print the rows of a table or view, or a range of them, in key order (a view with ORDER BY: in that order).

    Example:
      tailrace scan shop spend --limit 10
      tailrace scan shop lines --prefix 1
      tailrace scan shop spend --start 100 --stop 200 --json
    """
    if prefix is not None and (start is not None or stop is not None):
        raise usage_error("--prefix cannot be combined with --start or --stop")
    with open_store(directory) as db:
        source = _find_relation(db, name)
        columns = _key_columns(source)
        bounds = {
            side: text.key_of(source.name, columns or [], [key], prefix=True)
            for side, key in (("prefix", prefix), ("start", start), ("stop", stop))
            if key is not None
        }
        if isinstance(source, View):
            start_, stop_ = bounds.get("start"), bounds.get("stop")
            rows = source.scan(
                bounds.get("prefix"), start=start_, stop=stop_, limit=limit, at_least=at_least, timeout=timeout
            )
        else:
            rows = _scan_table(source, columns, bounds, limit)
    terminal.print_rows(rows, as_json=as_json)


def _scan_table(table: Table, key: list[Column], bounds: dict[str, tuple[Any, ...]], limit: int | None) -> pa.Table:
    """A table's rows in key order. Rows are placed by hash, so this reads all of them, but keeps at most `limit`."""
    bounds = {s: tuple(key_values(table.name, key, v, prefix=True)) for s, v in bounds.items()}
    kept = [table.schema.empty_table()]
    for batch in table.batches():
        for side, values in bounds.items():
            batch = batch.filter(_match_bound(batch, key, side, values))
        kept.append(pa.Table.from_batches([batch]))
        if limit is not None:
            kept = [_sort_by_key(kept, key).slice(0, limit)]
    return _sort_by_key(kept, key)


def _sort_by_key(tables: list[pa.Table], key: list[Column]) -> pa.Table:
    return pa.concat_tables(tables).sort_by([(c.name, "ascending") for c in key])


def _match_bound(batch: pa.RecordBatch, key: list[Column], side: str, values: tuple[Any, ...]) -> pa.Array:
    """A mask of the rows whose key begins with `values` (prefix), is >= `values` (start), or is < `values` (stop)."""
    less = pa.array([False] * batch.num_rows)
    equal = pa.array([True] * batch.num_rows)
    for column, value in zip(key, values, strict=False):
        bound, array = pa.scalar(value, types.arrow(column.type)), batch.column(column.name)
        less = pc.or_(less, pc.and_(equal, pc.less(array, bound)))
        equal = pc.and_(equal, pc.equal(array, bound))
    return {"prefix": equal, "start": pc.invert(less), "stop": less}[side]
