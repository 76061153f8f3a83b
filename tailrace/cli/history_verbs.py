"""record, check."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

import tailrace
from tailrace import terminal
from tailrace.cli.verb import Dir, Json, opened
from tailrace.database.signals import caught
from tailrace.verify.history.check_file import BOUND, Checked
from tailrace.verify.history.verdict import Witness


def record(
    directory: Dir,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The file to write.", show_default=False)],
    views: Annotated[
        list[str] | None, typer.Argument(metavar="VIEW", help="Views; all by default.", show_default=False)
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="How long.", show_default="until SIGINT or SIGTERM")
    ] = None,
    as_json: Json = False,
) -> None:
    """Record every state of views, epoch by epoch, and every change of their tables, while others write and refresh.

    `tailrace check` tells what the recording shows.

    Example:
      tailrace record shop history.arrow --seconds 60
      tailrace record shop history.arrow spend
    """
    stop = threading.Event()
    with opened(directory) as db, caught(stop.set, signal.SIGINT, signal.SIGTERM):
        with db.record(path, views) as recording:
            first = recording.epoch
            stop.wait(seconds)
        done = {"path": str(path), "first": first, "last": recording.epoch, "epochs": recording.epochs}
    if as_json:
        terminal.print_json(done)
    else:
        print(f"{path}: epochs {first} to {recording.epoch}")


def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A recording.", show_default=False)],
    search: Annotated[
        bool, typer.Option("--search", help="Judge by the states alone, even if they name their cuts.")
    ] = False,
    bound: Annotated[
        int, typer.Option(min=1, help="Base states that a search looks at for each view; each costs a query.")
    ] = BOUND,
    as_json: Json = False,
) -> None:
    """Tell how consistent recorded views were with their tables, and with each other.

    Every state is compared with the view's SQL, run by Spark over the tables as they were at its cut. A recording
    whose states name no cuts, as of another system, is checked by search. Exits with 1 unless every view is strongly
    consistent, and all are consistent with each other.

    Example:
      tailrace check history.arrow
      tailrace check history.arrow --json
    """
    with terminal.console(stderr=True).status("checking"):
        checked = tailrace.check(file, search=search, bound=bound)
    if as_json:
        terminal.print_json(_data(checked))
    else:
        how = "by their cuts" if checked.certified else f"by search, up to {bound:,} base states each"
        print(f"{checked.epochs:,} epochs, {checked.transactions:,} transactions, {how}")
        print(checked.verdict)
    if not checked.ok:
        raise typer.Exit(1)


def _data(checked: Checked) -> dict[str, Any]:
    verdict = checked.verdict
    return {
        "path": checked.path,
        "ok": checked.ok,
        "level": verdict.level.name.lower(),
        "snapshot": verdict.snapshot,
        "certified": checked.certified,
        "bounded": verdict.bounded,
        "epochs": checked.epochs,
        "transactions": checked.transactions,
        "views": {
            name: {
                "level": view.level.name.lower(),
                "at_most": view.at_most.name.lower(),
                "witnesses": [_witness(w) for w in view.witnesses],
            }
            for name, view in verdict.views.items()
        },
        "witness": None if verdict.witness is None else _witness(verdict.witness),
    }


def _witness(witness: Witness) -> dict[str, Any]:
    return {
        "misses": "snapshot" if witness.level is None else witness.level.name.lower(),
        "view": witness.view,
        "key": witness.key,
        "states": [{"state": s.state, "cut": s.cut, "value": s.value} for s in witness.states],
        "reason": witness.reason,
    }
