"""The verbs `refresh`, `run`, `resume` and `verify`."""

from __future__ import annotations

import signal
import sys
import time
from typing import Annotated, Any

import typer

from tailrace import terminal
from tailrace.cli.interrupts import INTERRUPTED
from tailrace.cli.verb import Dir, Json, open_store
from tailrace.database.database import Database
from tailrace.epochs.model import Epoch
from tailrace.errors import ViewFailed
from tailrace.events import describe_epoch
from tailrace.verify.report import Report


def refresh(directory: Dir, as_json: Json = False) -> None:
    """Update every view with everything written so far, and finish interrupted builds.

    A view that fails is left out, and others go on. Exits with 1 if a view has failed.

    Example:
      tailrace refresh shop
    """
    with open_store(directory) as db, terminal.console(stderr=True).status("refreshing") as status:
        epoch = db.refresh(building=terminal.step_reporter(status))
        failed = _failed_views(db)
    if as_json:
        terminal.print_json(_epoch_to_json(epoch))
    elif epoch.operations:
        print(describe_epoch(epoch))
    else:
        print(f"epoch {epoch.number}: views are already up to date")
    _end_with_failures(failed)


def _failed_views(db: Database) -> dict[str, str]:
    """The failed views, each with its message and when it is tried again."""
    failed = {v["name"]: v["failed"] for v in db.status().views if v["failed"]}
    return {name: f"{f['message']}; {f['next_step']}" for name, f in failed.items()}


def _end_with_failures(failed: dict[str, str]) -> None:
    """Prints failed views, and ends with exit code 1 if there are any."""
    for name, message in failed.items():
        print(f"view {name} has failed: {message}", file=sys.stderr)
    if failed:
        raise typer.Exit(1)


def resume(
    directory: Dir,
    view: Annotated[str, typer.Argument(metavar="VIEW", help="Name of the view.", show_default=False)],
) -> None:
    """Try a failed view again now, for example after the machine got more memory.

    A failed view also recovers by itself, as soon as the row that it fails on is corrected or deleted.
    Exits with 1 if it fails again.

    Example:
      tailrace resume shop spend
    """
    with open_store(directory) as db:
        was_failed = db.view(view).failure is not None
        db.resume(view)
    print(f"view {view} is up to date again" if was_failed else f"view {view} has not failed")


def _epoch_to_json(epoch: Epoch) -> dict[str, Any]:
    return {
        "number": epoch.number,
        "operations": epoch.operations,
        "seconds": round(epoch.seconds, 6),
        "rate": round(epoch.rate, 1),
        "view_rows": epoch.view_rows,
        "views": epoch.views,
        "refreshed": {name: {"taken": w.taken, "reason": w.reason} for name, w in sorted(epoch.refreshed.items())},
        "cut": epoch.cut._asdict(),
        "failed": {name: failed.message for name, failed in sorted(epoch.failed.items())},
        "recovered": list(epoch.recovered),
    }


def run(
    directory: Dir,
    interval: Annotated[float, typer.Option(min=0, help="Seconds to wait between two epochs.")] = 0.2,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Stop when the views include everything written so far.")
    ] = False,
    max_lag: Annotated[
        int | None,
        typer.Option(
            min=1, help="Throttle writers when views lag by more than this many operations.", show_default="unchanged"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Keep every view up to date: run epochs until SIGINT or SIGTERM.

    Prints what it watches, then one line for each epoch and each step of a build, with the time.
    --json is the same as --log-format json. The first signal ends it after the current epoch, a second one at once.

    A view that fails is left out, and others go on.
    With --until-caught-up, exits with 1 if a view has failed at the end.

    Example:
      tailrace run shop --interval 0.5
      tailrace run shop --log-format json --memory 4g >> run.jsonl
    """
    with open_store(directory, max_lag) as db:

        def caught_up() -> bool:
            status = db.status()
            is_examined = all(not v["failed"]["trying"] for v in status.views if v["failed"])
            return status.lag_operations == 0 and is_examined and all(b["failed"] for b in status.building)

        stopped_by = db.run(interval, until=caught_up if until_caught_up else None)
        failed = _failed_views(db)  # the log has their messages
    if stopped_by == signal.SIGINT:
        raise typer.Exit(INTERRUPTED)
    if failed and stopped_by is None:
        raise typer.Exit(1)


def verify(
    directory: Dir,
    views: Annotated[
        list[str] | None,
        typer.Argument(metavar="VIEW", help="Views to verify; all by default.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Recompute views with plain Spark SQL at their cut, and compare all rows.

    A view that has failed is compared at the last epoch that it shows, if the log still has that cut.
    Exits with 1 if a view differs or has failed.

    Example:
      tailrace verify shop
      tailrace verify shop spend --json
    """
    reports: list[tuple[Report, float]] = []
    skipped: list[ViewFailed] = []
    with open_store(directory) as db, terminal.progress_bar() as progress:
        names = [db.view(name).name for name in views] if views else db.views()
        task = progress.add_task("verifying", total=len(names))
        for name in names:
            progress.update(task, description=f"verifying {name}")
            started = time.monotonic()
            try:
                reports.append((db.verify(name), time.monotonic() - started))
            except ViewFailed as error:
                skipped.append(error)
            progress.advance(task)
    if as_json:
        unverified = [{"view": error.name, "ok": None, "failed": error.reason} for error in skipped]
        terminal.print_json([*(_report_to_json(report, seconds) for report, seconds in reports), *unverified])
    else:
        _print_reports(reports)
        for failure in skipped:
            print(f"{failure.name}: not compared: {failure}")
    if skipped or not all(report.ok and not report.failure for report, _ in reports):
        raise typer.Exit(1)


def _report_to_json(report: Report, seconds: float) -> dict[str, Any]:
    return {
        "view": report.view,
        "ok": report.ok,
        "by": report.by,
        "rows": report.rows,
        "missing": report.missing,
        "extra": report.extra,
        "epoch": report.epoch,
        "cut": report.cut._asdict(),
        "seconds": round(seconds, 3),
        "examples": report.examples,
        "failed": report.failure or None,
    }


def _print_reports(reports: list[tuple[Report, float]]) -> None:
    rows = (
        (
            r.view,
            terminal.verdict(r.ok),
            f"{r.rows:,}",
            f"{r.missing:,}",
            f"{r.extra:,}",
            r.epoch,
            f"{seconds:.2f}",
        )
        for r, seconds in reports
    )
    names = ["view", "verdict", "rows", "missing", "extra", "epoch", "seconds"]
    terminal.print_table(names, rows, [False, False, True, True, True, True, True])
    for report, _ in reports:
        for kind, examples in report.examples.items():
            print(f"{report.view}: examples of {kind} rows:")
            for row in examples:
                print(f"  {row}")
        if report.failure:
            print(f"{report.view}: has failed; compared at epoch {report.epoch}, which it shows: {report.failure}")
