"""init, sql, explain, status."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

import tailrace
from tailrace import terminal
from tailrace.cli.verb import Dir, Json, opened, usage
from tailrace.database.status import Status
from tailrace.errors import StoreError


def init(
    directory: Dir,
    nodes: Annotated[int, typer.Option(min=1, help="Parts that tables are cut into, each with its own log.")] = 2,
    shards: Annotated[
        int | None,
        typer.Option(min=1, help="Slices of views; a multiple of nodes.", show_default="2 x nodes"),
    ] = None,
    relaxed: Annotated[
        bool,
        typer.Option("--relaxed", help="Do not wait for the disk at each write: a power cut may lose some."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a new, empty store in a directory.

    Example:
      tailrace init shop
    """
    if (directory / "store.json").exists():
        raise StoreError(message=f"{directory} is a Tailrace store already", path=str(directory))
    with tailrace.open(directory, nodes=nodes, shards=shards, durable=not relaxed) as db:
        if as_json:
            terminal.print_json(
                {"path": db.path, "nodes": nodes, "shards": shards or 2 * nodes, "durable": not relaxed}
            )
        else:
            print(f"made a store in {directory}")


def sql(
    directory: Dir,
    statements: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="Statements; `;` between them.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read them from a file.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Run SQL: create and drop tables and views, describe and show them, and query both.

    The text comes from the argument, from a file, or from stdin. Queries see tables and views at one cut:
    the committed epoch.

    Example:
      tailrace sql shop "CREATE TABLE orders (id BIGINT PRIMARY KEY, cust BIGINT, price DECIMAL(12,2))"
      tailrace sql shop "CREATE MATERIALIZED VIEW spend AS SELECT cust, SUM(price) FROM orders GROUP BY cust"
      tailrace sql shop -f schema.sql
    """
    found = _statements(statements, file)
    errors = terminal.console(stderr=True)
    with opened(directory) as db, errors.status("working") as status:
        try:
            result = db.sql(found, progress=terminal.teller(status))
        except KeyboardInterrupt:
            status.stop()
            for build in db.status().building:
                print(_building(build), file=sys.stderr)
            raise typer.Exit(130) from None
    if result is not None:
        terminal.print_rows(result, as_json=as_json)
    elif as_json:
        print("null")


def _statements(given: str | None, file: Path | None) -> str:
    if given is not None and file is not None:
        raise usage("give the text or a file, not both")
    if given is not None:
        return given
    if file is not None:
        return file.read_text()
    if sys.stdin.isatty():
        raise usage("give statements as an argument, with --file, or on stdin")
    return sys.stdin.read()


def explain(
    directory: Dir,
    view: Annotated[str, typer.Argument(metavar="VIEW", help="The view.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Show how a view is maintained: operators, zones, arrangements, and which views share them.

    Example:
      tailrace explain shop spend
    """
    with opened(directory) as db:
        if as_json:
            terminal.print_json(db.explain(view, json=True))
        else:
            print(db.explain(view))


def status(directory: Dir, as_json: Json = False) -> None:
    """Show tables, views, the committed epoch, and how far the views are behind the tables.

    Example:
      tailrace status shop
    """
    with opened(directory) as db:
        found = db.status()
    if as_json:
        terminal.print_json(found.to_dict())
    else:
        _print_status(found)


def _print_status(found: Status) -> None:
    lag = "views are up to date"
    if found.lag_operations:
        lag = f"views are {found.lag_operations:,} operations and {found.lag_seconds:,.1f} s behind"
    print(f"{found.path}: epoch {found.epoch}, {lag}")
    if runs := found.runner:
        print(f"epochs are run by process {runs['pid']} ({runs['command']}, since {runs['since']})")
    else:
        print("nobody runs epochs")
    if found.delay:
        print(f"writers are slowed: each write waits up to {found.delay:,.2f} s (max_lag is {found.max_lag:,})")
    for pin in found.pins:
        age = time.time() - pin["at"]
        print(f"epoch {pin['epoch']} is kept for process {pin['pid']}, for {age:,.1f} s now")
    rows = []
    for kind, listed in (("table", found.tables), ("view", found.views)):
        for entry in listed:
            key = "none" if entry["key"] is None else ", ".join(entry["key"]) or "(one row)"
            columns = ", ".join(f"{name} {type_.upper()}" for name, type_ in entry["columns"].items())
            rows.append((kind, entry["name"], key, columns, ", ".join(entry.get("uses", ())), entry.get("refresh", "")))
    terminal.show(["kind", "name", "key", "columns", "reads", "refresh"], rows)
    for build in found.building:
        print(_building(build))
    for view in found.views:
        if last := view["refreshed"]:
            print(f"{view['name']}: {last['taken']} in epoch {last['epoch']}: {last['reason']}")


def _building(build: dict[str, Any]) -> str:
    what = f"{build['name']}: {'its new definition is ' if build['replaces'] else ''}being built"
    if build["failed"]:
        return f"{build['name']}: could not be built: {build['failed']}"
    by = f"by process {build['pid']}" if build["pid"] else "by nobody now; refresh or run goes on with it"
    again = f"; to be tried again after: {build['failures'][-1]}" if build["failures"] else ""
    return f"{what}, {build['rows']:,} of {build['total']:,} rows, {by}{again}"
