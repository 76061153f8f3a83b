"""Running benchmarks by name: what `tailrace bench` does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tailrace_bench import benchmarks, many
from tailrace_bench.machine import machine
from tailrace_bench.tpch import bench as tpch

Figures = dict[str, Any]


@dataclass(frozen=True)
class Benchmark:
    """A benchmark, the scale it is run at unless told otherwise, and whether it is run without being named."""

    run: Callable[[float], Figures]
    scale: float = 1.0
    usual: bool = True


BENCHMARKS = {
    "sums": Benchmark(benchmarks.sums),
    "filters": Benchmark(benchmarks.filters),
    "flat": Benchmark(benchmarks.flat),
    "small": Benchmark(benchmarks.small),
    "tpch": Benchmark(tpch.tpch, scale=0.1, usual=False),
    "views": Benchmark(many.views, usual=False),
}


def run(names: Sequence[str], scale: float | None) -> Figures:
    """The figures of these benchmarks, or of the usual ones."""
    figures: Figures = {"machine": machine()}
    for name in names or [n for n, b in BENCHMARKS.items() if b.usual]:
        at = BENCHMARKS[name].scale if scale is None else scale
        print(f"{name}, scale {at:g} ...", file=sys.stderr, flush=True)
        figures[name] = {"scale": at, **BENCHMARKS[name].run(at)}
    return figures
