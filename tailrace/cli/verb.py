"""Code that all verbs share: opening the store, printing errors, exit codes.

| exit code | meaning                                                                          |
|-----------|----------------------------------------------------------------------------------|
| 0         | success                                                                          |
| 1         | an error, or a negative answer: the row does not exist, a view differs, ...      |
| 2         | wrong usage                                                                      |
| 130       | interrupted by SIGINT (Ctrl-C)                                                   |
| 143       | ended by SIGTERM (`run` and `record` end with 0 then: they are stopped that way) |
"""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import tailrace
from tailrace.cli.interrupts import INTERRUPTED
from tailrace.cli.log_output import Reported
from tailrace.cli.shared_options import spark_options
from tailrace.codec import text
from tailrace.database.database import Database
from tailrace.errors import TailraceError

_NEGATIVE_NUMBER = re.compile(r"-\.?\d")

Dir = Annotated[str, typer.Argument(metavar="STORE", help="Directory or URL of the store.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and errors as JSON on stderr.")]


class Verb(TyperCommand):
    """A command that prints errors as one line, without a traceback, and accepts negative numbers as arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if any(_NEGATIVE_NUMBER.match(arg) for arg in args):
            ctx.ignore_unknown_options = True
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except Reported:
            raise typer.Exit(1) from None
        except (TailraceError, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            print_error(error, as_json=bool(ctx.params.get("as_json")))
            raise typer.Exit(1) from None


def print_error(error: Exception, *, as_json: bool) -> None:
    if as_json:
        data = {k: v for k, v in getattr(error, "data", {}).items() if k != "message"}
        line = text.to_json({"error": type(error).__name__, "message": str(error), **data})
    else:
        line = f"error: {error}"
    print(line, file=sys.stderr, flush=True)


def open_store(directory: str, max_lag: int | None = None) -> Database:
    """Opens an existing store. Only `init` creates one."""
    return tailrace.open(directory, max_lag=max_lag, spark=spark_options())


def usage_error(message: str) -> typer.BadParameter:
    return typer.BadParameter(message)
