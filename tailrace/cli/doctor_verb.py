"""The verb `doctor`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from tailrace import terminal
from tailrace.cli.verb import Json

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    directory: Annotated[
        str | None,
        typer.Argument(metavar="STORE", help="Directory or URL of a store to check, too.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check whether Tailrace can work here: Python, Java, memory, limits, and (with STORE) a store.

    Every line is ok, warn or fail, with what to do. Does not start Spark.
    Exits with 1 if a check fails.

    Example:
      tailrace doctor
      tailrace doctor shop
      tailrace doctor shop --json
      tailrace doctor hbase://127.0.0.1:9090/shop
    """
    from tailrace.doctor.machine import check_machine
    from tailrace.doctor.storage import check_storage

    findings = [*check_machine(), *(check_storage(directory) if directory is not None else ())]
    if as_json:
        terminal.print_json([asdict(finding) for finding in findings])
    else:
        rows = [(Text(f.level, style=_STYLES[f.level]), f.check, f.found, f.advice) for f in findings]
        columns = 4 if any(f.advice for f in findings) else 3
        terminal.print_table(["", "check", "found", "what to do"][:columns], (row[:columns] for row in rows))
    if any(finding.level == "fail" for finding in findings):
        raise typer.Exit(1)
