"""The command line: `tailrace VERB DIR ...`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from tailrace.cli import audit_verbs, demo_verbs, history_verbs, load_verb, row_verbs, store_verbs, view_verbs
from tailrace.cli.verb import Verb
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
    "A store": (store_verbs.init, store_verbs.sql, store_verbs.status, store_verbs.explain),
    "Rows": (row_verbs.put, row_verbs.delete, row_verbs.get, row_verbs.scan, load_verb.load),
    "Views": (
        view_verbs.refresh,
        view_verbs.run,
        view_verbs.verify,
        audit_verbs.audit,
        history_verbs.record,
        history_verbs.check,
    ),
    "More": (demo_verbs.demo, demo_verbs.bench),
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
