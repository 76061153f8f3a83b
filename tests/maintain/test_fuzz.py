"""Random queries over random schemas equal Spark's answer after every epoch."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace_fuzz.features import Features
from tailrace_fuzz.report import described, summary
from tailrace_fuzz.run import play
from tailrace_fuzz.scenarios import PER_STORE, scenario

SEED, QUERIES = "suite", 200
# Constructs that views may not say yet. A refusal of anything else is a failure.
NOT_YET = (
    "windows", "limit", "rank", "setops", "grouping_sets", "explode", "values", "scalar", "in", "exists", "correlated",
)  # fmt: skip
MOST_INVALID = 2  # of a store's queries, those that Spark itself may refuse


@pytest.mark.parametrize("group", range(QUERIES // PER_STORE))
def test_fuzz_equals_recompute(spark: Any, group: int) -> None:
    outcome = play(spark, scenario(SEED, group, Features.of(without=NOT_YET)))
    replay = f"python -m tailrace_fuzz --seed {SEED} --without {','.join(NOT_YET)} --only"
    told = [described(f, f"{replay} {f.view.number}") for f in outcome.findings]
    assert not told, "\n".join(told)
    assert not outcome.refused, summary(outcome)
    assert len(outcome.invalid) <= MOST_INVALID, outcome.invalid
