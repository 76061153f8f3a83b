"""The verbs `demo` and `bench`."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from tailrace.cli.shared_options import spark_options
from tailrace.cli.verb import usage_error
from tailrace.codec import text
from tailrace.errors import EnvironmentFault


def demo(
    scale: Annotated[float, typer.Option(min=0.001, max=10, help="TPC-H scale factor; 1 is about 1 GB.")] = 0.05,
    seconds: Annotated[
        float, typer.Option(min=1, help="How many seconds to write changes and maintain the views.")
    ] = 20,
    rate: Annotated[int, typer.Option(min=1, help="Target write rate, in operations per second.")] = 4000,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            help="Directory for the store and the data; it is kept.",
            show_default="temporary, deleted at the end",
        ),
    ] = None,
) -> None:
    """Run a demo of about two minutes: maintain eight views over changing TPC-H tables, then verify them.

    Exits with 1 if a view does not match its recomputation.

    Example:
      tailrace demo
      tailrace demo --scale 0.2 --seconds 60 --dir demo-data
    """
    from tailrace.demo import run

    if not run(scale=scale, seconds=seconds, rate=rate, directory=directory, spark=spark_options()):
        raise typer.Exit(1)


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Benchmarks to run; most of them by default.", show_default=False),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Use small sizes; takes about five minutes.")] = False,
    file: Annotated[
        Path | None,
        typer.Option("--json", help="Write the results to this file instead of stdout.", show_default=False),
    ] = None,
    docs: Annotated[
        Path | None,
        typer.Option(help="Write a report page with plots into this directory.", show_default=False),
    ] = None,
) -> None:
    """Measure Tailrace on this machine and print the results as JSON.

    Results are compared with the limits of the machine and with other systems.
    Every view is verified before its result counts.
    If a benchmark fails, the others still run and the exit code is 1.

    Not run unless named: tpch (all 22 queries, compared with recomputation by Spark), views (1,000 views), and
    hbase (hbase_writes, hbase_steps, ...), which starts a local HBase cluster, or uses the one in TAILRACE_HBASE.
    With --quick, comparisons with other systems (peers_sum, ...) are not run unless named either.
    `make bench-peers` installs those systems.

    Example:
      tailrace bench --quick
      tailrace bench sums join --json figures.json
      tailrace bench --docs docs
    """
    benchmarks, size = _import_benchmarks("tailrace_bench.run"), _import_benchmarks("tailrace_bench.size").Size
    report = _import_benchmarks("tailrace_bench.report") if docs else None
    known = [*benchmarks.BENCHMARKS, *benchmarks.GROUPS]
    if unknown := [name for name in names or () if name not in known]:
        raise usage_error(f"no benchmark named {unknown[0]!r}; there are {', '.join(known)}")
    outcome = benchmarks.run(names or (), size.QUICK if quick else size.FULL)
    document = text.to_json(outcome.json(), indent=1)
    if file is None:
        print(document)
    else:
        file.write_text(document + "\n")
    if report is not None:
        report.write(outcome.machine, outcome.results, docs, quick=quick, failed=outcome.failed)
    if outcome.failed:
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
