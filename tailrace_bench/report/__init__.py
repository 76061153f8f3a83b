"""The report: `docs/benchmarks.md` with its plots and its data, from results."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from tailrace_bench import papers
from tailrace_bench.report.page import Measured, page, place
from tailrace_bench.report.plots import plot
from tailrace_bench.results import Result

__all__ = ["write"]

OF_A_RUN = ("commit", "load")  # all else of a machine must be the same for its results to share a page


def write(
    machine: dict[str, Any],
    results: Sequence[Result],
    docs: Path,
    *,
    quick: bool = False,
    failed: Collection[str] = (),
) -> bool:
    """Write the page, its plots and its data below `docs`; False if these results leave them as they are.

    Results of other experiments stay, if they are of the same machine and versions, so that one experiment can be
    repeated alone; those of experiments that failed now do not. Quick runs never take the place of full ones, nor
    take anything away.
    """
    data = docs / "benchmarks" / "results.json"
    earlier = _earlier(data, machine)
    if quick and data.exists() and not earlier:
        return False  # a page of another machine
    full = {name for name, measured in earlier.items() if not measured.quick}
    run = {"quick": quick, "commit": machine.get("commit", ""), "load": machine.get("load", 0.0)}
    fresh = {r.name: Measured(papers.beside(r), **run) for r in results if not (quick and r.name in full)}
    gone = set() if quick else set(failed) & set(earlier)
    if not fresh and not gone:
        return False
    kept = {name: measured for name, measured in earlier.items() if name not in gone}
    shown = sorted({**kept, **fresh}.values(), key=lambda m: place(m.result.name))
    _write(machine, shown, docs, data)
    return True


def _write(machine: dict[str, Any], shown: Sequence[Measured], docs: Path, data: Path) -> None:
    data.parent.mkdir(parents=True, exist_ok=True)
    for measured in shown:
        plot(measured.result, data.parent / f"{measured.result.name}.svg")
    profiles = data.parent / "profiles.md"
    by_hand = profiles.read_text() if profiles.exists() else None
    (docs / "benchmarks.md").write_text(page(machine, shown, by_hand))
    runs = {m.result.name: {"quick": m.quick, "commit": m.commit, "load": m.load} for m in shown}
    found = {"machine": machine, "runs": runs, "results": [m.result.json() for m in shown]}
    data.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def _earlier(data: Path, machine: dict[str, Any]) -> dict[str, Measured]:
    """What is there already, by name; nothing if it is of another machine or of other versions."""
    if not data.exists():
        return {}
    found = json.loads(data.read_text())
    if _lasting(found["machine"]) != _lasting(machine):
        return {}
    return {r["name"]: Measured(Result.of(r), **found["runs"][r["name"]]) for r in found["results"]}


def _lasting(machine: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in machine.items() if key not in OF_A_RUN}
