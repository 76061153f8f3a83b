"""audit."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tailrace import terminal
from tailrace.cli.verb import Dir, Json, opened, usage
from tailrace.codec import text
from tailrace.database.database import Database
from tailrace.verify.audit.findings import AuditReport, Finding


def audit(
    directory: Dir,
    views: Annotated[
        list[str] | None,
        typer.Argument(metavar="VIEW", help="Views; all by default.", show_default=False),
    ] = None,
    sample: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Only this share of the keys, always the same ones.", show_default=False),
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="KEY", help="Only keys from this one on.", show_default=False)
    ] = None,
    stop: Annotated[
        str | None, typer.Option("--to", metavar="KEY", help="Only keys before this one.", show_default=False)
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Mend what is found, in one epoch.")] = False,
    as_json: Json = False,
) -> None:
    """Look for damage: views, the states behind them, logs, undo records; and mend it.

    Views are recomputed at their cut while writers, epochs and readers go on. Of a sample or a range of keys only the
    rows are compared, of whole views all internal states too. Exits with 1 if anything is wrong (with --repair: if
    anything is left).

    Example:
      tailrace audit shop
      tailrace audit shop spend --sample 0.01
      tailrace audit shop spend --from 100 --to 200
      tailrace audit shop --repair
    """
    if (start is not None or stop is not None) and len(views or ()) != 1:
        raise usage("--from and --to go with one view")
    with opened(directory) as db, terminal.console(stderr=True).status("auditing") as status:
        bounds = _bounds(db, views, {"start": start, "stop": stop})
        report = db.audit(views, sample=sample, **bounds, repair=repair, progress=terminal.teller(status))
    if as_json:
        terminal.print_json(report.to_dict())
    else:
        _print(report)
    if not report.ok:
        raise typer.Exit(1)


def _bounds(db: Database, views: list[str] | None, given: dict[str, str | None]) -> dict[str, Any]:
    found = {}
    for side, key in given.items():
        if key is not None and views:
            view = db.view(views[0])
            columns = [c for name in view.key or () for c in view.columns if c.name == name]
            found[side] = text.key_of(view.name, columns, [key], prefix=True)
    return found


def _print(report: AuditReport) -> None:
    for finding in report.repaired:
        print(f"mended: {finding}")
    if report.findings:
        rows = ((f.where, f.kind, f"{f.count:,}", f.advice) for f in report.findings)
        terminal.show(["where", "what", "count", "what to do"], rows, [False, False, True, False])
    for finding in report.findings:
        _print_examples(finding)
    if report.ok:
        audited = f"{report.rows:,} rows of {len(report.views)} views and {report.entries:,} entries of states"
        print(f"nothing wrong: {audited}, at epoch {report.epoch}, in {report.seconds:.1f} s")


def _print_examples(finding: Finding) -> None:
    if finding.examples:
        print(f"{finding}, for example")
        for example in finding.examples:
            print(f"  {example}")
