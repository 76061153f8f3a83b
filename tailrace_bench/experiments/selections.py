"""Selection by the share of selected rows, and projection by the number of row keys."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tailrace as tr
from tailrace_bench import bounds, workloads
from tailrace_bench.experiments.aggregates import RATE
from tailrace_bench.harness import (
    WARMUP_EPOCHS,
    create_view,
    make_line,
    median,
    short_count,
    time_refresh,
    verify_views,
)
from tailrace_bench.results import Line, Result, Target, Whose
from tailrace_bench.size import Size

SHARES = (20, 50, 80)
KEYS = (1_000, 10_000, 100_000)
UNIQUE = "all unique"
WHY = (
    "the epoch must read the log before it writes rows, and the log scan alone takes nearly as long as the limit; the "
    "notes give the share of both limits combined. The rest is undo records, computing the net change and one Spark "
    "job; see Profiles"
)


@dataclass
class Rates:
    """Operations per second of epochs, of log scans, and of the two LMDB limits for the view's rows."""

    epochs: list[float] = field(default_factory=list)
    scans: list[float] = field(default_factory=list)
    rows: list[float] = field(default_factory=list)
    pairs: list[float] = field(default_factory=list)

    @property
    def of_lmdb_limit(self) -> float:
        return median([ours / limit for ours, limit in zip(self.epochs, self.rows, strict=True)])

    @property
    def of_combined_limit(self) -> float:
        """Share of the rate of scanning the log and then writing the rows, each at its own limit."""
        limits = zip(self.scans, self.rows, strict=True)
        return median([ours * (1 / a + 1 / b) for ours, (a, b) in zip(self.epochs, limits, strict=True)])


def _measure_inserts(size: Size, seed: int, sql: str, columns: list[str], share: int) -> Rates:
    """Measures epochs of new rows, `share` percent of which are in the view, and the limits for the same rows."""
    rng, count = np.random.default_rng(seed), size.large_epoch
    rates = Rates()
    with workloads.temporary_store() as db:
        create_view(db, "v", sql)
        for run in range(WARMUP_EPOCHS + size.repeats):
            view_rows = _insert_rows(db, rng, run * count, count, share).select(columns)
            scan = bounds.time_log_scan(db, "ops")
            epoch = time_refresh(db)
            if run >= WARMUP_EPOCHS:
                limit = bounds.measure_lmdb_writes(view_rows, 1)
                rates.epochs.append(epoch.rate)
                rates.scans.append(count / scan)
                rates.rows.append(limit.rows * count / view_rows.num_rows)
                rates.pairs.append(limit.pairs * count / view_rows.num_rows)
        verify_views(db)
    return rates


def _insert_rows(db: tr.Database, rng: np.random.Generator, start: int, count: int, share: int) -> pa.Table:
    """Inserts new rows. Returns the selected ones."""
    chosen = []
    for begin in range(start, start + count, 4 * workloads.BATCH):
        rows = workloads.random_rows(rng, np.arange(begin, min(start + count, begin + 4 * workloads.BATCH)))
        db.table("ops").put_many(rows)
        chosen.append(rows.filter(pc.less(rows["amount"], 10 * share)))
    return pa.concat_tables(chosen)


def _measure_updates(size: Size, seed: int, sql: str, keys: int) -> Rates:
    """Measures epochs of random operations on few keys."""
    rng, rates = np.random.default_rng(seed), Rates()
    with workloads.temporary_store() as db:
        create_view(db, "v", sql)
        for run in range(WARMUP_EPOCHS + size.repeats):
            operations = workloads.apply_operations(db, rng, size.medium_epoch, keys)
            scan = bounds.time_log_scan(db, "ops")
            epoch = time_refresh(db)
            if run >= WARMUP_EPOCHS:
                rates.epochs.append(epoch.rate)
                rates.scans.append(operations / scan)
        verify_views(db)
    return rates


