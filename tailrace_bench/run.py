"""Running benchmarks by name: what `tailrace bench` does."""

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
    epochs,
    freshness,
    joins,
    many,
    scans,
    selections,
    skew,
    writes,
)
from tailrace_bench.machine import machine
from tailrace_bench.measure import timed
from tailrace_bench.peers import compare
from tailrace_bench.results import Result, Target
from tailrace_bench.size import Size
from tailrace_bench.tpch import bench as tpch

Benchmark: TypeAlias = Callable[[Size], Result]

USUAL: tuple[Benchmark, ...] = (
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
NAMED: tuple[Benchmark, ...] = (tpch.tpch, many.views)  # long: only when they are asked for
BENCHMARKS = {benchmark.__name__: benchmark for benchmark in (*USUAL, *PEERS, *NAMED)}


@dataclass(frozen=True)
class Run:
    """What was found, and what failed, by name. All of it was measured on one machine, one after another."""

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
    """Run these benchmarks, or the usual ones. One that fails is reported, and the others go on.

    A run that is told to end takes the processes and directories that it made with it.
    """
    done = Run(machine(), size.name, [], {})
    asked = False

    def end() -> None:
        nonlocal asked
        asked = True
        raise SystemExit(1)

    with caught(end, signal.SIGTERM):
        usual = USUAL if size is Size.QUICK else (*USUAL, *PEERS)  # starting others' systems alone takes minutes
        for name in names or [benchmark.__name__ for benchmark in usual]:
            _run_one(name, size, done)
            if asked:  # a call into Spark may have made another error of it
                raise SystemExit(1)
    return done


def _run_one(name: str, size: Size, done: Run) -> None:
    _say(f"{name} ...")
    try:
        seconds, result = timed(partial(BENCHMARKS[name], size))
    except Exception as error:
        traceback.print_exc()
        done.failed[name] = f"{type(error).__name__}: {error}"
        _say(f"{name} failed: {error}")
        return
    done.results.append(dataclasses.replace(result, seconds=round(seconds, 1)))
    _say(f"{name}: {seconds:.1f} s" + "".join(f"\n  {_told(target)}" for target in result.targets))


def _told(target: Target) -> str:
    bound = "at least" if target.at_least else "at most"
    return f"{'met' if target.met else 'MISSED'}: {target.what}: {target.got:.3g}, wanted {bound} {target.wanted:.3g}"


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
