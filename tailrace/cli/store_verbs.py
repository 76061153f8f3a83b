"""The verbs `init`, `sql` and `explain`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import tailrace
from tailrace import terminal
from tailrace.cli.status_verb import describe_build
from tailrace.cli.verb import Dir, Json, open_store, usage_error
from tailrace.codec import text
from tailrace.errors import DataError, SqlError, StoreError, TailraceError
from tailrace.store.store_ref import StoreRef

if TYPE_CHECKING:
    from tailrace.database.outcome import Outcome


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
    if StoreRef.of(directory).exists:
        raise StoreError(message=f"{directory} is already a Tailrace store", path=directory)
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
        str | None,
        typer.Option(
            "--file", "-f", metavar="FILE", help="Read the statements from this file (- is stdin).", show_default=False
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Before a query of views, bring the views up to date with the tables.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run SQL statements: create, drop, describe, list and query tables and views.

    The text comes from the argument, from a file, or from stdin. The result of every statement is printed,
    with --json as one document after another.
    At the first error the command stops, and says which statements were done before.

    A query sees all its tables and views at one cut. Without views that is the newest one.
    With views it is that of the committed epoch; a line on stderr says how far it is behind the tables.
    A view that has failed shows an earlier epoch, and the line says so; with --fresh it is an error.

    Example:
      tailrace sql shop "CREATE TABLE orders (id INT PRIMARY KEY, cust INT)"
      tailrace sql shop "CREATE MATERIALIZED VIEW ids AS SELECT id FROM orders"
      tailrace sql shop "SELECT count(*) FROM ids" --fresh
      tailrace sql shop -f schema.sql --memory 4g
    """
    script, name = _read_statements(statements, file)
    done: list[Outcome] = []
    with open_store(directory) as db, terminal.console(stderr=True).status("working") as status:
        try:
            for outcome in db.statements(script, terminal.step_reporter(status), fresh=fresh):
                status.stop()
                _print_outcome(outcome, as_json)
                done.append(outcome)
                status.start()
        except KeyboardInterrupt:
            status.stop()
            for build in db.status().building:
                print(describe_build(build), file=sys.stderr)
            raise
        except TailraceError as error:
            status.stop()
            raise _placed(error, name, done) from None


def _read_statements(argument: str | None, file: str | None) -> tuple[str, str | None]:
    """The statements, and the name of their file, if it has one."""
    if argument is not None and file is not None:
        raise usage_error("give either statements or --file, not both")
    if argument is not None:
        return argument, None
    if file is None and sys.stdin.isatty():
        raise usage_error("no statements: give them as an argument, with --file, or on stdin")
    try:
        if file is not None and file != "-":
            return Path(file).read_text(encoding="utf-8"), file
        return sys.stdin.read(), None
    except OSError as error:
        message = f"{file or 'stdin'} cannot be read: {error.strerror}; nothing was executed"
        raise DataError(message=message) from None
    except UnicodeDecodeError as error:
        message = f"{file or 'stdin'} is not text in UTF-8 (byte {error.start + 1}); nothing was executed"
        raise DataError(message=message) from None


def _print_outcome(outcome: Outcome, as_json: bool) -> None:
    if outcome.rows is not None:
        terminal.print_rows(outcome.rows, as_json=as_json)
    elif as_json:
        terminal.print_line({"done": outcome.message})
    else:
        print(outcome.message)
    if (freshness := outcome.freshness) is not None:
        advice = "; --fresh brings them up to date first" if freshness.lag_operations and not freshness.failed else ""
        print(text.to_json(asdict(freshness)) if as_json else f"{freshness}{advice}", file=sys.stderr, flush=True)


def _placed(error: TailraceError, name: str | None, done: list[Outcome]) -> TailraceError:
    """The error with the name of the file, and with the statements that were done before it."""
    if name is not None and isinstance(error, SqlError):
        error = type(error)(**error.data, file=name)
    if done:
        statements = [f"{o.statement} (line {o.line})" for o in done]
        error.data["done"] = statements
        error.args = (f"{error.args[0]}. Done before: {', '.join(statements)}",)
    return error


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
