"""What the tree promises its readers. `make lint` checks which room may import which (pyproject.toml)."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import tailrace

PACKAGE = Path(tailrace.__file__).parent


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def test_no_two_modules_share_a_name() -> None:
    """Except those that every kind of store has (`store/store_ref.py`)."""
    shared = {"__init__", "__main__", "attached", "opening"}
    names = Counter(p.stem for p in PACKAGE.rglob("*.py") if p.stem not in shared)
    assert [name for name, count in names.items() if count > 1] == []


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
