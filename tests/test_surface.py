"""The public names and errors, and the translation of every LMDB error into one of them."""

from __future__ import annotations

import inspect
import pickle
import re
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
    "Snapshot",
    "Table",
    "TailraceError",
    "Transaction",
    "View",
    "Written",
    "__version__",
    "check",
    "errors",
    "open",
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
