"""The verbs `init`, `sql`, `explain` and `status`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

import tailrace
from tailrace import terminal
from tailrace.cli.verb import Dir, Json, open_store, usage_error
from tailrace.database.status import Status
from tailrace.errors import StoreError


def init(
    directory: Dir,
    nodes: Annotated[int, typer.Option(min=1, help="Number of parts of each table; every part has its own log.")] = 2,
    shards: Annotated[
        int | None,
        typer.Option(min=1, help="Number of parts of each view; a multiple of --nodes.", show_default="2 x nodes"),
    ] = None,
    relaxed: Annotated[
        bool,
        typer.Option(
            "--relaxed", help="Do not sync each write to disk: faster, but a power failure may damage the store."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Create a new, empty store in a directory.

    Example:
      tailrace init shop
    """
    if (directory / "store.json").exists():
        raise StoreError(message=f"{directory} is already a Tailrace store", path=str(directory))
    with tailrace.open(directory, create=True, nodes=nodes, shards=shards, durable=not relaxed) as db:
        if as_json:
            terminal.print_json(
                {"path": db.path, "nodes": nodes, "shards": shards or 2 * nodes, "durable": not relaxed}
            )
        else:
            print(f"created a store in {directory}")


def sql(
    directory: Dir,
    statements: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="SQL statements, separated by `;`.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read the statements from this file.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Run SQL statements: create, drop, describe, list and query tables and views.

    The text comes from the argument, from a file, or from stdin.
    A query sees all tables and views at one cut, that of the committed epoch.
    Only the result of the last statement is printed.

    Example:
      tailrace sql shop "CREATE TABLE orders (id BIGINT PRIMARY KEY, cust BIGINT, price DECIMAL(12,2))"
      tailrace sql shop "CREATE MATERIALIZED VIEW spend AS SELECT cust, SUM(price) FROM orders GROUP BY cust"
      tailrace sql shop -f schema.sql
    """
    sql_text = _read_statements(statements, file)
    errors = terminal.console(stderr=True)
    with open_store(directory) as db, errors.status("working") as status:
        try:
            result = db.sql(sql_text, progress=terminal.step_reporter(status))
        except KeyboardInterrupt:
            status.stop()
            for build in db.status().building:
                print(_describe_build(build), file=sys.stderr)
            raise typer.Exit(130) from None
    if result is not None:
        terminal.print_rows(result, as_json=as_json)
    elif as_json:
        print("null")


def _read_statements(argument: str | None, file: Path | None) -> str:
    if argument is not None and file is not None:
        raise usage_error("give either statements or --file, not both")
    if argument is not None:
        return argument
    if file is not None:
        return file.read_text()
    if sys.stdin.isatty():
        raise usage_error("no statements: give them as an argument, with --file, or on stdin")
    return sys.stdin.read()


def explain(
    directory: Dir,
    view: Annotated[str, typer.Argument(metavar="VIEW", help="Name of the view.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Show how a view is maintained: its operators, zones and arrangements, and the views that share them.

    Example:
      tailrace explain shop spend
    """
    with open_store(directory) as db:
        if as_json:
            terminal.print_json(db.explain(view, json=True))
        else:
            print(db.explain(view))


def status(directory: Dir, as_json: Json = False) -> None:
    """Show the tables and views, the committed epoch, and how far the views lag behind the tables.

    Example:
      tailrace status shop
    """
    with open_store(directory) as db:
        current = db.status()
    if as_json:
        terminal.print_json(current.to_dict())
    else:
        _print_status(current)


def _print_status(status: Status) -> None:
    lag = "views are up to date"
    if status.lag_operations:
        lag = f"views are {status.lag_operations:,} operations and {status.lag_seconds:,.1f} s behind"
    print(f"{status.path}: epoch {status.epoch}, {lag}")
    if runner := status.runner:
        print(f"epochs are run by process {runner['pid']} ({runner['command']}, since {runner['since']})")
    else:
        print("no process runs epochs")
    if status.delay:
        print(f"writers are throttled: each write waits up to {status.delay:,.2f} s (max_lag is {status.max_lag:,})")
    for pin in status.pins:
        age = time.time() - pin["at"]
        print(f"epoch {pin['epoch']} has been pinned by process {pin['pid']} for {age:,.1f} s")
    rows = []
    for kind, relations in (("table", status.tables), ("view", status.views)):
        for entry in relations:
            key = "none" if entry["key"] is None else ", ".join(entry["key"]) or "(one row)"
            columns = ", ".join(f"{name} {type_.upper()}" for name, type_ in entry["columns"].items())
            rows.append((kind, entry["name"], key, columns, ", ".join(entry.get("uses", ())), entry.get("refresh", "")))
    terminal.print_table(["kind", "name", "key", "columns", "reads", "refresh"], rows)
    for build in status.building:
        print(_describe_build(build))
    for view in status.views:
        if last := view["refreshed"]:
            print(f"{view['name']}: {last['taken']} in epoch {last['epoch']}: {last['reason']}")


def _describe_build(build: dict[str, Any]) -> str:
    name = build["name"]
    if build["failed"]:
        return f"{name}: build failed: {build['failed']}"
    what = "new definition being built" if build["replaces"] else "being built"
    worker = f"by process {build['pid']}" if build["pid"] else "paused; `refresh` or `run` continues it"
    retry = f"; will be retried after this failure: {build['failures'][-1]}" if build["failures"] else ""
    return f"{name}: {what}, {build['rows']:,} of {build['total']:,} rows, {worker}{retry}"
