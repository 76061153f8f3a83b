"""demo, bench."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated

import typer

from tailrace import text
from tailrace.commands.verb import usage
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


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Benchmarks; all but tpch and views by default.", show_default=False),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            help="Share of the full size, e.g. 0.1 for a quick look; of tpch its scale factor.",
            show_default="1; tpch 0.1",
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--json", help="Write the figures here, not to stdout.", show_default=False)
    ] = None,
) -> None:
    """Measure speed and memory on this machine, as JSON.

    sums, filters, flat and small take three minutes; tpch (all 22 queries beside Spark's recomputation) and
    views (1,000 of them) take longer. Exits with 1 if a view was wrong.

    Example:
      tailrace bench
      tailrace bench tpch --scale 1 --json tpch.json
    """
    try:
        benchmarks = importlib.import_module("tailrace_bench.run")
    except ModuleNotFoundError as error:
        lacking = f"{error.name} is not installed; run them from a checkout, after `make setup`"
        raise EnvironmentFault(message=f"no benchmarks here: {lacking}") from None
    if unknown := [name for name in names or () if name not in benchmarks.BENCHMARKS]:
        raise usage(f"no benchmark named {unknown[0]!r}; there are {', '.join(benchmarks.BENCHMARKS)}")
    figures = benchmarks.run(names or (), scale)
    said = text.to_json(figures, indent=1)
    if file is None:
        print(said)
    else:
        file.write_text(said + "\n")
    if any(isinstance(found, dict) and found.get("wrong") for found in figures.values()):
        raise typer.Exit(1)
