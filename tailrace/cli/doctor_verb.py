"""The verb `doctor`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from tailrace import terminal
from tailrace.cli.verb import Json

if TYPE_CHECKING:
    from tailrace.doctor.finding import Finding

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
    For a store on HBase, it includes `tailrace hbase check`.
    Exits with 1 if a check fails.

    Example:
      tailrace doctor
      tailrace doctor shop
      tailrace doctor hbase://gateway:9090/shop --json
    """
    from tailrace.doctor.machine import check_machine
    from tailrace.doctor.storage import check_storage

    report([*check_machine(), *(check_storage(directory) if directory is not None else ())], as_json)


def report(findings: list[Finding], as_json: bool) -> None:
    """Prints findings. Ends the verb with 1 if one of them is a fail."""
    if as_json:
        terminal.print_json([asdict(finding) for finding in findings])
    else:
        rows = [(Text(f.level, style=_STYLES[f.level]), f.check, f.found, f.advice) for f in findings]
        columns = 4 if any(f.advice for f in findings) else 3
        terminal.print_table(["", "check", "found", "what to do"][:columns], (row[:columns] for row in rows))
    if any(finding.level == "fail" for finding in findings):
        raise typer.Exit(1)
