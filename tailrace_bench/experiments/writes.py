"""Base writes, with and without maintenance beside them."""

from __future__ import annotations

from tailrace_bench import workloads
from tailrace_bench.experiments.epochs import KINDS
from tailrace_bench.harness import check, create, line, median, short
from tailrace_bench.processes import Writer, maintained
from tailrace_bench.results import Result, Target, Whose
from tailrace_bench.size import Size

BATCH = 1_000
VIEWS = ("SUM, COUNT", "MIN, MAX", "selection")
WRITING, MAINTAINING = 0, 1  # cores
PATIENCE = 300.0


def writes(size: Size) -> Result:
    """A writer that writes as fast as it can, on one core, while nobody or `tailrace run` works on the other."""
    without: list[float] = []
    with_views: list[float] = []
    for run in range(size.repeats):  # by turns: disks have moods
        without.append(_rate(size, run, maintaining=False))
        with_views.append(_rate(size, run, maintaining=True))
    slower = median([1 - ours / alone for ours, alone in zip(with_views, without, strict=True)])
    return Result(
        name="writes",
        title="Base writes with and without maintenance",
        question=f"How many operations a second does one client write, in durable transactions of {short(BATCH)} rows, "
        f"while {len(VIEWS)} views are maintained beside it, and while they are not?",
        x="maintenance",
        y="operations written per second",
        lines=(line("Tailrace", Whose.TAILRACE, [("none", without), (f"{len(VIEWS)} views", with_views)]),),
        targets=(Target("base writes with maintenance: share by which they are slower", 0.1, slower, at_least=False),),
        notes=("The writer is held to one core, `tailrace run` with its Spark to the other.",),
    )


def _rate(size: Size, seed: int, *, maintaining: bool) -> float:
    with workloads.store() as db:
        for number, kind in enumerate(VIEWS):
            create(db, f"v{number}", KINDS[kind])
        first = db.table("ops").put({"id": 0, "grp": 0, "amount": 0, "other": 0})
        if not maintaining:
            return _write(db.path, size, seed).rate
        with maintained(db.path, MAINTAINING):
            db.view("v0").get(0, at_least=first, timeout=PATIENCE)
            writer = _write(db.path, size, seed)
            db.view("v0").get(0, at_least=writer.last, timeout=PATIENCE)
        check(db)
    return writer.rate


def _write(path: str, size: Size, seed: int) -> Writer:
    writer = Writer(path, size.seconds, rate=0, batch=BATCH, keys=size.keys, seed=seed, core=WRITING)
    for _ in writer.written():
        pass
    return writer
