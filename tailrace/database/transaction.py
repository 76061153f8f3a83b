"""Transactions: writes to several tables that are committed atomically.

Writes are collected and committed when the block ends, in their order, as one transaction of the store. A crash
or a cut never splits them, and an exception in the block discards them all. Reads inside the block do not see the
transaction's own writes. There is no isolation: another writer may change a row between a read in the block and the
commit. Processes that read a row and then write it need a lock of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from tailrace.codec.schema import TableDef
from tailrace.database.altered import write_current
from tailrace.database.table import TableReads, TableWrites
from tailrace.errors import Ended, StoreError
from tailrace.store.base import Change, Store, Written


class Transaction:
    """Writes that are committed atomically when the `with` block ends. `written` then has their position.

    Writes apply in order: a row that was put may be updated or deleted later in the same transaction.
    An update of a missing row raises `NoSuchRow` at the end of the block, and nothing is written.
    """

    def __init__(
        self,
        store: Store,
        find_table: Callable[[str], TableDef],
        find_newest: Callable[[TableDef], TableDef],
        admit: Callable[[], None],
    ) -> None:
        self._store, self._admit = store, admit
        self._find_table, self._find_newest = find_table, find_newest
        self._changes: list[Change] = []
        self._written: Written | None = None
        self._entered = self._ended = False

    @property
    def written(self) -> Written:
        """The position and the number of operations, once the block has ended without an exception."""
        if self._written is None:
            raise StoreError(message="this transaction has not been written" + ("" if self._ended else " yet"))
        return self._written

    def table(self, name: str) -> TransactionTable:
        self._require_open()
        return TransactionTable(self, self._find_table(name))

    def __enter__(self) -> Transaction:
        self._entered = True
        self._require_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        if kind is None:
            for table in {change.table for change in self._changes}:
                self._find_newest(table)
            self._admit()
            self._written = write_current(self._store, self._changes, self._find_newest)
        self._changes = []

    def _require_open(self) -> None:
        if self._ended:
            raise Ended(what="transaction")
        if not self._entered:
            raise StoreError(message="the transaction is not open; use `with db.transaction() as t:`")

    def _add(self, changes: list[Change]) -> None:
        self._require_open()
        self._changes += changes


class TransactionTable(TableReads, TableWrites[None]):
    """A table inside a transaction. Writes are collected; reads see only committed rows."""

    def __init__(self, transaction: Transaction, definition: TableDef) -> None:
        super().__init__(transaction._store, definition, lambda: transaction._find_newest(definition))
        self._transaction = transaction

    def _write(self, changes: list[Change]) -> None:
        self._transaction._add(changes)
