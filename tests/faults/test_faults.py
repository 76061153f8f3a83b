"""Random faults of all kinds: no acknowledged write is lost, none is applied twice, every view is right, and what views
showed throughout was strongly consistent.

`make test` runs 20 faults, `make soak` 200 more. Each prints its seed and number. FAULTS_SEED=7 FAULTS_ONLY=12
`python -m pytest tests/faults/test_faults.py -s` runs only number 12 of seed 7; FAULTS_SEED=8 draws other faults.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fault_bench import Bench, recovered
from fault_kinds import KINDS, Kind
from pyspark.sql import SparkSession

import tailrace as tr

SEED = int(os.environ.get("FAULTS_SEED", "7"))
ONLY = os.environ.get("FAULTS_ONLY")
LIMIT = 3 * 60.0  # seconds for each fault; it takes about half a minute while ten others run in parallel
RECORDED = ("totals", "lonely")  # only these, because checking costs a query per view and epoch
SIZES = pytest.mark.parametrize(
    ("small", "master", "share"), [(50_000, "local[2]", 0), (-1, "local[2,4]", 1)], ids=["one-task", "all-shards"]
)


def drawn(seed: int, runs: int, share: int) -> list[tuple[int, Kind]]:
    """The faults with number % 2 == share, out of `runs` numbered ones: first each kind once, then by weight."""
    rng = random.Random(seed)
    kinds = rng.sample(KINDS, len(KINDS)) + rng.choices(KINDS, [kind.weight for kind in KINDS], k=runs)
    return chosen([(number, kind) for number, kind in enumerate(kinds[:runs]) if number % 2 == share])


def chosen(faults: list[tuple[int, Kind]]) -> list[tuple[int, Kind]]:
    """The faults that FAULTS_ONLY chooses."""
    return [(number, kind) for number, kind in faults if ONLY is None or number == int(ONLY)]


def run(make: Callable[[], Bench], told: Callable[[str], None], faults: list[tuple[int, Kind]], seed: int) -> None:
    """Runs faults one after another against one store."""
    if not faults:
        pytest.skip(f"fault {ONLY} is not one of these")
    began, recoveries = time.monotonic(), []
    with make() as bench:
        history, spark = bench.path / "history.arrow", bench.db.spark
        bench.runner.wait_for("ready")
        with bench.db.record(history, RECORDED):
            for number, kind in faults:
                rng = random.Random(f"{seed}/{number}")
                bench.moment = time.monotonic()
                what = kind.happen(bench, rng)
                recoveries.append(recovered(bench, f"fault {number} of seed {seed}: {what}"))
                if (seconds := time.monotonic() - began) > LIMIT * len(faults):
                    pytest.fail(f"only {len(recoveries)} of {len(faults)} faults in {seconds / 60:.0f} minutes")
        bench.verify()
    checked = tr.check(history, spark=spark)
    level, median = checked.verdict.level.name.lower(), statistics.median(recoveries)
    told(
        f"{len(faults)} faults, recovered in {median:.1f} s (median), {max(recoveries):.1f} s (most);"
        f" {level} over {checked.epochs} epochs"
    )
    assert checked.ok, checked


@SIZES
def test_faults_at_random(
    tmp_path: Path, spark: SparkSession, told: Callable[[str], None], small: int, master: str, share: int
) -> None:
    run(lambda: Bench(tmp_path, spark, small, master), told, drawn(SEED, 20, share), SEED)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 11))
@SIZES
def test_many_faults(
    tmp_path: Path, spark: SparkSession, told: Callable[[str], None], small: int, master: str, share: int, seed: int
) -> None:
    run(lambda: Bench(tmp_path, spark, small, master), told, drawn(seed, 20, share), seed)
