"""refresh, run, verify."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from tailrace import terminal
from tailrace.cli.verb import Dir, Json, opened
from tailrace.database.database import Database
from tailrace.database.progress import Step
from tailrace.epochs.model import Epoch
from tailrace.verify.comparison import Report


def refresh(directory: Dir, as_json: Json = False) -> None:
    """Bring every view up to everything written so far.

    Example:
      tailrace refresh shop
    """
    with opened(directory) as db, terminal.console(stderr=True).status("refreshing") as status:
        epoch = db.refresh(building=terminal.teller(status))
    if as_json:
        terminal.print_json(_epoch(epoch))
    elif epoch.operations:
        print(_line(epoch))
    else:
        print(f"epoch {epoch.number}: nothing to do")


def _epoch(epoch: Epoch) -> dict[str, Any]:
    return {
        "number": epoch.number,
        "operations": epoch.operations,
        "seconds": round(epoch.seconds, 6),
        "rate": round(epoch.rate, 1),
        "view_rows": epoch.view_rows,
        "views": epoch.views,
        "refreshed": {name: {"taken": w.taken, "reason": w.reason} for name, w in sorted(epoch.refreshed.items())},
        "cut": {"transaction": epoch.cut.transaction, "offsets": list(epoch.cut.offsets)},
    }


def _line(epoch: Epoch) -> str:
    again = sorted(name for name, way in epoch.refreshed.items() if way.taken == "recomputed")
    return (
        f"epoch {epoch.number}: {epoch.operations:,} operations in {epoch.seconds:.2f} s"
        f" ({epoch.rate:,.0f}/s), {epoch.view_rows:,} view rows" + (f", recomputed {', '.join(again)}" if again else "")
    )


def run(
    directory: Dir,
    interval: Annotated[float, typer.Option(min=0, help="Seconds between the end of an epoch and the next.")] = 0.2,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="End when the views have everything that was written.")
    ] = False,
    max_lag: Annotated[
        int | None,
        typer.Option(min=1, help="Slow writers when views are so many operations behind.", show_default="as it is"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Keep every view fresh: refresh again and again, one line per epoch, until SIGINT or SIGTERM.

    Example:
      tailrace run shop --interval 0.5
      tailrace run shop --json >> epochs.jsonl
    """
    with opened(directory, max_lag) as db:

        def tell(epoch: Epoch) -> None:
            _tell(db, epoch, as_json)

        def caught_up() -> bool:
            now = db.status()
            return now.lag_operations == 0 and all(b["failed"] for b in now.building)

        def building(step: Step) -> None:
            print(step, file=sys.stderr, flush=True)

        db.run(interval, progress=tell, building=building, until=caught_up if until_caught_up else None)


def _tell(db: Database, epoch: Epoch, as_json: bool) -> None:
    now = db.status()
    if as_json:
        lag = {"lag_operations": now.lag_operations, "lag_seconds": round(now.lag_seconds, 3)}
        terminal.print_line(_epoch(epoch) | lag)
    else:
        print(f"{_line(epoch)}, lag {now.lag_operations:,} operations, {now.lag_seconds:.2f} s", flush=True)


def verify(
    directory: Dir,
    views: Annotated[
        list[str] | None,
        typer.Argument(metavar="VIEW", help="Views; all by default.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Recompute views with plain Spark SQL at their cut, and compare row by row.

    Exits with 1 if any view differs.

    Example:
      tailrace verify shop
      tailrace verify shop spend --json
    """
    reports: list[tuple[Report, float]] = []
    with opened(directory) as db, terminal.bar() as progress:
        names = [db.view(name).name for name in views] if views else db.views()
        task = progress.add_task("verifying", total=len(names))
        for name in names:
            progress.update(task, description=f"verifying {name}")
            began = time.monotonic()
            reports.append((db.verify(name), time.monotonic() - began))
            progress.advance(task)
    if as_json:
        terminal.print_json([_report(report, seconds) for report, seconds in reports])
    else:
        _print_reports(reports)
    if not all(report.ok for report, _ in reports):
        raise typer.Exit(1)


def _report(report: Report, seconds: float) -> dict[str, Any]:
    return {
        "view": report.view,
        "ok": report.ok,
        "by": report.by,
        "rows": report.rows,
        "missing": report.missing,
        "extra": report.extra,
        "epoch": report.epoch,
        "cut": {"transaction": report.cut.transaction, "offsets": list(report.cut.offsets)},
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
    terminal.show(names, rows, [False, False, True, True, True, True, True])
    for report, _ in reports:
        for kind, examples in report.examples.items():
            print(f"{report.view}: {kind}, for example")
            for row in examples:
                print(f"  {row}")
