"""Random queries over random schemas equal Spark's answer after every epoch."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace_fuzz.features import Features
from tailrace_fuzz.report import described, summary
from tailrace_fuzz.run import Outcome, play
from tailrace_fuzz.scenarios import PER_STORE, scenario

SEED, QUERIES = "suite", 100
# Features that views may not have yet, and refusals that are meant: any other is a failure.
NOT_YET: tuple[str, ...] = ()
MEANT = {"an outer, semi or anti join with a condition other than an equality, over nested types"}
MOST_INVALID = 2  # of a store's queries, those that Spark itself may refuse


@pytest.mark.parametrize("group", range(QUERIES // PER_STORE))
def test_fuzz_equals_recompute(spark: Any, group: int) -> None:
    require_equal(play(spark, scenario(SEED, group, Features.of(without=NOT_YET))), SEED)


def require_equal(outcome: Outcome, seed: str) -> None:
    """Fails if a view differed from Spark's answer, or was refused without a known reason."""
    without = f" --without {','.join(NOT_YET)}" if NOT_YET else ""
    replay = f"python -m tailrace_fuzz --seed {seed}{without} --only"
    told = [described(f, f"{replay} {f.view.number}") for f in outcome.findings]
    assert not told, "\n".join(told)
    assert outcome.refused.keys() <= MEANT, summary(outcome)
    assert len(outcome.invalid) <= MOST_INVALID, outcome.invalid
