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


def test_nothing_that_is_read_can_be_code() -> None:
    """Documents are JSON. Spark pickles closures, from process to process; Tailrace itself never unpickles."""
    modules = {"pickle", "_pickle", "dill", "marshal", "shelve", "cloudpickle", "joblib", "yaml", "runpy"}
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        wrong += [(str(path), name) for name in imported(path) if set(name.split(".")) & modules]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _called(node.func) in _RUNNING:
                wrong.append((str(path), ast.unparse(node)))
    assert wrong == []


_RUNNING = {"eval", "exec", "__import__", "os.system", "os.popen"}
_RUNNING |= {"np.load", "numpy.load", "pa.deserialize", "pd.read_pickle"}


def _called(function: ast.expr) -> str:
    return ast.unparse(function) if isinstance(function, ast.Name | ast.Attribute) else ""


def test_no_command_goes_through_a_shell() -> None:
    wrong = [
        (str(path), ast.unparse(node))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.keyword) and node.arg == "shell"
    ]
    assert wrong == []
