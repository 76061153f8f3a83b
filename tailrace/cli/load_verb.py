"""The verb `load`: CSV, JSON lines and Parquet files into a table."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from tailrace import terminal
from tailrace.cli.row_verbs import TableName
from tailrace.cli.verb import Dir, Json, open_store, usage_error
from tailrace.errors import BadFile
from tailrace.words import count

STDIN = Path("-")


def load(
    directory: Dir,
    table: TableName,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files to load; - is stdin.", show_default=False)],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="File format: csv, tsv, jsonl or parquet.",
            show_default="from the file name, jsonl for stdin",
        ),
    ] = None,
    delimiter: Annotated[str, typer.Option(help="CSV: field separator, one character.")] = ",",
    no_header: Annotated[
        bool,
        typer.Option(
            "--no-header", help="CSV: the file has no header line; its fields are the table's columns in order."
        ),
    ] = False,
    null: Annotated[str, typer.Option(help="CSV: unquoted text that means NULL.", show_default="empty text")] = "",
    as_json: Json = False,
) -> None:
    """Load CSV, JSON lines or Parquet files into a table.

    All files are checked first. If a line is invalid, the error names the line and nothing is loaded.
    A row replaces an existing row with the same key, so an interrupted load can simply be repeated.
    It reads what `scan --json` prints. In CSV files, arrays, maps and structs are JSON text.

    Example:
      tailrace load shop orders orders.csv
      tailrace load shop orders part1.parquet part2.parquet
      tailrace load shop orders dump.txt --format csv --delimiter '|' --no-header
      tailrace scan shop orders --json | tailrace load copy orders -
    """
    from tailrace import loading

    if format_ is not None and format_ not in loading.FORMATS:
        raise usage_error(f"--format must be one of {', '.join(loading.FORMATS)}")
    if len(delimiter.encode()) != 1:
        raise usage_error("--delimiter must be a single ASCII character")
    options = loading.Options(format_, delimiter, not no_header, null)
    started = time.monotonic()
    with open_store(directory) as db, _with_stdin(files) as paths, terminal.progress_bar() as progress:
        task = progress.add_task("checking", total=1.0)

        def report(step: loading.Step) -> None:
            progress.update(task, description=f"{step.phase} {count(step.rows, 'row')}", completed=step.done)

        rows = loading.load(db.table(table), paths, options, report)
    seconds = time.monotonic() - started
    if as_json:
        terminal.print_json({"table": table, "rows": rows, "files": len(files), "seconds": round(seconds, 3)})
    else:
        print(f"loaded {count(rows, 'row')} into {table} in {seconds:.1f} s")


@contextmanager
def _with_stdin(files: Sequence[Path]) -> Iterator[list[Path]]:
    """The files, with stdin as a temporary file: a load reads its files twice."""
    if STDIN not in files:
        yield list(files)
        return
    with tempfile.TemporaryDirectory(prefix="tailrace-") as directory:
        spooled = Path(directory) / "stdin.jsonl"
        with spooled.open("wb") as out:
            shutil.copyfileobj(sys.stdin.buffer, out)
        try:
            yield [spooled if file == STDIN else file for file in files]
        except BadFile as error:
            if error.path != str(spooled):
                raise
            raise BadFile(**{**error.data, "path": "stdin"}) from None
