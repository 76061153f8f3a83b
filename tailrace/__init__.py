"""Tailrace keeps SQL views over key-value tables fresh: incrementally, on Spark, exactly once.

>>> import tailrace as tr
>>> db = tr.open("shop")                                                     # doctest: +SKIP
>>> db.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, cust BIGINT)")       # doctest: +SKIP
"""

from tailrace import errors
from tailrace.database import Database, check, open
from tailrace.errors import TailraceError
from tailrace.maintain.epochs import Epoch
from tailrace.snapshots import Snapshot
from tailrace.store.base import Cut, Written
from tailrace.store.tables import Table
from tailrace.transactions import Transaction
from tailrace.verify.findings import AuditReport
from tailrace.verify.recompute import Report
from tailrace.version import VERSION
from tailrace.views.serve import View

__version__ = VERSION

__all__ = [
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
