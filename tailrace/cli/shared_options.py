"""Options that all verbs that use Spark share: how Spark is started, and the format of the log.

`uses_spark` adds them to a verb. The verb itself does not see them: `open_store` takes the Spark options from here.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any, get_type_hints

import typer

from tailrace.cli import log_output
from tailrace.errors import BadSetting
from tailrace.spark.spark_options import CONF, DEFAULT_MEMORY, MASTER, MEMORY, SparkOptions, read_conf

_PANEL = "Spark and log"
LOG = "TAILRACE_LOG"

_options: ContextVar[SparkOptions | None] = ContextVar("spark_options", default=None)


def spark_options() -> SparkOptions | None:
    """The Spark options of the running verb; None for a verb without them."""
    return _options.get()


def _shared(
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help=f"Spark's master: local[4], spark://host:7077, ... Also ${MASTER}.",
            show_default="local[*], all cores",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help=f"Memory of Spark's driver: 4g, 800m, ... Also ${MEMORY}. Executors: --conf spark.executor.memory=4g.",
            show_default=DEFAULT_MEMORY,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help=f"Another setting of Spark; may be repeated. Also ${CONF}, separated by spaces.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
    log_format: Annotated[
        str | None,
        typer.Option(
            "--log-format",
            metavar="FORMAT",
            help=f"Write events as lines of text or json (docs/operations.md lists them). Also ${LOG}.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None,
) -> None:
    """The signature of the shared options."""


def uses_spark(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the shared options to a verb."""
    own, shared = inspect.signature(verb), inspect.signature(_shared)
    hints = {**get_type_hints(verb, include_extras=True), **get_type_hints(_shared, include_extras=True)}

    @functools.wraps(verb)
    def with_options(**arguments: Any) -> Any:
        master, memory, conf, log_format = (arguments.pop(name) for name in shared.parameters)
        token = _options.set(_read_options(master, memory, conf))
        is_log = verb.__name__ == "run"  # the output of `run` is its log
        default = None if not is_log else "json" if arguments["as_json"] else "text"
        store = str(arguments["directory"]) if "directory" in arguments else None
        try:
            with log_output.attached(_read_format(log_format) or default, store, to_stdout=is_log):
                return verb(**arguments)
        finally:
            _options.reset(token)

    parameters = [*own.parameters.values(), *shared.parameters.values()]
    typed = [p.replace(annotation=hints[p.name]) for p in parameters]
    with_options.__signature__ = own.replace(parameters=typed)  # type: ignore[attr-defined]
    with_options.__annotations__ = hints
    return with_options


def _read_options(master: str | None, memory: str | None, conf: list[str] | None) -> SparkOptions:
    try:
        options = SparkOptions(master, memory, read_conf(conf or ()))
    except BadSetting as error:
        raise typer.BadParameter(f"--{error}") from None
    try:
        return options.with_environment()
    except BadSetting as error:
        raise typer.BadParameter(str(error)) from None


def _read_format(given: str | None) -> str | None:
    name, chosen = ("--log-format", given) if given is not None else (LOG, os.environ.get(LOG) or None)
    if chosen is not None and chosen not in log_output.FORMATS:
        raise typer.BadParameter(f"{name}: {chosen!r} is not valid; write {' or '.join(log_output.FORMATS)}")
    return chosen
