"""The steps of the demo, and what each prints."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import tailrace
from tailrace import loading, temporary, terminal
from tailrace.codec import text
from tailrace.database.database import Database
from tailrace.demo.data import TABLES, generate
from tailrace.demo.stream import Applied, Measured, percentile, stream, warm
from tailrace.demo.views import EXAMPLES, Example
from tailrace.errors import StoreError
from tailrace.spark.spark_options import SparkOptions
from tailrace.verify.report import Report

QUICK = "-XX:TieredStopAtLevel=1"  # the run is too short to gain from the optimising compiler


def run(*, scale: float, seconds: float, rate: int, directory: Path | None, spark: SparkOptions | None = None) -> bool:
    """Runs the demo. True if every view was verified."""
    began = time.monotonic()
    os.environ.setdefault("JDK_JAVA_OPTIONS", QUICK)
    with _demo_directory(directory) as root:
        show = Show(terminal.console())
        show.say("[bold]Tailrace[/bold] keeps SQL views fresh while the rows under them change.")
        files = show.generate(scale, root / "data", "a store: a directory, no server")
        with tailrace.open(root / "store", create=True, spark=spark) as db:
            show.load(db, files)
            show.build(db)
            measured = show.stream(db, files, seconds, rate)
            show.reads(db)
            reports = show.verify(db)
        ok = show.close(measured, reports, time.monotonic() - began)
        if directory is not None:
            show.say(f"The store is in {root / 'store'}: try `tailrace status {root / 'store'}`.")
        return ok


@contextmanager
def _demo_directory(directory: Path | None) -> Iterator[Path]:
    if directory is None:
        yield temporary.make("tailrace-demo-")
    elif (directory / "store").exists():
        raise StoreError(message=f"{directory / 'store'} already exists; remove it or choose another --dir")
    else:
        yield directory


class Show:
    """The demo's output, and the steps that make it."""

    def __init__(self, console: Console, examples: Sequence[Example] = EXAMPLES, steps_done: int = 0) -> None:
        self._console, self._examples, self._step = console, examples, steps_done

    def say(self, message: str) -> None:
        self._console.print(message)

    def title(self, title: str, message: str) -> None:
        self._step += 1
        self.say(f"\n[bold cyan]{self._step}. {title}[/bold cyan]  {message}")

    def _bar(self) -> Progress:
        columns = (TextColumn("   {task.description:24}"), BarColumn(), TimeElapsedColumn())
        return Progress(*columns, console=self._console, transient=True, disable=not self._console.is_terminal)

    def generate(self, scale: float, directory: Path, target: str) -> dict[str, Path]:
        self.title("Tables", f"TPC-H at scale {scale:g}, loaded into {target}.")
        with self._bar() as progress:
            progress.add_task("generating", total=None)
            return generate(scale, directory)

    def load(self, db: Database, files: dict[str, Path]) -> None:
        for name, ddl in TABLES.items():
            began = time.monotonic()
            db.sql(ddl)
            rows = self._load(db, name, files[name])
            self.say(f"   {name:12} {rows:>9,} rows  {time.monotonic() - began:5.1f} s")

    def _load(self, db: Database, name: str, file: Path) -> int:
        with self._bar() as progress:
            task = progress.add_task(name, total=1.0)
            table = db.table(name)
            return loading.load(table, [file], None, lambda step: progress.update(task, completed=step.done))

    def build(self, db: Database) -> None:
        self.title("Views", "Spark builds each view from the loaded tables; the store keeps it as a keyed table.")
        with self._bar() as progress:
            progress.add_task("starting Spark", total=None)
            db.spark  # noqa: B018
        for example in self._examples:
            began = time.monotonic()
            self._build(db, example)
            rows = db.view(example.name).scan().num_rows
            seconds = time.monotonic() - began
            self.say(f"   {example.name:16} {rows:>7,} rows  {seconds:5.1f} s  [dim]{example.kind}[/dim]")

    def _build(self, db: Database, example: Example) -> None:
        with self._bar() as progress:
            task = progress.add_task(example.name, total=None)
            db.sql(
                f"CREATE MATERIALIZED VIEW {example.name} AS {example.sql}",
                lambda message: progress.update(task, description=f"{example.name}: {message}"),
            )

    def stream(
        self,
        db: Database,
        files: dict[str, Path],
        seconds: float,
        rate: int,
        after_epoch: Callable[[Applied, float], None] | None = None,
    ) -> Measured:
        self.title(
            "Changes",
            f"for {seconds:g} s, one process inserts, updates and deletes orders and their items, and\n"
            "   another reads views. Each epoch applies the changes since the previous one to all views.",
        )
        with self._bar() as progress:
            task = progress.add_task("first epoch", total=seconds)
            first = warm(db)
            self.say(
                f"   epoch {first.number:>3}  {first.operations:>6,} operations  {first.seconds:5.2f} s"
                "  [dim]the first epoch: Spark compiles the plans[/dim]"
            )
            progress.update(task, description="streaming")

            def on_epoch(applied: Applied, elapsed: float) -> None:
                self.say(_line(applied))
                progress.update(task, completed=min(elapsed, seconds))
                if after_epoch is not None:
                    after_epoch(applied, elapsed)

            return stream(db, files, seconds, rate, on_epoch)

    def reads(self, db: Database, nation: str = "FRANCE") -> None:
        self.title("Reads", "one row of a view by its key; all views show the same epoch.")
        spend = db.view("customer_spend").scan(limit=1).to_pylist()
        keys: list[tuple[str, Any]] = [("customer_spend", spend[0]["o_custkey"])] if spend else []
        keys += [("part_prices", 1), ("nation_revenue", nation), ("totals", ())]
        for name, key in keys:
            view = db.view(name)
            view.get(key)  # the first read is not measured
            began = time.perf_counter()
            row = view.get(key)
            seconds = time.perf_counter() - began
            values = ", ".join(f"{k} {text.format_cell(v)}" for k, v in (row or {}).items())
            self.say(f"   {name:16} [dim]{seconds * 1e6:4.0f} µs[/dim]  {values or 'no such row'}")

    def verify(self, db: Database) -> list[Report]:
        self.title("Proof", "plain Spark SQL recomputes every view from the tables at its cut; both must be equal.")
        reports = []
        for name in (example.name for example in self._examples):
            began = time.monotonic()
            with self._bar() as progress:
                progress.add_task(name, total=None)
                report = db.verify(name)
            reports.append(report)
            verdict = "[green]ok[/green]" if report.ok else "[bold red]DIFFERS[/bold red]"
            difference = "" if report.ok else f"  {report.missing:,} missing, {report.extra:,} extra"
            seconds = time.monotonic() - began
            self.say(f"   {name:16} {report.rows:>7,} rows  {seconds:5.1f} s  {verdict}{difference}")
        return reports

    def close(
        self, measured: Measured, reports: list[Report], seconds: float, freshness: Sequence[float] | None = None
    ) -> bool:
        """Prints the figures. `freshness` are seconds measured in another way. Returns whether all views are right."""
        verified = sum(report.ok for report in reports)
        freshness, reads = measured.freshness if freshness is None else freshness, measured.reads
        epoch_seconds = [applied.epoch.seconds for applied in measured.epochs]
        rate = measured.operations / measured.seconds if measured.seconds else 0.0
        rows = (
            ("operations, all views maintained", f"{measured.operations:,}"),
            ("operations per second", f"{rate:,.0f}"),
            ("epochs", f"{len(epoch_seconds):,} of {percentile(epoch_seconds, 0.5):.2f} s (median)"),
            ("freshness p50 / p99", f"{percentile(freshness, 0.5):.2f} s / {percentile(freshness, 0.99):.2f} s"),
            ("point reads in that time", f"{len(reads):,}"),
            ("read latency p50 / p99", f"{_ms(percentile(reads, 0.5))} / {_ms(percentile(reads, 0.99))}"),
            ("rows in views", f"{sum(report.rows for report in reports):,}"),
            ("views verified", f"{verified} of {len(reports)}"),
        )
        self._console.print()
        self._console.print(terminal.grid(["figure", "value"], rows, [False, True], f"In {seconds:.0f} s"))
        return verified == len(reports)


def _line(applied: Applied) -> str:
    epoch = applied.epoch
    return (
        f"   epoch {epoch.number:>3}  {epoch.operations:>6,} operations  {epoch.seconds:5.2f} s  {epoch.rate:>6,.0f}/s"
        f"  lag {applied.lag_operations:>6,} operations, {applied.lag_seconds:.2f} s"
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"
