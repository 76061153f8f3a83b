"""The rate of base writes, with and without views maintained at the same time."""

from __future__ import annotations

from tailrace_bench import workloads
from tailrace_bench.experiments.epochs import KINDS
from tailrace_bench.harness import create_view, make_line, median, short_count, verify_views
from tailrace_bench.processes import Writer, running_maintenance
from tailrace_bench.results import Result, Target, Whose
from tailrace_bench.size import Size

BATCH = 1_000
VIEWS = ("SUM, COUNT", "MIN, MAX", "selection")
WRITER_CORE, MAINTENANCE_CORE = 0, 1
READ_TIMEOUT = 300.0


def writes(size: Size) -> Result:
    """A writer at full speed on one core, with the other core idle or running `tailrace run`."""
    without_views: list[float] = []
    with_views: list[float] = []
    for run in range(size.repeats):  # alternating, because disk speed varies over time
        without_views.append(_measure_rate(size, run, maintaining=False))
        with_views.append(_measure_rate(size, run, maintaining=True))
    slower = median([1 - ours / alone for ours, alone in zip(with_views, without_views, strict=True)])
    return Result(
        name="writes",
        title="Base writes with and without maintenance",
        question=f"How many operations per second can one client write, with and without {len(VIEWS)} views maintained "
        f"at the same time? Transactions are durable and have {short_count(BATCH)} rows.",
        x="maintenance",
        y="operations written per second",
        lines=(make_line("Tailrace", Whose.TAILRACE, [("none", without_views), (f"{len(VIEWS)} views", with_views)]),),
        targets=(Target("base writes with maintenance: slowdown, as a share", 0.1, slower, at_least=False),),
        notes=("The writer is pinned to one core, `tailrace run` and its Spark to the other.",),
    )


def _measure_rate(size: Size, seed: int, *, maintaining: bool) -> float:
    with workloads.temporary_store() as db:
        for number, kind in enumerate(VIEWS):
            create_view(db, f"v{number}", KINDS[kind])
        first = db.table("ops").put({"id": 0, "grp": 0, "amount": 0, "other": 0})
        if not maintaining:
            return _run_writer(db.path, size, seed).rate
        with running_maintenance(db.path, MAINTENANCE_CORE):
            db.view("v0").get(0, at_least=first, timeout=READ_TIMEOUT)
            writer = _run_writer(db.path, size, seed)
            db.view("v0").get(0, at_least=writer.last, timeout=READ_TIMEOUT)
        verify_views(db)
    return writer.rate


def _run_writer(path: str, size: Size, seed: int) -> Writer:
    writer = Writer(path, size.write_seconds, rate=0, batch=BATCH, keys=size.keys, seed=seed, core=WRITER_CORE)
    for _ in writer.transactions():
        pass
    return writer
