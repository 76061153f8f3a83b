"""Selection and projection: by how much is selected, by how often keys come again."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tailrace as tr
from tailrace_bench import bounds, workloads
from tailrace_bench.experiments.aggregates import RATE
from tailrace_bench.harness import WARM, check, create, line, median, refreshed, short
from tailrace_bench.results import Line, Result, Target, Whose
from tailrace_bench.size import Size

SHARES = (20, 50, 80)
KEYS = (1_000, 10_000, 100_000)
ONCE = "each once"
WHY = (
    "before rows can be written the log has to be read, and that alone, at its own limit, takes nearly as long: see in "
    "the notes what scanning and then writing at their limits would reach. The rest is undo records, finding what is "
    "net, and a Spark job; see the profile"
)


@dataclass
class Rates:
    """Operations per second: of epochs, of scanning the log, of writing the view's rows into LMDB."""

    epochs: list[float] = field(default_factory=list)
    scans: list[float] = field(default_factory=list)
    rows: list[float] = field(default_factory=list)
    pairs: list[float] = field(default_factory=list)

    @property
    def of_lmdb(self) -> float:
        return median([ours / limit for ours, limit in zip(self.epochs, self.rows, strict=True)])

    @property
    def of_both(self) -> float:
        """The share of what scanning the log and then writing the rows, each at its limit, would reach."""
        limits = zip(self.scans, self.rows, strict=True)
        return median([ours * (1 / a + 1 / b) for ours, (a, b) in zip(self.epochs, limits, strict=True)])


def _inserted(size: Size, seed: int, sql: str, columns: list[str], share: int) -> Rates:
    """Epochs of new rows, of which a view has a share; beside writing its rows straight into LMDB."""
    rng, count = np.random.default_rng(seed), size.operations
    rates = Rates()
    with workloads.store() as db:
        create(db, "v", sql)
        for run in range(WARM + size.repeats):
            wanted = _insert(db, rng, run * count, count, share).select(columns)
            scan = bounds.scan_log(db, "ops")
            epoch = refreshed(db)
            if run >= WARM:
                limit = bounds.write_lmdb(wanted, 1)
                rates.epochs.append(epoch.rate)
                rates.scans.append(count / scan)
                rates.rows.append(limit.rows * count / wanted.num_rows)
                rates.pairs.append(limit.pairs * count / wanted.num_rows)
        check(db)
    return rates


def _insert(db: tr.Database, rng: np.random.Generator, start: int, count: int, share: int) -> pa.Table:
    """Insert new rows; those that are selected."""
    chosen = []
    for begin in range(start, start + count, 4 * workloads.BATCH):
        rows = workloads.rows(rng, np.arange(begin, min(start + count, begin + 4 * workloads.BATCH)))
        db.table("ops").put_many(rows)
        chosen.append(rows.filter(pc.less(rows["amount"], 10 * share)))
    return pa.concat_tables(chosen)


def _updated(size: Size, seed: int, sql: str, keys: int) -> Rates:
    """Epochs of random operations on few keys."""
    rng, rates = np.random.default_rng(seed), Rates()
    with workloads.store() as db:
        create(db, "v", sql)
        for run in range(WARM + size.repeats):
            operations = workloads.operate(db, rng, size.usual, keys)
            scan = bounds.scan_log(db, "ops")
            epoch = refreshed(db)
            if run >= WARM:
                rates.epochs.append(epoch.rate)
                rates.scans.append(operations / scan)
        check(db)
    return rates


def _of_both(found: dict[str, Rates]) -> str:
    shares = ", ".join(f"{at}: {rates.of_both:.2f}" for at, rates in found.items())
    return f"Share of scanning the log and then writing the rows, each at its limit: {shares}."


def _limits(found: dict[str, Rates]) -> tuple[Line, ...]:
    return (
        line(bounds.SCAN, Whose.LIMIT, [(at, r.scans) for at, r in found.items()]),
        line(bounds.ROWS, Whose.LIMIT, [(at, r.rows) for at, r in found.items()], f"{bounds.ROWS_NOTE}; in operations"),
        line(
            bounds.PAIRS, Whose.LIMIT, [(at, r.pairs) for at, r in found.items()], f"{bounds.PAIRS_NOTE}; in operations"
        ),
    )


def selection(size: Size) -> Result:
    """A selection of 20, 50 and 80% of the rows."""
    sql = "SELECT id, grp, amount FROM ops WHERE amount < {}"
    columns = ["id", "grp", "amount"]
    inserted = {f"{share}%": _inserted(size, 4, sql.format(10 * share), columns, share) for share in SHARES}
    updated = {f"{share}%": _updated(size, 5, sql.format(10 * share), size.keys) for share in SHARES}
    return Result(
        name="selection",
        title="Selection",
        question=f"How many operations a second does a selection take on, in epochs of {short(size.operations)} "
        f"new rows, or of {short(size.usual)} operations on {short(size.keys)} keys?",
        x="rows that are selected",
        y=RATE,
        lines=(
            line("Tailrace, new rows", Whose.TAILRACE, [(at, r.epochs) for at, r in inserted.items()]),
            line("Tailrace, keys come again", Whose.TAILRACE, [(at, r.epochs) for at, r in updated.items()]),
            *_limits(inserted),
        ),
        targets=tuple(
            Target(f"selection of {at}: share of rows straight into LMDB", 0.6, inserted[at].of_lmdb, why=WHY)
            for at in ("50%", "80%")
        ),
        notes=(
            "Share of rows straight into LMDB: "
            + ", ".join(f"{at}: {r.of_lmdb:.2f}" for at, r in inserted.items())
            + ".",
            _of_both(inserted),
            "Where few rows are selected, scanning the log and not writing the view is the limit.",
        ),
    )


def projection(size: Size) -> Result:
    """A projection, by the number of row keys."""
    sql = "SELECT id, amount FROM ops"
    found = {short(keys): _updated(size, 6, sql, keys) for keys in KEYS}
    found[ONCE] = _inserted(size, 6, sql, ["id", "amount"], 100)
    once = found[ONCE]
    return Result(
        name="projection",
        title="Projection",
        question=f"How many operations a second does a projection take on, in epochs of {short(size.usual)} "
        f"operations, by the number of row keys; the last of {short(size.operations)} new rows?",
        x="row keys",
        y=RATE,
        lines=(line("Tailrace", Whose.TAILRACE, [(at, r.epochs) for at, r in found.items()]), *_limits(found)),
        targets=(Target("projection of new rows: share of rows straight into LMDB", 0.6, once.of_lmdb, why=WHY),),
        notes=(
            "With few keys most operations replace one another, and the view is written once.",
            _of_both({ONCE: once}),
        ),
    )
