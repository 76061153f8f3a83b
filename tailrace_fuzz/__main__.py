"""`python -m tailrace_fuzz --queries 1000 --seed 7`: searches for queries whose views differ from Spark's answer."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from pyspark.sql import SparkSession

from tailrace.spark.session import session
from tailrace_fuzz.features import FEATURES, Features
from tailrace_fuzz.places import Place, embedded, on_hbase
from tailrace_fuzz.report import described, regression, summary
from tailrace_fuzz.run import Finding, Outcome, play
from tailrace_fuzz.scenarios import PER_STORE, Scenario, scenario
from tailrace_fuzz.shrink import Shrinker
from tailrace_hbase.local_cluster import LocalCluster


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tailrace_fuzz", description=__doc__)
    parser.add_argument("--queries", type=int, default=200, help="number of queries")
    parser.add_argument("--seed", default="0", help="seed of the queries; the same seed makes the same queries")
    parser.add_argument("--only", type=int, help="run only the query with this number")
    parser.add_argument(
        "--features", default="", help=f"use only these features, each as name or name=weight: {', '.join(FEATURES)}"
    )
    parser.add_argument("--without", default="", help="use all features except these")
    parser.add_argument("--shrink", type=float, default=120, help="seconds to spend on shrinking a finding; 0 to skip")
    parser.add_argument(
        "--hbase", metavar="DIRECTORY", help="keep the stores on the local HBase cluster in this directory (make hbase)"
    )
    parser.add_argument("--show", action="store_true", help="print the queries and do not run them")
    return parser.parse_args(argv)


def main() -> None:
    options = parse_arguments()
    features = Features.of(_split_names(options.features), _split_names(options.without))
    if options.show:
        print_queries(options, features)
        return
    # There are many plans and each runs only a few times, so compile fast rather than well, with a large code cache.
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m")
    sys.exit(1 if run(session(), options, features) else 0)


def print_queries(options: argparse.Namespace, features: Features) -> None:
    for _, scenario_ in _scenarios(options, features):
        print("\n".join(t.ddl for t in scenario_.tables))
        print("\n".join(f"-- {v.number}\n{v.sql}" for v in scenario_.views))


def run(spark: SparkSession, options: argparse.Namespace, features: Features) -> int:
    """Runs all queries. Returns the number of findings."""
    total, began = Outcome(), time.monotonic()
    place = embedded if options.hbase is None else on_hbase(LocalCluster(options.hbase))
    for done, (group, played) in enumerate(_scenarios(options, features), start=1):
        outcome = play(spark, played, place)
        total.add(outcome)
        for view, reason in outcome.invalid:
            print(f"INVALID query {view.number}: {reason}\n  {view.sql}", flush=True)
        for finding in outcome.findings:
            report_finding(spark, played, finding, options, place)
        seconds = time.monotonic() - began
        print(
            f"store {group}: {total.maintained} views of {done} stores in {seconds:.0f} s", file=sys.stderr, flush=True
        )
    print(summary(total))
    return len(total.findings)


def report_finding(
    spark: SparkSession, played: Scenario, finding: Finding, options: argparse.Namespace, place: Place
) -> None:
    named = ("features", "without", "hbase")
    switches = "".join(f" --{n} {getattr(options, n)}" for n in named if getattr(options, n))
    replay = f"python -m tailrace_fuzz --seed {options.seed} --only {finding.view.number}{switches}"
    print(described(finding, replay), flush=True)
    if options.shrink > 0:
        shrinker = Shrinker(spark, finding, options.shrink, place)
        small = shrinker.shrink(played)
        print(f"shrunk in {shrinker.trials} trials:\n\n{regression(small, finding)}\n", flush=True)


def _scenarios(options: argparse.Namespace, features: Features) -> list[tuple[int, Scenario]]:
    if options.only is not None:
        group = options.only // PER_STORE
        return [(group, scenario(options.seed, group, features).only([options.only]))]
    groups = range((options.queries + PER_STORE - 1) // PER_STORE)
    counts = [min(PER_STORE, options.queries - g * PER_STORE) for g in groups]
    return [(g, scenario(options.seed, g, features, n)) for g, n in zip(groups, counts, strict=True)]


def _split_names(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


if __name__ == "__main__":
    main()
