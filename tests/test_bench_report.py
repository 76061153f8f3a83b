"""The benchmarks' page: what it shows for given results, what it keeps between runs, and the papers' figures."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tailrace_bench import papers, units
from tailrace_bench.machine import describe_machine
from tailrace_bench.report import HANDWRITTEN, write
from tailrace_bench.report.page import ORDER, PageEntry, render_page
from tailrace_bench.report.plots import has_numeric_axis
from tailrace_bench.results import Line, Point, Result, Spread, Target, Whose

MACHINE: dict[str, Any] = {"cpu": "a CPU", "cores": 2, "memory_gib": 23.5, "pyspark": "4.3.0", "load": 0.25}
MET = Target("sums: share of the scan", 0.6, 0.63)
MISSED = Target("selection: share of the writes", 0.6, 0.45, why="Rows cross between processes.")
LATE = Target("p99, seconds", 2, 2.5, at_least=False)


def line(name: str, whose: Whose, *points: tuple[float | str, float], note: str = "") -> Line:
    return Line(name, whose, tuple(Point(x, Spread.of([y * 0.9, y, y * 1.2])) for x, y in points), note)


def result(name: str, *lines: Line, y: str = "operations/s", targets: tuple[Target, ...] = (), **more: Any) -> Result:
    return Result(name, f"Title of {name}", f"What of {name}?", "axis", y, lines, targets=targets, **more)


SUMS = result(
    "sums",
    line("Tailrace", Whose.TAILRACE, (1_000, 3e6), (10_000, 2.9e6)),
    line("log scan", Whose.LIMIT, ("", 5e6)),
    targets=(MET,),
    log_x=True,
    seconds=12.5,
)
SELECTION = result(
    "selection",
    line("Tailrace", Whose.TAILRACE, ("20%", 1e6), ("80%", 5e5)),
    line("LMDB writes", Whose.LIMIT, ("20%", 8e6), ("80%", 4e6)),
    line("Flink", Whose.PEER, ("20%", 5e5), ("80%", 4e5), note="nothing: a blackhole"),
    targets=(MISSED,),
)
FRESHNESS = result(
    "freshness",
    line("p50", Whose.TAILRACE, (10_000, 0.4), (50_000, 0.6)),
    line("empty job", Whose.LIMIT, ("", 0.03)),
    y="seconds from write to readable",
    targets=(LATE,),
    log_y=True,
)
SCANS = result(
    "scans",
    line("view", Whose.TAILRACE, (10_000, 0.09), (1_000_000, 0.09)),
    line("client scan", Whose.PEER, (10_000, 50.0), (1_000_000, 5_000.0)),
    y="latency, ms",
    log_x=True,
    log_y=True,
)
OTHER = result("unheard_of", line("Tailrace", Whose.TAILRACE, ("", 7.0)), y="views & <tables>")
ALL = [FRESHNESS, OTHER, SELECTION, SUMS, SCANS]


def page(docs: Path) -> str:
    return (docs / "benchmarks.md").read_text()


def section(docs: Path, name: str) -> str:
    (text,) = re.findall(rf'<a id="{name}"></a>(.*?)(?=<a id=|\n## |\Z)', page(docs), re.DOTALL)
    return str(text)


def data(docs: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((docs / "benchmarks" / "results.json").read_text())
    return document


def test_a_page_with_a_plot_for_each_result(tmp_path: Path) -> None:
    assert write(MACHINE, ALL, tmp_path)
    for name in ("sums", "selection", "scans", "freshness", "unheard_of"):
        assert f"![Title of {name}](benchmarks/{name}.svg)" in section(tmp_path, name)
        root = ElementTree.parse(tmp_path / "benchmarks" / f"{name}.svg").getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert f"Title of {name}" in "".join(root.itertext())
    anchors = re.findall(r'<a id="(\w+)">', page(tmp_path))
    assert anchors == ["sums", "selection", "scans", "freshness", "unheard_of"]
    assert "Not measured here: extremes, projection" in page(tmp_path)


@pytest.mark.parametrize("shown", [SUMS, SELECTION], ids=lambda r: r.name)
def test_every_line_is_named_in_its_plot(tmp_path: Path, shown: Result) -> None:
    write(MACHINE, [shown], tmp_path)
    text = "".join(ElementTree.parse(tmp_path / "benchmarks" / f"{shown.name}.svg").getroot().itertext())
    assert all(line.name in text for line in shown.lines)


def test_the_same_results_make_the_same_bytes(tmp_path: Path) -> None:
    for docs in (tmp_path / "a", tmp_path / "b"):
        write(MACHINE, ALL, docs)
    for file in (tmp_path / "a").rglob("*.*"):
        assert file.read_bytes() == (tmp_path / "b" / file.relative_to(tmp_path / "a")).read_bytes(), file.name


def test_targets_come_first_and_misses_say_why(tmp_path: Path) -> None:
    write(MACHINE, ALL, tmp_path)
    top = page(tmp_path).split("## Machine")[0]
    assert "1 of 3 targets are met." in top
    assert "| [sums: share of the scan](#sums) | ≥ 0.6 | 0.63 | met |" in top
    assert "| [selection: share of the writes](#selection) | ≥ 0.6 | 0.45 | **missed** by 25% |" in top
    assert "| [p99, seconds](#freshness) | ≤ 2 | 2.5 | **missed** by 25% |" in top
    assert "- selection: share of the writes: Rows cross between processes." in top
    assert "- p99, seconds: the cause is not known yet." in top


@pytest.mark.parametrize(
    ("target", "row"),
    [
        (Target("t", 1, 0.9999), "| ≥ 1 | 0.9999 | **missed** by less than 1% |"),
        (Target("t", 0, 0.2, at_least=False), "| ≤ 0 | 0.2 | **missed** by 0.2 |"),
        (Target("t", 1.1e6, 1.25e6), "| ≥ 1.1 M | 1.25 M | met |"),
        (Target("t", 1, math.nan), "| ≥ 1 | nan | **not measured** |"),
    ],
)
def test_no_miss_looks_like_a_hit(tmp_path: Path, target: Target, row: str) -> None:
    write(MACHINE, [replace(SUMS, targets=(target,))], tmp_path)
    assert row in page(tmp_path)


def test_figures_with_spread_shares_and_ratios(tmp_path: Path) -> None:
    write(MACHINE, ALL, tmp_path)
    selection = section(tmp_path, "selection")
    assert "| **Tailrace** | 1 M/s (900 k/s to 1.2 M/s) | 500 k/s (450 to 600 k/s) |" in selection
    assert "| Tailrace, share of LMDB writes | 0.12 | 0.12 |" in selection
    assert "| Tailrace vs Flink | 2.00× | 1.25× |" in selection
    assert "- Flink: nothing: a blackhole" in selection
    sums = section(tmp_path, "sums")
    assert "| Tailrace, share of log scan | 0.60 | 0.58 |" in sums
    assert "load 0.25 at the start of the run, took 12 s" in sums
    scans = section(tmp_path, "scans")  # a smaller time is better
    assert "| view vs client scan | 560× | 56 k× |" in scans
    assert "90 µs" in scans


def test_data_can_be_read_back(tmp_path: Path) -> None:
    write(MACHINE, ALL, tmp_path)
    results = {r["name"]: Result.from_json(r) for r in data(tmp_path)["results"]}
    assert results == {r.name: papers.add_published(r) for r in ALL}
    assert results["sums"].seconds == 12.5


def test_one_experiment_is_repeated_alone(tmp_path: Path) -> None:
    write(MACHINE, ALL, tmp_path)
    again = replace(SUMS, lines=(line("Tailrace", Whose.TAILRACE, (1_000, 4e6), (10_000, 4e6)),))
    assert write({**MACHINE, "load": 3.5, "commit": "abc1234"}, [again], tmp_path)
    assert "4 M/s" in section(tmp_path, "sums")
    assert "load 3.5 at the start of the run, commit abc1234" in section(tmp_path, "sums")
    assert "load 0.25 at the start of the run" in section(tmp_path, "selection")


def test_results_of_another_machine_do_not_stay(tmp_path: Path) -> None:
    write(MACHINE, ALL, tmp_path)
    write({**MACHINE, "pyspark": "4.4.0"}, [SUMS], tmp_path)
    assert [r["name"] for r in data(tmp_path)["results"]] == ["sums"]


def test_an_experiment_that_fails_loses_its_figures(tmp_path: Path) -> None:
    write(MACHINE, ALL, tmp_path)
    assert write(MACHINE, [], tmp_path, failed=["sums"])
    assert '<a id="sums">' not in page(tmp_path)
    assert "Not measured here: sums, " in page(tmp_path)


def test_quick_runs_leave_full_ones_alone(tmp_path: Path) -> None:
    write(MACHINE, [SUMS], tmp_path)
    before = page(tmp_path)
    assert not write(MACHINE, [SUMS], tmp_path, quick=True, failed=["sums"])
    assert not write({**MACHINE, "cpu": "another"}, [SELECTION], tmp_path, quick=True)
    assert page(tmp_path) == before


def test_quick_runs_are_marked_and_do_not_count(tmp_path: Path) -> None:
    write(MACHINE, [SUMS], tmp_path)
    assert write(MACHINE, [replace(SELECTION, targets=(MET,))], tmp_path, quick=True)
    assert "From a quick run" in section(tmp_path, "selection")
    assert "From a quick run" not in section(tmp_path, "sums")
    assert "do not quote: [selection](#selection)." in page(tmp_path)
    assert "1 of 1 targets are met. 1 more come from quick runs, which do not count." in page(tmp_path)
    assert "| met, in a quick run |" in page(tmp_path)
    write(MACHINE, [SELECTION], tmp_path)
    assert "quick run" not in page(tmp_path).split("## How to repeat it")[0]


def test_one_experiment_is_repeated_with_other_versions_of_the_system(tmp_path: Path) -> None:
    write({**MACHINE, "kernel": "Linux 6.1", "python": "3.11.2"}, [SUMS, SELECTION], tmp_path)
    write({**MACHINE, "kernel": "Linux 6.2", "python": "3.11.2"}, [SELECTION], tmp_path)
    assert "kernel Linux 6.1" in section(tmp_path, "sums")
    assert "kernel" not in section(tmp_path, "selection")
    assert "Python 3.11.2" not in section(tmp_path, "sums")
    assert "| kernel | Linux 6.2 |" in page(tmp_path)
    write({**MACHINE, "cpu": "another CPU"}, [SELECTION], tmp_path)
    assert '<a id="sums">' not in page(tmp_path)


def test_handwritten_sections_are_part_of_the_page(tmp_path: Path) -> None:
    write(MACHINE, [SUMS], tmp_path)
    assert "## Profiles" not in page(tmp_path)
    assert "## TPC-H" not in page(tmp_path)
    (tmp_path / "benchmarks" / "profiles.md").write_text("Most of it is sorting.\n")
    (tmp_path / "benchmarks" / "tpch.md").write_text("Q1 takes 0.1 s.\n")
    write(MACHINE, [SUMS], tmp_path)
    assert page(tmp_path).endswith("## TPC-H\n\nQ1 takes 0.1 s.\n\n## Profiles\n\nMost of it is sorting.\n")


def test_the_committed_page_is_what_its_data_and_the_code_say(tmp_path: Path) -> None:
    docs = Path(__file__).parent.parent / "docs"
    document = data(docs)
    entries = [PageEntry(Result.from_json(r), **document["runs"][r["name"]]) for r in document["results"]]
    texts = {heading: (docs / "benchmarks" / name).read_text() for heading, name in HANDWRITTEN.items()}
    assert page(docs) == render_page(document["machine"], entries, texts)
    assert [entry.result for entry in entries] == [papers.add_published(entry.result) for entry in entries]


def test_the_machine_is_described_without_names_and_paths(tmp_path: Path) -> None:
    facts = describe_machine()
    write({**facts, "host": "secret", "path": "/secret"}, [SUMS], tmp_path)
    assert "secret" not in page(tmp_path)
    assert {"cpu", "cores", "memory_gib", "kernel", "filesystem", "python", "java", "load"} <= set(facts)
    assert not any("/" in str(value) for value in facts.values())


@pytest.mark.parametrize("name", sorted(papers.PUBLISHED))
def test_papers_belong_to_known_experiments(name: str) -> None:
    published = papers.PUBLISHED[name]
    assert name in ORDER
    assert published.paper.title in (papers.WDP, papers.VMS, papers.DYNAMIC)
    assert re.match(r"Fig(ure|\.) \d", published.paper.figure)
    assert len(published.paper.finding) > 20
    assert bool(published.lines) == (published.unit is not None)
    assert all(line.whose is Whose.PAPER and line.points and line.note for line in published.lines)


def test_papers_are_added_to_results_in_their_unit() -> None:
    scans = papers.add_published(SCANS)
    assert scans.paper == papers.PUBLISHED["scans"].paper
    (servers, view) = scans.lines[-2:]
    assert servers.points[0].y.median == 5_000  # in ms, the unit of the result
    assert view.points[0].y.median == pytest.approx(1)
    assert papers.add_published(scans) == scans
    in_rows = replace(SELECTION, y="view rows/s")
    assert papers.add_published(in_rows).lines == in_rows.lines
    assert papers.add_published(OTHER) == OTHER


def test_published_ranges_are_shown_as_ranges(tmp_path: Path) -> None:
    write(MACHINE, [SELECTION], tmp_path)
    assert "| VMS, 50 view servers, computed (paper) | 33.3 to 62.5 k/s |" in section(tmp_path, "selection")


def test_categories_are_bars_and_numbers_are_lines() -> None:
    assert has_numeric_axis(SUMS)
    assert not has_numeric_axis(SELECTION)
    assert not has_numeric_axis(OTHER)


@pytest.mark.parametrize(
    ("value", "y", "text"),
    [
        (1_234_567, "operations/s", "1.23 M/s"),
        (999_999, "base operations per second", "1 M/s"),
        (340_000, "view updates/s", "340 k/s"),
        (0.000086, "seconds", "86 µs"),
        (0.086, "latency, ms", "86 µs"),
        (0.36, "seconds of an epoch", "360 ms"),
        (75.25, "seconds", "75.2 s"),
        (0.634, "share", "0.634"),
        (0, "operations/s", "0/s"),
    ],
)
def test_numbers_are_formatted_for_people(value: float, y: str, text: str) -> None:
    assert units.format_figure(value, y) == text
