"""`python -m tailrace_bench [names] [--scale S]`: figures as JSON."""

from __future__ import annotations

import argparse
import json
import sys

from tailrace_bench.benchmarks import BENCHMARKS
from tailrace_bench.measure import machine


def run(names: list[str], scale: float) -> dict[str, object]:
    figures: dict[str, object] = {"machine": machine(), "scale": scale}
    for name in names or list(BENCHMARKS):
        print(f"{name} ...", file=sys.stderr, flush=True)
        figures[name] = BENCHMARKS[name](scale)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="tailrace_bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], help="which (default: all)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size, e.g. 0.1 for a quick look")
    asked = parser.parse_args()
    print(json.dumps(run(asked.names, asked.scale), indent=1))


if __name__ == "__main__":
    main()
