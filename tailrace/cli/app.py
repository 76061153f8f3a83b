"""The `tailrace` command: registers every verb with its help panel."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from tailrace.cli import (
    audit_verbs,
    backup_verbs,
    demo_verbs,
    doctor_verb,
    hbase_verbs,
    history_verbs,
    load_verb,
    row_verbs,
    status_verb,
    store_verbs,
    view_verbs,
)
from tailrace.cli.shared_options import uses_spark
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
    "Store": (store_verbs.init, store_verbs.sql, status_verb.status, store_verbs.explain, doctor_verb.doctor),
    "Rows": (row_verbs.put, row_verbs.delete, row_verbs.get, row_verbs.scan, load_verb.load),
    "Views": (
        view_verbs.refresh,
        view_verbs.run,
        view_verbs.resume,
        view_verbs.verify,
        audit_verbs.audit,
        history_verbs.record,
        history_verbs.check,
    ),
    "Backups": (backup_verbs.backup, backup_verbs.dump, backup_verbs.restore),
    "Demo and benchmarks": (demo_verbs.demo, demo_verbs.bench),
}
_WITHOUT_ARGUMENTS = (demo_verbs.demo, demo_verbs.bench, doctor_verb.doctor)
_WITH_SPARK = (
    store_verbs.sql,
    view_verbs.refresh,
    view_verbs.run,
    view_verbs.resume,
    view_verbs.verify,
    audit_verbs.audit,
    history_verbs.check,
    backup_verbs.restore,
    demo_verbs.demo,
)


def _unwrap(docstring: str) -> str:
    """A help text without the line breaks of its source, so that it is wrapped at the width of the terminal only.

    Examples keep their lines.
    """
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return "\n\n".join(p if p.startswith("Example:") else p.replace("\n", " ") for p in paragraphs)


for _panel, _verbs in _PANELS.items():
    for _verb in _verbs:
        _command = app.command(
            cls=Verb,
            help=_unwrap(_verb.__doc__ or ""),
            rich_help_panel=_panel,
            no_args_is_help=_verb not in _WITHOUT_ARGUMENTS,
        )
        _command(uses_spark(_verb) if _verb in _WITH_SPARK else _verb)
app.add_typer(hbase_verbs.hbase, rich_help_panel="Store")


def _print_version(requested: bool) -> None:
    if requested:
        print(f"tailrace {VERSION}")
        raise typer.Exit


@app.callback()
def tailrace(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Keep SQL views over key-value tables up to date while rows change.

    A store is a directory. It is the first argument of most verbs. `tailrace VERB --help` shows examples.
    """
