"""Packages import only from those before them in the data flow."""

from __future__ import annotations

import ast
from pathlib import Path

import tailrace

FLOW = ["store", "source", "plan", "maintain", "views", "verify"]
PACKAGE = Path(tailrace.__file__).parent


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def packages(path: Path) -> set[str]:
    parts = (name.split(".") for name in imported(path))
    return {p[1] for p in parts if p[0] == "tailrace" and len(p) > 1}


def test_imports_go_leftwards() -> None:
    wrong = [
        (str(path.relative_to(PACKAGE)), used)
        for number, name in enumerate(FLOW)
        for path in (PACKAGE / name).rglob("*.py")
        for used in packages(path) & set(FLOW[number + 1 :])
    ]
    assert wrong == []


def test_flow_does_not_know_the_surface() -> None:
    surface = {"database", "statements", "definitions", "building", "maintained", "explaining", "status"}
    surface |= {"cli", "demo", "loading", "commands", "admission", "querying", "snapshots", "transactions"}
    surface |= {"auditing", "repairing"}
    wrong = [
        (name, path.name, used)
        for name in FLOW
        for path in (PACKAGE / name).rglob("*.py")
        for used in packages(path) & surface
    ]
    assert wrong == []


def test_the_planner_needs_no_spark() -> None:
    wrong = [p.name for p in (PACKAGE / "plan").rglob("*.py") if any(n.startswith("pyspark") for n in imported(p))]
    assert wrong == []


def test_verification_does_not_use_what_it_verifies() -> None:
    wrong = [p.name for p in (PACKAGE / "verify").rglob("*.py") if "maintain" in packages(p)]
    assert wrong == []


def test_no_pickle_is_read_from_disk() -> None:
    wrong = [str(p) for p in PACKAGE.rglob("*.py") if imported(p) & {"pickle", "marshal", "shelve", "cloudpickle"}]
    assert wrong == []
