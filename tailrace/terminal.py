"""Tables, JSON and progress bars for the terminal; plain and whole when the output goes elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.status import Status
from rich.table import Table as Grid
from rich.text import Text

from tailrace.codec import text

SHOWN = 1_000  # rows of a table for people
_WIDE = 10_000  # a pipe has no width: nothing is cut or wrapped


def console(*, stderr: bool = False) -> Console:
    found = Console(stderr=stderr, highlight=False, soft_wrap=False)
    return found if found.is_terminal else Console(stderr=stderr, highlight=False, width=_WIDE)


def say(message: str) -> None:
    console().print(Text.from_markup(message))


def print_json(value: Any) -> None:
    print(text.to_json(value, indent=2))


def print_line(value: Any) -> None:
    """One line of JSON lines, at once."""
    print(text.to_json(value), flush=True)


def records(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    for batch in table.to_batches():
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def print_rows(table: pa.Table, *, as_json: bool) -> None:
    """Rows, as a JSON array with one object a line, or as a table for people."""
    names = table.schema.names
    if as_json:
        before = "["
        for row in records(table):
            print(before, text.to_json(dict(zip(names, row, strict=True))), sep="", end="")
            before = ",\n "
        print("]" if table.num_rows else "[]")
        return
    show(names, (map(text.format_cell, row) for row in records(table.slice(0, SHOWN))), _numbers(table.schema))
    if table.num_rows > SHOWN:
        say(f"[dim]the first {SHOWN:,} of {table.num_rows:,} rows; --json prints all[/dim]")


def _numbers(schema: pa.Schema) -> list[bool]:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return [any(test(field.type) for test in tests) for field in schema]


def show(names: Sequence[str], rows: Any, right: Sequence[bool] | None = None) -> None:
    """A table for people; `right` says which columns are flushed right."""
    out = console()
    out.print(grid(names, rows, right))


def grid(names: Sequence[str], rows: Any, right: Sequence[bool] | None = None, title: str | None = None) -> Grid:
    table = Grid(title=title, title_justify="left", header_style="bold", title_style="bold")
    for number, name in enumerate(names):
        justify = "right" if right and right[number] else "left"
        table.add_column(Text(name), justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    return table


def print_row(row: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(row)
    else:
        show(["column", "value"], ((name, text.format_cell(value)) for name, value in row.items()))


def bar() -> Progress:
    """A progress bar on stderr, if that is a terminal."""
    out = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    return Progress(*columns, console=out, transient=True, disable=not out.is_terminal)


def teller(status: Status) -> Callable[[object], None]:
    """Tells steps on stderr: on a terminal as one line that changes, elsewhere a line for each step with a count."""

    def tell(step: object) -> None:
        status.update(str(step))
        if not status.console.is_terminal and getattr(step, "rows", None) is not None:
            print(step, file=sys.stderr, flush=True)

    return tell


def verdict(ok: bool) -> Text:
    return Text("ok", style="green") if ok else Text("DIFFERS", style="bold red")
