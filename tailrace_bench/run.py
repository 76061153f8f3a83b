"""Runs benchmarks by name: the implementation of `tailrace bench`."""

from __future__ import annotations

import dataclasses
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from tailrace.database.signals import caught
from tailrace_bench import limits
from tailrace_bench.experiments import (
    aggregates,
    disk,
    epochs,
    freshness,
    joins,
    many,
    scans,
    selections,
    skew,
    writes,
)
from tailrace_bench.hbase import base_writes, reads, steps
from tailrace_bench.machine import describe_machine
from tailrace_bench.measure import time_call
from tailrace_bench.peers import compare
from tailrace_bench.results import Result, Target
from tailrace_bench.size import Size
from tailrace_bench.tpch import bench as tpch

Benchmark: TypeAlias = Callable[[Size], Result]

DEFAULT: tuple[Benchmark, ...] = (
    limits.limits,
    aggregates.sums,
    aggregates.extremes,
    selections.selection,
    selections.projection,
    aggregates.aggregation,
    joins.join,
    many.selections,
    many.multiquery,
    many.viewtables,
    epochs.delta,
    epochs.size,
    scans.scans,
    skew.skew,
    writes.writes,
    freshness.freshness,
)
PEERS: tuple[Benchmark, ...] = (
    compare.peers_sum,
    compare.peers_extremes,
    compare.peers_filter,
    compare.peers_join,
    compare.peers_size,
)
BY_NAME_ONLY: tuple[Benchmark, ...] = (tpch.tpch, many.views, disk.disk)  # too long for a run of everything
HBASE: tuple[Benchmark, ...] = (base_writes.hbase_writes, steps.hbase_steps, reads.hbase_freshness, reads.hbase_reads)
BENCHMARKS = {benchmark.__name__: benchmark for benchmark in (*DEFAULT, *PEERS, *BY_NAME_ONLY, *HBASE)}
GROUPS = {"hbase": [benchmark.__name__ for benchmark in HBASE]}  # names that stand for several benchmarks


@dataclass(frozen=True)
class Run:
    """The results of one run, and the errors of failed benchmarks by name. Benchmarks ran one after another."""

    machine: dict[str, Any]
    size: str
    results: list[Result]
    failed: dict[str, str]

    def json(self) -> dict[str, Any]:
        return {
            "machine": self.machine,
            "size": self.size,
            "results": [result.json() for result in self.results],
            "failed": self.failed,
        }


def run(names: Sequence[str], size: Size) -> Run:
    """Runs these benchmarks, or the default ones. A failing benchmark is reported and the others continue.

    SIGTERM stops the run and removes the processes and directories that it made.
    """
    report = Run(describe_machine(), size.name, [], {})
    stopping = False

    def stop() -> None:
        nonlocal stopping
        stopping = True
        raise SystemExit(1)

    with caught(stop, signal.SIGTERM):
        default = DEFAULT if size is Size.QUICK else (*DEFAULT, *PEERS)  # starting the peers alone takes minutes
        for name in _expand(names) or [benchmark.__name__ for benchmark in default]:
            _run_one(name, size, report)
            if stopping:  # a call into Spark may have replaced the SystemExit by another error
                raise SystemExit(1)
    return report


def _expand(names: Sequence[str]) -> list[str]:
    return [each for name in names for each in GROUPS.get(name, [name])]


def _run_one(name: str, size: Size, report: Run) -> None:
    _log(f"{name} ...")
    try:
        seconds, result = time_call(partial(BENCHMARKS[name], size))
    except Exception as error:
        traceback.print_exc()
        report.failed[name] = f"{type(error).__name__}: {error}"
        _log(f"{name} failed: {error}")
        return
    report.results.append(dataclasses.replace(result, seconds=round(seconds, 1)))
    _log(f"{name}: {seconds:.1f} s" + "".join(f"\n  {_describe_target(target)}" for target in result.targets))


def _describe_target(target: Target) -> str:
    bound = "at least" if target.at_least else "at most"
    return f"{'met' if target.met else 'MISSED'}: {target.what}: {target.got:.3g}, goal {bound} {target.wanted:.3g}"


def _log(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
