"""`python -m tailrace_fuzz --queries 1000 --seed 7`: look for queries whose views are not what Spark says."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from pyspark.sql import SparkSession

from tailrace.spark.session import session
from tailrace_fuzz.features import FEATURES, Features
from tailrace_fuzz.report import described, regression, summary
from tailrace_fuzz.run import Finding, Outcome, play
from tailrace_fuzz.scenarios import PER_STORE, Scenario, scenario
from tailrace_fuzz.shrink import Shrinker


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tailrace_fuzz", description=__doc__)
    parser.add_argument("--queries", type=int, default=200, help="how many")
    parser.add_argument("--seed", default="0", help="what they follow from")
    parser.add_argument("--only", type=int, help="play this query of the seed alone")
    parser.add_argument("--features", default="", help=f"only these, as name or name=weight: {', '.join(FEATURES)}")
    parser.add_argument("--without", default="", help="all features but these")
    parser.add_argument("--shrink", type=float, default=120, help="seconds to spend on making a finding small")
    parser.add_argument("--show", action="store_true", help="print the queries, play nothing")
    return parser.parse_args(given)


def main() -> None:
    asked = arguments()
    features = Features.of(_names(asked.features), _names(asked.without))
    if asked.show:
        show(asked, features)
        return
    # Many plans, each run a few times: compile quickly, not well, and keep room for all of it.
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m")
    sys.exit(1 if run(session(), asked, features) else 0)


def show(asked: argparse.Namespace, features: Features) -> None:
    for _, found in _scenarios(asked, features):
        print("\n".join(t.ddl for t in found.tables))
        print("\n".join(f"-- {v.number}\n{v.sql}" for v in found.views))


def run(spark: SparkSession, asked: argparse.Namespace, features: Features) -> int:
    """Play them all; the number of findings."""
    total, began = Outcome(), time.monotonic()
    for done, (group, found) in enumerate(_scenarios(asked, features), start=1):
        outcome = play(spark, found)
        total.add(outcome)
        for view, reason in outcome.invalid:
            print(f"INVALID query {view.number}: {reason}\n  {view.sql}", flush=True)
        for finding in outcome.findings:
            tell(spark, found, finding, asked)
        seconds = time.monotonic() - began
        print(
            f"store {group}: {total.maintained} views of {done} stores in {seconds:.0f} s", file=sys.stderr, flush=True
        )
    print(summary(total))
    return len(total.findings)


def tell(spark: SparkSession, found: Scenario, finding: Finding, asked: argparse.Namespace) -> None:
    switches = "".join(f" --{n} {getattr(asked, n)}" for n in ("features", "without") if getattr(asked, n))
    replay = f"python -m tailrace_fuzz --seed {asked.seed} --only {finding.view.number}{switches}"
    print(described(finding, replay), flush=True)
    if asked.shrink > 0:
        shrinker = Shrinker(spark, finding, asked.shrink)
        small = shrinker.shrink(found)
        print(f"after {shrinker.trials} trials:\n\n{regression(small, finding)}\n", flush=True)


def _scenarios(asked: argparse.Namespace, features: Features) -> list[tuple[int, Scenario]]:
    if asked.only is not None:
        group = asked.only // PER_STORE
        return [(group, scenario(asked.seed, group, features).only([asked.only]))]
    groups = range((asked.queries + PER_STORE - 1) // PER_STORE)
    counts = [min(PER_STORE, asked.queries - g * PER_STORE) for g in groups]
    return [(g, scenario(asked.seed, g, features, n)) for g, n in zip(groups, counts, strict=True)]


def _names(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


if __name__ == "__main__":
    main()