def _describe_combined_share(rates_by_x: dict[str, Rates]) -> str:
    shares = ", ".join(f"{x}: {rates.of_combined_limit:.2f}" for x, rates in rates_by_x.items())
    return f"Share of both limits combined (scan the log, then write the rows): {shares}."


def _limit_lines(rates_by_x: dict[str, Rates]) -> tuple[Line, ...]:
    return (
        make_line(bounds.LOG_SCAN, Whose.LIMIT, [(x, r.scans) for x, r in rates_by_x.items()]),
        make_line(
            bounds.LMDB_ROWS,
            Whose.LIMIT,
            [(x, r.rows) for x, r in rates_by_x.items()],
            f"{bounds.LMDB_ROWS_NOTE}; in operations",
        ),
        make_line(
            bounds.LMDB_PAIRS,
            Whose.LIMIT,
            [(x, r.pairs) for x, r in rates_by_x.items()],
            f"{bounds.LMDB_PAIRS_NOTE}; in operations",
        ),
    )


def selection(size: Size) -> Result:
    """Selections of 20, 50 and 80% of the rows."""
    sql = "SELECT id, grp, amount FROM ops WHERE amount < {}"
    columns = ["id", "grp", "amount"]
    inserted = {f"{share}%": _measure_inserts(size, 4, sql.format(10 * share), columns, share) for share in SHARES}
    updated = {f"{share}%": _measure_updates(size, 5, sql.format(10 * share), size.keys) for share in SHARES}
    return Result(
        name="selection",
        title="Selection",
        question="How many operations per second can a selection apply, by the share of rows it selects? Each epoch "
        f"has {short_count(size.large_epoch)} new rows, or {short_count(size.medium_epoch)} operations on "
        f"{short_count(size.keys)} repeated keys.",
        x="selected rows",
        y=RATE,
        lines=(
            make_line("Tailrace, new rows", Whose.TAILRACE, [(x, r.epochs) for x, r in inserted.items()]),
            make_line("Tailrace, repeated keys", Whose.TAILRACE, [(x, r.epochs) for x, r in updated.items()]),
            *_limit_lines(inserted),
        ),
        targets=tuple(
            Target(f"selection of {x}: share of {bounds.LMDB_ROWS}", 0.6, inserted[x].of_lmdb_limit, why=WHY)
            for x in ("50%", "80%")
        ),
        notes=(
            f"Share of {bounds.LMDB_ROWS}, median of the per-epoch ratios: "
            + ", ".join(f"{x}: {r.of_lmdb_limit:.2f}" for x, r in inserted.items())
            + ".",
            _describe_combined_share(inserted),
            "With few selected rows, the log scan is the bottleneck, not the write.",
        ),
    )


def projection(size: Size) -> Result:
    """A projection, by the number of row keys."""
    sql = "SELECT id, amount FROM ops"
    rates_by_x = {short_count(keys): _measure_updates(size, 6, sql, keys) for keys in KEYS}
    rates_by_x[UNIQUE] = _measure_inserts(size, 6, sql, ["id", "amount"], 100)
    new_rows = rates_by_x[UNIQUE]
    return Result(
        name="projection",
        title="Projection",
        question="How many operations per second can a projection apply, by the number of row keys? Each epoch has "
        f"{short_count(size.medium_epoch)} operations; with unique keys it has {short_count(size.large_epoch)} new "
        "rows.",
        x="row keys",
        y=RATE,
        lines=(
            make_line("Tailrace", Whose.TAILRACE, [(x, r.epochs) for x, r in rates_by_x.items()]),
            *_limit_lines(rates_by_x),
        ),
        targets=(Target(f"projection of new rows: share of {bounds.LMDB_ROWS}", 0.6, new_rows.of_lmdb_limit, why=WHY),),
        notes=(
            "With few keys, most operations overwrite each other, and the view is written once per key.",
            _describe_combined_share({UNIQUE: new_rows}),
        ),
    )
