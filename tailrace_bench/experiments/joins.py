"""An inner join, by the number of join keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

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
from tailrace_bench.results import Result, Target, Whose
from tailrace_bench.size import Size

MATCHES = 10
WHY = (
    "LMDB takes half of an epoch's CPU time, and inserting between the rows of earlier epochs is slower than writing "
    "to the empty store of the limit. The rest is finding matches, encoding and sorting rows, and the join's own "
    "arrangement; see Profiles"
)
SQL = "SELECT o.id, p.pid, o.amount, p.price FROM ops o JOIN parts p ON o.grp = p.grp"


def join(size: Size) -> Result:
    """An inner join where each new row matches ten rows of the other table."""
    rates: dict[int, list[float]] = {}
    limits: dict[int, list[bounds.WriteRates]] = {}
    for keys in size.join_keys:
        rates[keys], limits[keys] = _measure(size, keys)
    shares = {
        keys: median([MATCHES * ours / limit.rows for ours, limit in zip(rates[keys], limits[keys], strict=True)])
        for keys in size.join_keys
    }
    return Result(
        name="join",
        title="Join",
        question="How many operations per second can an inner join apply, by the number of join keys? Each epoch has "
        f"{short_count(size.join_operations)} new rows, and each row matches {MATCHES} rows of the other table.",
        x="join keys",
        y=RATE,
        lines=(
            make_line("Tailrace", Whose.TAILRACE, list(rates.items())),
            make_line(
                bounds.LMDB_ROWS,
                Whose.LIMIT,
                [(keys, [w.rows / MATCHES for w in writes]) for keys, writes in limits.items()],
                f"{bounds.LMDB_ROWS_NOTE}; {MATCHES} rows count as one operation",
            ),
            make_line(
                bounds.LMDB_PAIRS,
                Whose.LIMIT,
                [(keys, [w.pairs / MATCHES for w in writes]) for keys, writes in limits.items()],
                f"{bounds.LMDB_PAIRS_NOTE}; {MATCHES} rows count as one operation",
            ),
        ),
        targets=tuple(
            Target(
                f"join, {short_count(keys)} join keys: share of {bounds.LMDB_ROWS}, in view rows",
                0.5,
                share,
                why=WHY,
            )
            for keys, share in shares.items()
        ),
        notes=("Each operation produces ten view rows.",),
        log_x=True,
    )


def _measure(size: Size, keys: int) -> tuple[list[float], list[bounds.WriteRates]]:
    rng, rates, limits = np.random.default_rng(7), [], []
    with workloads.temporary_store() as db:
        parts = _create_parts(db, rng, keys)
        create_view(db, "v", SQL)
        for run in range(WARMUP_EPOCHS + size.repeats):
            rows = workloads.random_rows(rng, np.arange(size.join_operations) + run * size.join_operations, keys)
            for begin in range(0, size.join_operations, workloads.BATCH):
                db.table("ops").put_many(rows.slice(begin, workloads.BATCH))
            epoch = time_refresh(db)
            if run >= WARMUP_EPOCHS:
                rates.append(epoch.rate)
                view_rows = rows.join(parts, "grp", join_type="inner").select(["id", "pid", "amount", "price"])
                limits.append(bounds.measure_lmdb_writes(view_rows.combine_chunks(), 2))
        verify_views(db)
    return rates, limits


def _create_parts(db: tr.Database, rng: np.random.Generator, keys: int) -> pa.Table:
    """Creates the other table, with MATCHES rows per join key."""
    db.sql("CREATE TABLE parts (pid BIGINT PRIMARY KEY, grp BIGINT, price BIGINT)")
    ids = np.arange(MATCHES * keys)
    parts = pa.table({"pid": ids, "grp": ids % keys, "price": rng.integers(0, 1_000, len(ids))})
    for begin in range(0, parts.num_rows, 4 * workloads.BATCH):
        db.table("parts").put_many(parts.slice(begin, 4 * workloads.BATCH))
    return parts
