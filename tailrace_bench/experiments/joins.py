"""An inner join, by the number of join keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import tailrace as tr
from tailrace_bench import bounds, workloads
from tailrace_bench.experiments.aggregates import RATE
from tailrace_bench.harness import WARM, check, create, line, median, refreshed, short
from tailrace_bench.results import Result, Target, Whose
from tailrace_bench.size import Size

MATCHES = 10
WHY = (
    "half of an epoch's processor time is LMDB's, and that takes longer between the rows of the epochs before than in "
    "the empty store of the limit; the rest is finding matches, encoding and sorting rows, and the join's own "
    "arrangement; see the profile"
)
SQL = "SELECT o.id, p.pid, o.amount, p.price FROM ops o JOIN parts p ON o.grp = p.grp"


def join(size: Size) -> Result:
    """Each new row finds ten rows of the other table."""
    rates: dict[int, list[float]] = {}
    limits: dict[int, list[bounds.Written]] = {}
    for keys in size.join_keys:
        rates[keys], limits[keys] = _measured(size, keys)
    shares = {
        keys: median([MATCHES * ours / limit.rows for ours, limit in zip(rates[keys], limits[keys], strict=True)])
        for keys in size.join_keys
    }
    return Result(
        name="join",
        title="Join",
        question=f"How many operations a second does an inner join take on, in epochs of {short(size.joined)} new rows "
        f"that each find {MATCHES} rows of the other table, by the number of join keys?",
        x="join keys",
        y=RATE,
        lines=(
            line("Tailrace", Whose.TAILRACE, list(rates.items())),
            line(
                bounds.ROWS,
                Whose.LIMIT,
                [(keys, [w.rows / MATCHES for w in found]) for keys, found in limits.items()],
                f"{bounds.ROWS_NOTE}; {MATCHES} rows are one operation",
            ),
            line(
                bounds.PAIRS,
                Whose.LIMIT,
                [(keys, [w.pairs / MATCHES for w in found]) for keys, found in limits.items()],
                f"{bounds.PAIRS_NOTE}; {MATCHES} rows are one operation",
            ),
        ),
        targets=tuple(
            Target(
                f"join, {short(keys)} join keys: share of rows straight into LMDB, in view rows", 0.5, share, why=WHY
            )
            for keys, share in shares.items()
        ),
        notes=("View rows per second are ten times the operations.",),
        log_x=True,
    )


def _measured(size: Size, keys: int) -> tuple[list[float], list[bounds.Written]]:
    rng, rates, limits = np.random.default_rng(7), [], []
    with workloads.store() as db:
        parts = _parts(db, rng, keys)
        create(db, "v", SQL)
        for run in range(WARM + size.repeats):
            rows = workloads.rows(rng, np.arange(size.joined) + run * size.joined, keys)
            for begin in range(0, size.joined, workloads.BATCH):
                db.table("ops").put_many(rows.slice(begin, workloads.BATCH))
            epoch = refreshed(db)
            if run >= WARM:
                rates.append(epoch.rate)
                wanted = rows.join(parts, "grp", join_type="inner").select(["id", "pid", "amount", "price"])
                limits.append(bounds.write_lmdb(wanted.combine_chunks(), 2))
        check(db)
    return rates, limits


def _parts(db: tr.Database, rng: np.random.Generator, keys: int) -> pa.Table:
    """The other table: so many rows under each join key."""
    db.sql("CREATE TABLE parts (pid BIGINT PRIMARY KEY, grp BIGINT, price BIGINT)")
    ids = np.arange(MATCHES * keys)
    parts = pa.table({"pid": ids, "grp": ids % keys, "price": rng.integers(0, 1_000, len(ids))})
    for begin in range(0, parts.num_rows, 4 * workloads.BATCH):
        db.table("parts").put_many(parts.slice(begin, 4 * workloads.BATCH))
    return parts
