"""Output of the command line: tables, JSON and progress bars. Output to a pipe or file is plain and never cut."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from tailrace.codec import text
from tailrace.words import count

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.status import Status

MAX_TABLE_ROWS = 1_000  # a table on the terminal shows at most this many rows
_PIPE_WIDTH = 10_000  # columns; wide enough that nothing is cut or wrapped in a pipe


def console(*, stderr: bool = False) -> Console:
    terminal = Console(stderr=stderr, highlight=False, soft_wrap=False)
    return terminal if terminal.is_terminal else Console(stderr=stderr, highlight=False, width=_PIPE_WIDTH)


def print_markup(message: str) -> None:
    console().print(Text.from_markup(message))


def print_json(value: Any) -> None:
    print(text.to_json(value, indent=2))


def print_line(value: Any) -> None:
    """Prints `value` as one line of JSON and flushes, so that a reader of the pipe sees it at once."""
    print(text.to_json(value), flush=True)


def iterate_rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    for batch in table.to_batches():
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def print_rows(table: pa.Table, *, as_json: bool) -> None:
    """Prints rows as a JSON array with one object per line, or as a table."""
    names = table.schema.names
    if as_json:
        separator = "["
        for row in iterate_rows(table):
            print(separator, text.to_json(dict(zip(names, row, strict=True))), sep="", end="")
            separator = ",\n "
        print("]" if table.num_rows else "[]")
        return
    shown_rows = iterate_rows(table.slice(0, MAX_TABLE_ROWS))
    print_table(names, (map(text.format_cell, row) for row in shown_rows), _numeric_columns(table.schema))
    if table.num_rows > MAX_TABLE_ROWS:
        print_markup(f"[dim]first {MAX_TABLE_ROWS:,} of {count(table.num_rows, 'row')}; --json prints all[/dim]")


def _numeric_columns(schema: pa.Schema) -> list[bool]:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return [any(test(field.type) for test in tests) for field in schema]


def print_table(names: Sequence[str], rows: Any, right: Sequence[bool] | None = None) -> None:
    """Prints a table; `right` marks the right-aligned columns."""
    console().print(grid(names, rows, right))


def print_fitting_table(
    names: Sequence[str],
    rows: Sequence[Sequence[Any]],
    right: Sequence[bool],
    *,
    lists: Set[str],
    optional: Sequence[str],
) -> None:
    """Prints a table that fits the terminal and breaks no name.

    Cells of the columns `lists` may be wrapped between their items. If that is not enough, some of the `optional`
    columns are left out, the first ones rather than the last ones, and a line below the table names them.
    """
    out = console()
    kept, widths = _fit(names, rows, out.width, lists, optional)
    chosen = [[row[i] for i in kept] for row in rows]
    table = grid([names[i] for i in kept], chosen, [right[i] for i in kept])
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width
    out.print(table)
    if len(kept) < len(names):
        hidden = ", ".join(name for i, name in enumerate(names) if i not in kept)
        print_markup(f"[dim]not shown in {out.width} columns: {hidden}; a wider terminal or --json shows all[/dim]")


def _fit(
    names: Sequence[str], rows: Sequence[Sequence[Any]], width: int, lists: Set[str], optional: Sequence[str]
) -> tuple[list[int], Sequence[int | None]]:
    """The positions of the columns that fit, and their widths. None lets Rich choose one: not even the rest fits."""
    cells = [[name, *(str(row[i]) for row in rows)] for i, name in enumerate(names)]
    widest = [max(map(cell_len, column)) for column in cells]
    least = [
        max(cell_len(word) for cell in cells[i] for word in cell.split()) if name in lists else widest[i]
        for i, name in enumerate(names)
    ]
    kept = [i for i, name in enumerate(names) if name not in optional]
    spare = width - sum(least[i] + 3 for i in kept) - 1  # 3: a border and padding
    if spare < 0:
        return kept, [None] * len(kept)
    for i in (names.index(name) for name in reversed(optional)):
        if least[i] + 3 <= spare:
            kept = sorted([*kept, i])
            spare -= least[i] + 3
    widths = []
    for i in kept:
        more = min(widest[i] - least[i], spare)
        widths.append(least[i] + more)
        spare -= more
    return kept, widths


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
        print_table(["column", "value"], ((name, text.format_cell(value)) for name, value in row.items()))


def progress_bar() -> Progress:
    """A progress bar on stderr; invisible if stderr is not a terminal."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    out = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    return Progress(*columns, console=out, transient=True, disable=not out.is_terminal)


def step_reporter(status: Status) -> Callable[[object], None]:
    """Returns a progress callback that reports on stderr.

    On a terminal it updates one status line. Elsewhere it prints one line for each step that has a row count.
    """

    def report(step: object) -> None:
        status.update(str(step))
        if not status.console.is_terminal and getattr(step, "rows", None) is not None:
            print(step, file=sys.stderr, flush=True)

    return report


def verdict(ok: bool) -> Text:
    return Text("ok", style="green") if ok else Text("DIFFERS", style="bold red")
