"""Renders the Markdown of `docs/benchmarks.md`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tailrace_bench.report import tables
from tailrace_bench.report.style import line_label
from tailrace_bench.report.targets import format_goal, format_got, targets_summary, verdict
from tailrace_bench.results import Result

# Sections of the page: compared with limits, with peers, the papers' experiments, on HBase, scaling.
ORDER = (
    *("sums", "extremes", "selection", "projection", "join", "selections"),
    *("peers_sum", "peers_extremes", "peers_filter", "peers_join", "peers_size"),
    *("aggregation", "multiquery", "viewtables", "scans", "writes", "freshness", "skew"),
    *("hbase_writes", "hbase_steps", "hbase_freshness", "hbase_reads"),
    *("delta", "size", "limits"),
)

INTRODUCTION = """# Benchmarks

`make bench` writes this page and its plots. Every workload has a fixed seed and a warm-up. A figure is the median of
its runs, with the minimum and the maximum in brackets. Every view is verified by recomputation before its figures
count, and all writes are durable. Limits and peers are measured in the same run as Tailrace, so on a noisy machine
ratios are more reliable than absolute figures. Papers' figures come from their texts and were measured on their
clusters at their time; lines called "computed" follow from the text by the arithmetic in their note."""

REPEAT = """## How to repeat it

```
make bench-peers                    # installs the other systems, each in its own venv
make bench                          # runs everything and writes this page
make bench BENCH="sums --quick"     # runs one experiment with small sizes and keeps this page
```

The name of an experiment is the name of its plot. All figures are in
[benchmarks/results.json](benchmarks/results.json)."""

QUICK = "> From a quick run (`--quick`): small sizes and few repeats. Do not quote these figures."

_MACHINE = {
    "cpu": "CPU",
    "cores": "cores",
    "memory_gib": "memory, GiB",
    "kernel": "kernel",
    "filesystem": "file system of the stores",
    "python": "Python",
    "java": "Java",
    "pyspark": "PySpark",
    "pyarrow": "PyArrow",
    "lmdb": "LMDB for Python",
    "tailrace": "Tailrace",
    "load": "load at the start of the last run",
}


SYSTEM = ("kernel", "python", "java")  # may be of other versions in some sections, which say so


@dataclass(frozen=True)
class PageEntry:
    """A result and the run that measured it. `system` has the facts of SYSTEM about that run."""

    result: Result
    quick: bool = False
    commit: str = ""
    load: float = 0.0
    system: Mapping[str, str] = field(default_factory=dict)


def render_page(machine: dict[str, Any], entries: Sequence[PageEntry], handwritten: Mapping[str, str]) -> str:
    """The whole page. `handwritten` are the sections at its end, by heading."""
    results, quick = [e.result for e in entries], {e.result.name for e in entries if e.quick}
    parts = [INTRODUCTION]
    if quick:
        names = ", ".join(f"[{r.name}](#{r.name})" for r in results if r.name in quick)
        parts.append(f"> From a quick run with small sizes and few repeats; do not quote: {names}.")
    parts += ["## Targets", targets_summary(results, quick), "## Machine", _machine_table(machine), REPEAT]
    parts.append("## Experiments")
    if absent := [name for name in ORDER if name not in {r.name for r in results}]:
        parts.append(f"Not measured here: {', '.join(absent)}.")
    parts += [_render_section(entry, machine) for entry in entries]
    for heading, text in handwritten.items():
        parts += [f"## {heading}", text.strip()]
    return "\n\n".join(parts) + "\n"


def section_order(name: str) -> tuple[int, str]:
    """Sort key of an experiment's section: its place in ORDER, and after those the unknown ones by name."""
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def _machine_table(machine: dict[str, Any]) -> str:
    """Only the facts listed in _MACHINE: a page must not show host names or paths."""
    rows = [[label, str(machine[key])] for key, label in _MACHINE.items() if key in machine]
    return tables.markdown_table(["", ""], rows)


def _render_section(entry: PageEntry, machine: Mapping[str, Any]) -> str:
    result = entry.result
    parts = [f'<a id="{result.name}"></a>\n\n### {result.title}', result.question]
    if entry.quick:
        parts.append(QUICK)
    parts += [
        f"![{result.title}](benchmarks/{result.name}.svg)",
        _describe_run(entry, machine),
        tables.figures_table(result),
    ]
    if ratios := tables.ratios_table(result):
        parts += ["Ratios of Tailrace to limits and peers; above 1, Tailrace is faster:", ratios]
    if result.targets:
        lines = (f"- {t.what}: {format_got(t)}, goal {format_goal(t)}, {verdict(t)}." for t in result.targets)
        parts += ["Targets:", "\n".join(lines)]
    if result.paper:
        paper = result.paper
        parts.append(f"**The paper.** *{paper.title}*, {paper.figure}. {paper.finding}")
    if notes := _collect_notes(result):
        parts += ["Notes:", "\n".join(f"- {note}" for note in notes)]
    return "\n\n".join(parts)


def _describe_run(entry: PageEntry, machine: Mapping[str, Any]) -> str:
    """What was measured, and the load, the commit and the duration of the run; versions if they were other ones."""
    facts = [f"load {entry.load:g} at the start of the run"]
    if entry.commit:
        facts.append(f"commit {entry.commit}")
    if entry.result.seconds:
        facts.append(f"took {entry.result.seconds:.0f} s")
    others = {name: version for name, version in entry.system.items() if version != machine.get(name)}
    facts += [f"{_MACHINE[name]} {version}" for name, version in others.items()]
    return f"Measured: {entry.result.y} ({', '.join(facts)})."


def _collect_notes(result: Result) -> list[str]:
    """Notes of the lines, which a reader needs to compare them, then those of the result."""
    lines = [f"{line_label(line)}: {line.note}" for line in result.lines if line.note]
    return lines + list(result.notes)
