"""`python -m tailrace_cluster start`: a local Spark cluster, for tests and first steps, and a demo on it and HBase."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tailrace.errors import TailraceError
from tailrace_cluster import demo_host, hbase_demo
from tailrace_cluster.local_spark import DIRECTORY, MASTER, LocalSpark
from tailrace_hbase import local_cluster
from tailrace_hbase.local_cluster import LocalCluster
from tailrace_hbase.problems import ClusterProblem

INTERRUPTED = 130


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tailrace_cluster", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    start = verbs.add_parser("start", help="start the master and the workers that do not run")
    start.add_argument("--workers", type=int, help="number of workers (2 in a new directory)")
    verbs.add_parser("stop", help="end all processes")
    verbs.add_parser("status", help="processes, address")
    verbs.add_parser("add", help="start one more worker")
    kill = verbs.add_parser("kill", help="SIGKILL of one process: master, w1, w2, ...; `start` starts it again")
    kill.add_argument("role")
    demo = verbs.add_parser("demo", help="views over HBase on this cluster; starts what does not run")
    demo.add_argument("--hbase", type=Path, default=local_cluster.DIRECTORY, help="directory of HBase (.hbase)")
    hbase_demo.add_options(demo)
    for verb in verbs.choices.values():
        verb.add_argument(
            "--directory", type=Path, default=DIRECTORY, help="logs, ports and files of executors (.spark)"
        )
    return parser.parse_args(argv)


def main() -> None:
    options = parse_arguments()
    try:
        sys.exit(_VERBS[options.verb](LocalSpark(options.directory), options))
    except (ClusterProblem, TailraceError) as problem:
        sys.exit(f"error: {problem}")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _start(spark: LocalSpark, options: argparse.Namespace) -> None:
    began = time.monotonic()
    started = spark.start(options.workers)
    print(f"Started {', '.join(started)} in {time.monotonic() - began:.0f} s." if started else "Spark runs already.")
    print(f"Master: {spark.url}; logs: {spark.directory / 'logs'}")


def _stop(spark: LocalSpark, options: argparse.Namespace) -> None:
    ended = spark.stop()
    print(f"Stopped {', '.join(ended)}." if ended else "Spark does not run.")


def _status(spark: LocalSpark, options: argparse.Namespace) -> int:
    running = spark.running()
    for role in (MASTER, *spark.workers):
        pid = spark.process(role).pid()
        executors = ", ".join(str(e.pid) for e in spark.executors(role)) if role != MASTER else ""
        state = "does not run" if pid is None else f"process {pid}" + (f", executors {executors}" if executors else "")
        print(f"{role:10} {state}")
    if running:
        print(f"Master: {spark.url}")
    return 0 if running else 1


def _add(spark: LocalSpark, options: argparse.Namespace) -> None:
    print(f"Started {spark.add_worker()}.")


def _kill(spark: LocalSpark, options: argparse.Namespace) -> None:
    spark.process(options.role).kill()
    print(f"Killed {options.role}.")


def _demo(spark: LocalSpark, options: argparse.Namespace) -> int:
    return demo_host.run(LocalCluster(options.hbase), spark, options)


_VERBS = {"start": _start, "stop": _stop, "status": _status, "add": _add, "kill": _kill, "demo": _demo}

if __name__ == "__main__":
    main()
