"""The verbs `record` and `check`: record the states of views, and judge how consistent they were."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import tailrace
from tailrace import terminal
from tailrace.cli.shared_options import spark_options
from tailrace.cli.verb import Dir, Json, open_store
from tailrace.database.signals import caught
from tailrace.verify.history.verdict import BOUND, Witness
from tailrace.words import count

if TYPE_CHECKING:
    from tailrace.verify.history.check_file import Checked


def record(
    directory: Dir,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="New file for the recording.", show_default=False)],
    views: Annotated[
        list[str] | None, typer.Argument(metavar="VIEW", help="Views to record; all by default.", show_default=False)
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Stop after this many seconds.", show_default="at SIGINT or SIGTERM")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    as_json: Json = False,
) -> None:
    """Record the state of views after every epoch, and every change of their tables.

    Other processes write and run epochs meanwhile. `tailrace check` then judges the recording.

    Example:
      tailrace record shop history.arrow --seconds 60
      tailrace record shop history.arrow spend
    """
    stop = threading.Event()
    with open_store(directory) as db, caught(stop.set, signal.SIGINT, signal.SIGTERM):
        with db.record(path, views, overwrite=overwrite) as recording:
            first = recording.epoch
            stop.wait(seconds)
        summary = {"path": str(path), "first": first, "last": recording.epoch, "epochs": recording.epochs}
    if as_json:
        terminal.print_json(summary)
    else:
        print(f"recorded epochs {first} to {recording.epoch} in {path}")


def check(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Recording, as written by `tailrace record`.", show_default=False)
    ],
    search: Annotated[
        bool, typer.Option("--search", help="Ignore the recorded cuts and search for cuts that explain the states.")
    ] = False,
    bound: Annotated[
        int, typer.Option(min=1, help="Search: most base states to try for each view; each costs a query.")
    ] = BOUND,
    as_json: Json = False,
) -> None:
    """Check how consistent recorded views were with their tables and with each other.

    Compares each recorded state with the view's SQL, run by Spark over the tables at the state's cut.
    If a recording has no cuts (one of another system, for example), the check searches for them.
    Exits with 1 unless every view is strongly consistent and all views share one cut in every epoch.

    Example:
      tailrace check history.arrow
      tailrace check history.arrow --json
    """
    with terminal.console(stderr=True).status("checking") as status:
        checked = tailrace.check(
            file,
            search=search,
            bound=bound,
            spark=spark_options(),
            progress=lambda step: status.update(str(step)),
        )
    if as_json:
        terminal.print_json(_to_json(checked))
    else:
        method = "recorded cuts" if checked.certified else f"search over up to {count(bound, 'base state')} per view"
        states = f"{count(checked.epochs, 'epoch')} and {count(checked.transactions, 'transaction')}"
        print(f"checked {states} by {method}")
        print(checked.verdict)
    if not checked.ok:
        raise typer.Exit(1)


def _to_json(checked: Checked) -> dict[str, Any]:
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
                "witnesses": [_witness_to_json(w) for w in view.witnesses],
            }
            for name, view in verdict.views.items()
        },
        "witness": None if verdict.witness is None else _witness_to_json(verdict.witness),
    }


def _witness_to_json(witness: Witness) -> dict[str, Any]:
    return {
        "misses": "snapshot" if witness.level is None else witness.level.name.lower(),
        "view": witness.view,
        "key": witness.key,
        "states": [{"state": s.state, "cut": s.cut, "value": s.value} for s in witness.states],
        "reason": witness.reason,
    }
