"""load."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from tailrace import terminal
from tailrace.cli.row_verbs import TableName
from tailrace.cli.verb import Dir, Json, opened, usage


def load(
    directory: Dir,
    table: TableName,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="The files.", show_default=False)],
    format_: Annotated[
        str | None,
        typer.Option("--format", help="csv, tsv, jsonl or parquet.", show_default="by the file's name"),
    ] = None,
    delimiter: Annotated[str, typer.Option(help="CSV: the character between fields.")] = ",",
    no_header: Annotated[
        bool,
        typer.Option("--no-header", help="CSV: no line of names; the columns are the table's, in order."),
    ] = False,
    null: Annotated[str, typer.Option(help="CSV: the unquoted text that is NULL.", show_default="nothing")] = "",
    as_json: Json = False,
) -> None:
    """Load CSV, JSON lines or Parquet files into a table.

    Files are checked as a whole first: when a line is broken, the error names it and nothing is loaded.
    Rows with a key that is there replace what was under it, so a load that was cut off can be done again.

    Example:
      tailrace load shop orders orders.csv
      tailrace load shop orders part1.parquet part2.parquet
      tailrace load shop orders dump.txt --format csv --delimiter '|' --no-header
    """
    from tailrace import loading

    if format_ is not None and format_ not in loading.FORMATS:
        raise usage(f"--format is one of {', '.join(loading.FORMATS)}")
    if len(delimiter.encode()) != 1:
        raise usage("--delimiter is one character")
    options = loading.Options(format_, delimiter, not no_header, null)
    began = time.monotonic()
    with opened(directory) as db, terminal.bar() as progress:
        task = progress.add_task("checking", total=1.0)

        def tell(step: loading.Step) -> None:
            progress.update(task, description=f"{step.phase} {step.rows:,} rows", completed=step.done)

        rows = loading.load(db.table(table), files, options, tell)
    seconds = time.monotonic() - began
    if as_json:
        terminal.print_json({"table": table, "rows": rows, "files": len(files), "seconds": round(seconds, 3)})
    else:
        print(f"{rows:,} rows loaded into {table} in {seconds:.1f} s")
