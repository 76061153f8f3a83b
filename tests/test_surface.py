"""The public names and errors, and the translation of every LMDB error into one of them."""

from __future__ import annotations

import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest

import tailrace
from tailrace import errors
from tailrace.store.lmdb.environment import translate

NAMES = [
    "AuditReport",
    "Cut",
    "Database",
    "Epoch",
    "Report",
    "Restored",
    "Saved",
    "Snapshot",
    "SparkOptions",
    "Table",
    "TailraceError",
    "Transaction",
    "View",
    "Written",
    "__version__",
    "check",
    "errors",
    "open",
    "restore",
]


def test_public_names() -> None:
    assert tailrace.__all__ == NAMES
    assert all(hasattr(tailrace, name) for name in NAMES)


def test_version_is_in_the_changelog() -> None:
    changelog = (Path(__file__).parent.parent / "CHANGELOG.md").read_text()
    assert re.search(rf"^## {re.escape(tailrace.__version__)}\b", changelog, re.MULTILINE)


def test_every_error_is_in_the_docstring_tree_and_in_all() -> None:
    kinds = {n for n, k in vars(errors).items() if inspect.isclass(k) and issubclass(k, errors.TailraceError)}
    assert kinds == set(errors.__all__)
    assert errors.__doc__ is not None
    for name in kinds:
        assert name in errors.__doc__


def test_errors_carry_their_data_through_pickling() -> None:
    error = errors.OffsetGap(node=1, expected=41, found=43)
    again = pickle.loads(pickle.dumps(error))
    assert (again.node, again.expected, again.found, str(again)) == (1, 41, 43, str(error))


LMDB_ERRORS = [k for k in vars(lmdb).values() if inspect.isclass(k) and issubclass(k, lmdb.Error)]


@pytest.mark.parametrize("kind", LMDB_ERRORS, ids=lambda k: k.__name__)
def test_every_lmdb_error_is_translated(kind: type[Exception]) -> None:
    assert isinstance(translate("/store", kind("what", 0)), errors.StoreError)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (lmdb.MapFullError, errors.StoreFull),
        (lmdb.DiskError, errors.StoreFull),
        (lmdb.CorruptedError, errors.Corrupt),
        (lmdb.VersionMismatchError, errors.NewerFormat),
        (lmdb.ReadonlyError, errors.ReadOnly),
    ],
)
def test_translations_of_lmdb_errors(kind: type[Exception], expected: type[Exception]) -> None:
    assert type(translate("/store", kind("what", 0))) is expected


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_tables_and_views_are_read_and_written_without_spark(tmp_path: Path) -> None:
    code = f"""
import sys, tailrace as tr
with tr.open({str(tmp_path / "s")!r}, create=True) as db:
    db.sql("CREATE TABLE a (id INT PRIMARY KEY, v INT)")
    db.table("a").put_many([{{"id": 1, "v": 2}}])
    assert db.table("a").get(1) == {{"id": 1, "v": 2}}
    db.status()
    db.drop("a")
print([name for name in ("pyspark", "py4j") if name in sys.modules])
"""
    assert run(code) == "[]"


def test_the_package_loads_what_is_used() -> None:
    code = "import sys, tailrace; print([m for m in ('numpy', 'pyarrow', 'pyspark', 'sqlglot') if m in sys.modules])"
    assert run(code) == "[]"
    assert run("import tailrace.cli.app, sys; print('pyspark' in sys.modules)") == "False"
