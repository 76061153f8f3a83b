"""The command line: `tailrace VERB DIR ...`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from tailrace.commands import audits, epochs, files, histories, rows, shows, stores
from tailrace.commands.verb import Verb
from tailrace.version import VERSION

app = typer.Typer(
    name="tailrace",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_PANELS: dict[str, tuple[Callable[..., Any], ...]] = {
    "A store": (stores.init, stores.sql, stores.status, stores.explain),
    "Rows": (rows.put, rows.delete, rows.get, rows.scan, files.load),
    "Views": (epochs.refresh, epochs.run, epochs.verify, audits.audit, histories.record, histories.check),
    "More": (shows.demo, shows.bench),
}
for _panel, _verbs in _PANELS.items():
    for _verb in _verbs:
        app.command(cls=Verb, rich_help_panel=_panel, no_args_is_help=_panel != "More")(_verb)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tailrace {VERSION}")
        raise typer.Exit


@app.callback()
def tailrace(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """SQL views over key-value tables that stay fresh while rows change underneath.

    A store is a directory: the first argument of every verb. `tailrace VERB --help` has examples.
    """


def main() -> None:
    """The `tailrace` console script."""
    app()
