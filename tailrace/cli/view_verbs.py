"""The verbs `refresh`, `run` and `verify`."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from tailrace import terminal
from tailrace.cli.verb import Dir, Json, open_store
from tailrace.database.database import Database
from tailrace.database.progress import Step
from tailrace.epochs.model import Epoch
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
        print(_epoch_line(epoch))
    else:
        print(f"epoch {epoch.number}: views are already up to date")
    _end_with_failures(failed)


def _failed_views(db: Database) -> dict[str, str]:
    """The failed views, each with its message."""
    return {v["name"]: v["failed"]["message"] for v in db.status().views if v["failed"]}


def _end_with_failures(failed: dict[str, str]) -> None:
    """Prints failed views, and ends with exit code 1 if there are any."""
    for name, message in failed.items():
        print(f"view {name} has failed: {message}", file=sys.stderr)
    if failed:
        raise typer.Exit(1)


def resume(directory: Dir, view: Annotated[str, typer.Argument(metavar="VIEW", show_default=False)]) -> None:
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


def _epoch_line(epoch: Epoch) -> str:
    recomputed = sorted(name for name, way in epoch.refreshed.items() if way.taken == "recomputed")
    return (
        f"epoch {epoch.number}: {epoch.operations:,} operations in {epoch.seconds:.2f} s"
        f" ({epoch.rate:,.0f}/s), {epoch.view_rows:,} view rows"
        + (f", recomputed {', '.join(recomputed)}" if recomputed else "")
        + (f", {', '.join(epoch.recovered)} recovered" if epoch.recovered else "")
    )


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
    """Keep every view up to date: run epochs until SIGINT or SIGTERM, and print one line for each.

    A view that fails is left out, and others go on. Exits with 1 if a view has failed at the end.

    Example:
      tailrace run shop --interval 0.5
      tailrace run shop --json >> epochs.jsonl
    """
    with open_store(directory, max_lag) as db:

        def report_epoch(epoch: Epoch) -> None:
            _print_epoch(db, epoch, as_json)

        def caught_up() -> bool:
            status = db.status()
            return status.lag_operations == 0 and all(b["failed"] for b in status.building)

        def report_build(step: Step) -> None:
            print(step, file=sys.stderr, flush=True)

        db.run(interval, progress=report_epoch, building=report_build, until=caught_up if until_caught_up else None)
        failed = _failed_views(db)
    _end_with_failures(failed)


def _print_epoch(db: Database, epoch: Epoch, as_json: bool) -> None:
    status = db.status()
    if as_json:
        lag = {"lag_operations": status.lag_operations, "lag_seconds": round(status.lag_seconds, 3)}
        terminal.print_line(_epoch_to_json(epoch) | lag)
    else:
        for name, failed in epoch.failed.items():
            print(f"view {name} failed at epoch {failed.failed_at}: {failed.message}", file=sys.stderr, flush=True)
        print(f"{_epoch_line(epoch)}, lag {status.lag_operations:,} operations, {status.lag_seconds:.2f} s", flush=True)


def verify(
    directory: Dir,
    views: Annotated[
        list[str] | None,
        typer.Argument(metavar="VIEW", help="Views to verify; all by default.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Recompute views with plain Spark SQL at their cut, and compare all rows.

    Exits with 1 if a view differs.

    Example:
      tailrace verify shop
      tailrace verify shop spend --json
    """
    reports: list[tuple[Report, float]] = []
    with open_store(directory) as db, terminal.progress_bar() as progress:
        names = [db.view(name).name for name in views] if views else db.views()
        task = progress.add_task("verifying", total=len(names))
        for name in names:
            progress.update(task, description=f"verifying {name}")
            started = time.monotonic()
            reports.append((db.verify(name), time.monotonic() - started))
            progress.advance(task)
    if as_json:
        terminal.print_json([_report_to_json(report, seconds) for report, seconds in reports])
    else:
        _print_reports(reports)
    if not all(report.ok for report, _ in reports):
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
