"""demo, bench."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from tailrace.cli.verb import usage
from tailrace.codec import text
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
        typer.Argument(metavar="NAME", help="Benchmarks; most of them by default.", show_default=False),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: all in five minutes.")] = False,
    file: Annotated[
        Path | None, typer.Option("--json", help="Write the figures here, not to stdout.", show_default=False)
    ] = None,
    docs: Annotated[
        Path | None,
        typer.Option(help="Write a page of the figures and its plots into this directory.", show_default=False),
    ] = None,
) -> None:
    """Measure Tailrace on this machine, beside its limits and others, as JSON.

    Views are verified before their figures count. A benchmark that fails is reported and the others go on; the exit
    code is then 1. tpch (all 22 queries beside Spark's recomputation) and views (1,000 of them) are run by name only,
    and so are, with --quick, comparisons with other systems (peers_sum, ...; `make bench-peers` installs them).

    Example:
      tailrace bench --quick
      tailrace bench sums join --json figures.json
      tailrace bench --docs docs
    """
    benchmarks, size = _import_benchmarks("tailrace_bench.run"), _import_benchmarks("tailrace_bench.size").Size
    report = _import_benchmarks("tailrace_bench.report") if docs else None
    if unknown := [name for name in names or () if name not in benchmarks.BENCHMARKS]:
        raise usage(f"no benchmark named {unknown[0]!r}; there are {', '.join(benchmarks.BENCHMARKS)}")
    done = benchmarks.run(names or (), size.QUICK if quick else size.FULL)
    said = text.to_json(done.json(), indent=1)
    if file is None:
        print(said)
    else:
        file.write_text(said + "\n")
    if report is not None:
        report.write(done.machine, done.results, docs, quick=quick, failed=done.failed)
    if done.failed:
        raise typer.Exit(1)


def _import_benchmarks(module: str) -> Any:
    """Imports a module of the benchmarks, which are in the repository and not in the installed package."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "tailrace_bench":
            message = (
                "the benchmarks are not part of the installed package; they live in the Tailrace repository. "
                "Clone it and run `make bench` in the checkout (one benchmark: `make bench BENCH='sums --quick'`)"
            )
        else:
            message = f"the benchmarks need {error.name}, which is not installed; run `make setup` in the checkout"
        raise EnvironmentFault(message=message) from None
