"""Writes `docs/benchmarks.md`, its plots and its data file from results."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from tailrace_bench import papers
from tailrace_bench.report.page import SYSTEM, PageEntry, render_page, section_order
from tailrace_bench.report.plots import draw_plot
from tailrace_bench.results import Result

__all__ = ["write"]

HANDWRITTEN = {"TPC-H": "tpch.md", "Profiles": "profiles.md"}  # sections from files in docs/benchmarks, by heading

PER_RUN = ("commit", "load", *SYSTEM)  # may differ on one page; all other facts about the machine must be the same


def write(
    machine: dict[str, Any],
    results: Sequence[Result],
    docs: Path,
    *,
    quick: bool = False,
    failed: Collection[str] = (),
) -> bool:
    """Writes the page, its plots and its data below `docs`. Returns False if nothing changes.

    Earlier results of other experiments stay if machine and versions are the same, so one experiment can be repeated
    alone. Results of experiments that failed now are removed. A quick run never replaces or removes a full result.
    """
    data = docs / "benchmarks" / "results.json"
    earlier = _read_earlier(data, machine)
    if quick and data.exists() and not earlier:
        return False  # the page is of another machine
    full = {name for name, entry in earlier.items() if not entry.quick}
    run = {"quick": quick, **_facts_of_run(machine)}
    fresh = {r.name: PageEntry(papers.add_published(r), **run) for r in results if not (quick and r.name in full)}
    removed = set() if quick else set(failed) & set(earlier)
    if not fresh and not removed:
        return False
    kept = {name: entry for name, entry in earlier.items() if name not in removed}
    entries = sorted({**kept, **fresh}.values(), key=lambda entry: section_order(entry.result.name))
    _write_files(machine, entries, docs, data)
    return True


def _write_files(machine: dict[str, Any], entries: Sequence[PageEntry], docs: Path, data: Path) -> None:
    data.parent.mkdir(parents=True, exist_ok=True)
    for entry in entries:
        draw_plot(entry.result, data.parent / f"{entry.result.name}.svg")
    (docs / "benchmarks.md").write_text(render_page(machine, entries, _read_handwritten(data.parent)))
    runs = {e.result.name: {"quick": e.quick, "commit": e.commit, "load": e.load, "system": e.system} for e in entries}
    document = {"machine": machine, "runs": runs, "results": [e.result.json() for e in entries]}
    data.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _read_handwritten(directory: Path) -> dict[str, str]:
    """Texts of the hand-written sections that exist, by heading."""
    files = {heading: directory / name for heading, name in HANDWRITTEN.items()}
    return {heading: file.read_text() for heading, file in files.items() if file.exists()}


def _read_earlier(data: Path, machine: dict[str, Any]) -> dict[str, PageEntry]:
    """The entries of the existing page, by name. Empty if they are of another machine or other versions."""
    if not data.exists():
        return {}
    document = json.loads(data.read_text())
    if _constant_facts(document["machine"]) != _constant_facts(machine):
        return {}
    common = _facts_of_run(document["machine"])
    runs = {name: {**common, **run} for name, run in document["runs"].items()}
    return {r["name"]: PageEntry(Result.from_json(r), **runs[r["name"]]) for r in document["results"]}


def _facts_of_run(machine: dict[str, Any]) -> dict[str, Any]:
    system = {name: machine[name] for name in SYSTEM if name in machine}
    return {"commit": machine.get("commit", ""), "load": machine.get("load", 0.0), "system": system}


def _constant_facts(machine: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in machine.items() if key not in PER_RUN}
