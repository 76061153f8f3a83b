"""The verb `audit`: find damage in a store, and repair it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tailrace import terminal
from tailrace.cli.verb import Dir, Json, open_store, usage_error
from tailrace.codec import text
from tailrace.database.database import Database
from tailrace.errors import BadKey
from tailrace.verify.audit.findings import AuditReport, Finding
from tailrace.words import count


def audit(
    directory: Dir,
    views: Annotated[
        list[str] | None,
        typer.Argument(metavar="VIEW", help="Views to audit; all by default.", show_default=False),
    ] = None,
    sample: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Compare only this fraction of the keys (0 to 1), the same keys each time.",
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="KEY", help="Compare only keys greater than or equal to this one.", show_default=False
        ),
    ] = None,
    stop: Annotated[
        str | None,
        typer.Option("--to", metavar="KEY", help="Compare only keys less than this one.", show_default=False),
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Repair the damage in one epoch, then audit again.")] = False,
    as_json: Json = False,
) -> None:
    """Find damage in views, their internal states, logs and undo records. With --repair, repair it.

    Recomputes the views at their cut, and compares their rows and internal states.
    With --sample, --from or --to it compares rows only.
    Writers, epochs and readers continue meanwhile.
    Of a view that has failed it compares the rows, at the last epoch that the view shows.
    Exits with 1 if it finds damage (with --repair: if damage remains).

    Example:
      tailrace audit shop
      tailrace audit shop spend --sample 0.01
      tailrace audit shop spend --from 100 --to 200
      tailrace audit shop --repair
    """
    if (start is not None or stop is not None) and len(views or ()) != 1:
        raise usage_error("--from and --to need exactly one view")
    with open_store(directory) as db, terminal.console(stderr=True).status("auditing") as status:
        bounds = _key_bounds(db, views, {"start": start, "stop": stop})
        report = db.audit(views, sample=sample, **bounds, repair=repair, progress=terminal.step_reporter(status))
    if as_json:
        terminal.print_json(report.to_dict())
    else:
        _print_report(report)
    if not report.ok:
        raise typer.Exit(1)


def _key_bounds(db: Database, views: list[str] | None, options: dict[str, str | None]) -> dict[str, Any]:
    bounds = {}
    for side, key in options.items():
        if key is not None and views:
            view = db.view(views[0])
            if view.key is None:
                reason = "the view has no key, so it has no key ranges; omit --from and --to"
                raise BadKey(name=view.name, columns="none", reason=reason)
            columns = [c for name in view.key or () for c in view.columns if c.name == name]
            bounds[side] = text.key_of(view.name, columns, [key], prefix=True)
    return bounds


def _print_report(report: AuditReport) -> None:
    for finding in report.repaired:
        print(f"repaired: {finding}")
    if report.findings:
        rows = ((f.where, f.damage, f"{f.count:,}", f.advice) for f in report.findings)
        terminal.print_table(["where", "damage", "count", "what to do"], rows, [False, False, True, False])
    for finding in report.findings:
        _print_examples(finding)
    if report.ok:
        view_rows = f"{count(report.rows, 'row')} of {count(len(report.views), 'view')}"
        audited = f"{view_rows} and {count(report.entries, 'state entry', 'state entries')}"
        print(f"no damage found: audited {audited} at epoch {report.epoch} in {report.seconds:.1f} s")
    for name, epoch in report.behind.items():
        print(f"{name}: has failed; only its rows were audited, at epoch {epoch}, which it shows")
    for name in report.skipped:
        print(f"{name}: has failed; not audited, because the log of the epoch that it shows is gone")


def _print_examples(finding: Finding) -> None:
    if finding.examples:
        print(f"{finding}. Examples:")
        for example in finding.examples:
            print(f"  {example}")
