"""Tailrace keeps SQL views over key-value tables fresh: incrementally, on Spark, exactly once.

>>> import tailrace as tr
>>> db = tr.open("shop", create=True)                                        # doctest: +SKIP
>>> db.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, cust BIGINT)")       # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tailrace import errors
from tailrace.errors import TailraceError
from tailrace.version import VERSION

if TYPE_CHECKING:
    from tailrace.database.backup import Saved
    from tailrace.database.database import Database, check, open
    from tailrace.database.restore import Restored, restore
    from tailrace.database.snapshot import Snapshot
    from tailrace.database.table import Table
    from tailrace.database.transaction import Transaction
    from tailrace.database.view import View
    from tailrace.epochs.model import Epoch
    from tailrace.spark.spark_options import SparkOptions
    from tailrace.store.base import Cut, Written
    from tailrace.verify.audit.findings import AuditReport
    from tailrace.verify.report import Report

__version__ = VERSION

__all__ = [
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

# `import tailrace` loads none of the rooms; each name loads its own when it is first used.
_HOMES = {
    "AuditReport": "tailrace.verify.audit.findings",
    "Cut": "tailrace.store.base",
    "Database": "tailrace.database.database",
    "Epoch": "tailrace.epochs.model",
    "Report": "tailrace.verify.report",
    "Restored": "tailrace.database.restore",
    "Saved": "tailrace.database.backup",
    "Snapshot": "tailrace.database.snapshot",
    "SparkOptions": "tailrace.spark.spark_options",
    "Table": "tailrace.database.table",
    "Transaction": "tailrace.database.transaction",
    "View": "tailrace.database.view",
    "Written": "tailrace.store.base",
    "check": "tailrace.database.database",
    "open": "tailrace.database.database",
    "restore": "tailrace.database.restore",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tailrace' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
