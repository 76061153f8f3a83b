"""Transactions: writes to several tables, kept together.

They are collected and written at the end, in their order, as one transaction of the store: no crash halves them,
no cut splits them, and an exception before the end leaves nothing of them. Reads inside see the store as it is
without them. There is no isolation from other writers between such a read and the end: a row that two processes
change by reading it first needs an owner, or a lock of theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from tailrace.codec.schema import TableDef
from tailrace.database.table import TableReads, TableWrites
from tailrace.errors import Ended, StoreError
from tailrace.store.base import Change, Store, Written


class Transaction:
    """Writes that become one when the `with` block ends. `written` is then what they did, with their position.

    A later write sees what an earlier one of the same transaction did: a row that was put may be updated or deleted.
    An update of a row that is not there (`NoSuchRow`) is found out at the end, when nothing of all is written.
    """

    def __init__(
        self,
        store: Store,
        find: Callable[[str], TableDef],
        check: Callable[[TableDef], None],
        admit: Callable[[], None],
    ) -> None:
        self._store, self._find, self._check, self._admit = store, find, check, admit
        self._changes: list[Change] = []
        self._written: Written | None = None
        self._begun = self._over = False

    @property
    def written(self) -> Written:
        """What the transaction did, once its block has ended without an exception."""
        if self._written is None:
            raise StoreError(message="this transaction has not been written" + ("" if self._over else " yet"))
        return self._written

    def table(self, name: str) -> TransactionTable:
        self._here()
        return TransactionTable(self, self._find(name))

    def __enter__(self) -> Transaction:
        self._begun = True
        self._here()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        if kind is None:
            for table in {change.table for change in self._changes}:
                self._check(table)
            self._admit()
            self._written = self._store.write(self._changes)
        self._changes = []

    def _here(self) -> None:
        if self._over:
            raise Ended(what="transaction")
        if not self._begun:
            raise StoreError(message="a transaction is written when its block ends: `with db.transaction() as t:`")

    def _add(self, changes: list[Change]) -> None:
        self._here()
        self._changes += changes


class TransactionTable(TableReads, TableWrites[None]):
    """A table inside a transaction: writes are collected, reads see the rows as they are without them."""

    def __init__(self, transaction: Transaction, definition: TableDef) -> None:
        super().__init__(transaction._store, definition, lambda: transaction._check(definition))
        self._transaction = transaction

    def _write(self, changes: list[Change]) -> None:
        self._check()
        self._transaction._add(changes)
