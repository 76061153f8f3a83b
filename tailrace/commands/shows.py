"""demo, bench."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path
from typing import Annotated

import typer

from tailrace.errors import EnvironmentFault


def demo(
    scale: Annotated[float, typer.Option(min=0.001, max=10, help="TPC-H scale: 1 is a gigabyte.")] = 0.05,
    seconds: Annotated[float, typer.Option(min=1, help="How long rows change while views are kept fresh.")] = 20,
    rate: Annotated[int, typer.Option(min=1, help="Operations a second that the writer aims for.")] = 4000,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="Keep the store and the data here.", show_default="a temporary one, removed"),
    ] = None,
) -> None:
    """See it work, in two minutes: TPC-H tables, eight views, a stream of changes, and the proof.

    Exits with 0 only if every view was verified.

    Example:
      tailrace demo
      tailrace demo --scale 0.2 --seconds 60 --dir demo-data
    """
    from tailrace.demo import run

    if not run(scale=scale, seconds=seconds, rate=rate, directory=directory):
        raise typer.Exit(1)


def bench(ctx: typer.Context) -> None:
    """Measure speed and memory on this machine; JSON on stdout. Arguments go to the benchmarks.

    Example:
      tailrace bench
      tailrace bench -- --help
    """
    if importlib.util.find_spec("tailrace_bench") is None:
        raise EnvironmentFault(message="the benchmarks (tailrace_bench) are not installed; run from a checkout")
    sys.argv = ["tailrace bench", *ctx.args]
    runpy.run_module("tailrace_bench", run_name="__main__")
