"""Tailrace keeps SQL views over key-value tables fresh: incrementally, on Spark, exactly once.

>>> import tailrace as tr
>>> db = tr.open("shop")                                                     # doctest: +SKIP
>>> db.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, cust BIGINT)")       # doctest: +SKIP
"""

from tailrace import errors
from tailrace.database.database import Database, check, open
from tailrace.database.snapshot import Snapshot
from tailrace.database.table import Table
from tailrace.database.transaction import Transaction
from tailrace.database.view import View
from tailrace.epochs.model import Epoch
from tailrace.errors import TailraceError
from tailrace.store.base import Cut, Written
from tailrace.verify.audit.findings import AuditReport
from tailrace.verify.comparison import Report
from tailrace.version import VERSION

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
