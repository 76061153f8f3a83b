"""What every verb of the command line has in common: its errors, its store, its exit codes.

0   done          1   an error of ours, or a `no`: no such row, a view that differs          2   usage
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import tailrace
from tailrace.codec import text
from tailrace.database.database import Database
from tailrace.errors import TailraceError

_NEGATIVE = re.compile(r"-\.?\d")

Dir = Annotated[Path, typer.Argument(metavar="DIR", help="The directory of the store.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and errors as JSON on stderr.")]


class Verb(TyperCommand):
    """A command that tells errors in one line and takes negative numbers as arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if any(_NEGATIVE.match(arg) for arg in args):
            ctx.ignore_unknown_options = True
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (TailraceError, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            complain(error, as_json=bool(ctx.params.get("as_json")))
            raise typer.Exit(1) from None


def complain(error: Exception, *, as_json: bool) -> None:
    """Tell an error on stderr."""
    if as_json:
        data = {k: v for k, v in getattr(error, "data", {}).items() if k != "message"}
        said = text.to_json({"error": type(error).__name__, "message": str(error), **data})
    else:
        said = f"error: {error}"
    print(said, file=sys.stderr, flush=True)


def opened(directory: Path, max_lag: int | None = None) -> Database:
    """The store in a directory; no verb but `init` makes one."""
    return tailrace.open(directory, create=False, max_lag=max_lag)


def usage(message: str) -> typer.BadParameter:
    return typer.BadParameter(message)
