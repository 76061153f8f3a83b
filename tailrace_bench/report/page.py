"""The page of all results, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tailrace_bench.report import tables
from tailrace_bench.report.style import tag
from tailrace_bench.report.targets import got, summary, verdict, wanted
from tailrace_bench.results import Result

# Experiments as the page tells them: against the limit, against others, as the papers asked, how it scales.
ORDER = (
    *("sums", "extremes", "selection", "projection", "join", "selections"),
    *("peers_sum", "peers_extremes", "peers_filter", "peers_join", "peers_size"),
    *("aggregation", "multiquery", "viewtables", "scans", "writes", "freshness", "skew"),
    *("delta", "size", "limits"),
)

INTRODUCTION = """# Benchmarks

Made by `make bench`, plots included. Every workload has a fixed seed and warms up. A figure is the median of its runs,
with the least and the most in brackets. Every view was verified by recomputation before its figures counted, and
writes are durable. Limits and peers were measured in the same run as what stands beside them, so on a noisy machine
their ratios are the steadier part. The papers' numbers are from their texts, of their clusters and their time; those
called computed follow from the text by the arithmetic in their note."""

REPEAT = """## How to repeat it

```
make bench                       # everything, and this page
make bench-peers                 # installs the other systems, each in an environment of its own; then make bench
tailrace bench NAME --quick      # one experiment, small; leaves this page as it is
```

The names are those of the plots. All figures are in [benchmarks/results.json](benchmarks/results.json)."""

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


@dataclass(frozen=True)
class Measured:
    """A result and the run it is of."""

    result: Result
    quick: bool = False
    commit: str = ""
    load: float = 0.0


def page(machine: dict[str, Any], measured: Sequence[Measured], profiles: str | None) -> str:
    results, quick = [m.result for m in measured], {m.result.name for m in measured if m.quick}
    parts = [INTRODUCTION]
    if quick:
        names = ", ".join(f"[{r.name}](#{r.name})" for r in results if r.name in quick)
        parts.append(f"> From a quick run, with small sizes and few repeats, not to be quoted: {names}.")
    parts += ["## Targets", summary(results, quick), "## Machine", _machine(machine), REPEAT, "## Experiments"]
    if absent := [name for name in ORDER if name not in {r.name for r in results}]:
        parts.append(f"Not measured here: {', '.join(absent)}.")
    parts += [_section(m) for m in measured]
    if profiles is not None:
        parts += ["## Profiles", profiles.strip()]
    return "\n\n".join(parts) + "\n"


def place(name: str) -> tuple[int, str]:
    """Where the page tells of an experiment: in its order, and last those that it does not know."""
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def _machine(machine: dict[str, Any]) -> str:
    """Only what is known to be fit for a page: no names of hosts, no paths."""
    return tables.markdown(["", ""], [[words, str(machine[key])] for key, words in _MACHINE.items() if key in machine])


def _section(measured: Measured) -> str:
    result = measured.result
    parts = [f'<a id="{result.name}"></a>\n\n### {result.title}', result.question]
    if measured.quick:
        parts.append(QUICK)
    parts += [f"![{result.title}](benchmarks/{result.name}.svg)", _run(measured), tables.figures(result)]
    if ratios := tables.ratios(result):
        parts += ["Ours beside limits and peers; above 1, ours is ahead:", ratios]
    if result.targets:
        said = (f"- {t.what}: {got(t)}, wanted {wanted(t)}, {verdict(t)}." for t in result.targets)
        parts += ["Targets:", "\n".join(said)]
    if result.paper:
        paper = result.paper
        parts.append(f"**The paper.** *{paper.title}*, {paper.figure}. {paper.finding}")
    if notes := _notes(result):
        parts += ["Notes:", "\n".join(f"- {note}" for note in notes)]
    return "\n\n".join(parts)


def _run(measured: Measured) -> str:
    """What was measured, beside how much load, of which commit, and for how long."""
    facts = [f"load {measured.load:g} when its run began"]
    if measured.commit:
        facts.append(f"commit {measured.commit}")
    if measured.result.seconds:
        facts.append(f"took {measured.result.seconds:.0f} s")
    return f"Measured: {measured.result.y} ({', '.join(facts)})."


def _notes(result: Result) -> list[str]:
    """What a reader must know to compare the lines, then what else there is to know."""
    lines = [f"{tag(line)}: {line.note}" for line in result.lines if line.note]
    return lines + list(result.notes)
