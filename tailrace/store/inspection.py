"""The interfaces by which audits inspect the structures of a store, and by which repairs change them.

Both are capabilities, which a kind of store may lack.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from tailrace.codec.schema import TableDef
from tailrace.errors import TailraceError

if TYPE_CHECKING:
    from tailrace.store.base import Cut, Store

UNREADABLE = (TailraceError, pa.ArrowException, OSError, EOFError, struct.error, ValueError, TypeError, KeyError)
"""Exceptions that reading damaged bytes may raise."""


class Mark(NamedTuple):
    """The last epoch applied to a state in a shard, the oldest epoch still readable, and the number of entries.

    The number is None if it is unknown: in stores of format 2, and after a repair. `form` is how the store has the keys
    of the entries; only the store knows what it means.
    """

    applied: int
    oldest: int
    entries: int | None = None
    form: bytes = b""


@dataclass(frozen=True)
class StateRecord:
    """One state in one shard: whether it has entries, its mark, and the epochs of its undo records.

    `marked` says whether a mark exists; `mark` is None if it is unreadable. `damaged` has the unreadable undo records:
    epoch and reason.
    """

    state: int
    entries: bool
    marked: bool
    mark: Mark | None
    undos: tuple[int, ...]
    damaged: dict[int, str]


class RowAudit(NamedTuple):
    """Faults of a table's rows, the actual number of rows, and the number that the store has counted.

    `is_copy`: what has the faults is a copy of rows that are elsewhere, so `Repairs.rebuild_rows` can make it again.
    """

    faults: list[str]
    rows: int
    counted: int
    is_copy: bool = False


class Extent(NamedTuple):
    """How large a table or a state is: its entries, its bytes, and whether the entries were counted or estimated."""

    entries: int
    bytes: int
    exact: bool


@dataclass(frozen=True)
class Sizes:
    """How large the parts of a store are. Bytes of single tables and states are estimates; all others are exact.

    tables, states   extents of tables (by id) and states (by number)
    log, undo        bytes of the logs, and of undo records
    free             bytes of free pages, which will be used again; files never become smaller
    files            bytes of all files, with free pages, documents and marks
    fullest, limit   bytes of the fullest file, and the limit of each file (`map_size`)
    """

    tables: Mapping[int, Extent]
    states: Mapping[int, Extent]
    log: int
    undo: int
    free: int
    files: int
    fullest: int
    limit: int


class Inspection(ABC):
    """The structures of a store as they are on disk. Everything read may be damaged."""

    @abstractmethod
    def documents(self) -> list[tuple[str, bytes]]:
        """All documents, undecoded."""

    @abstractmethod
    def transaction_faults(self, committed: Cut) -> tuple[list[str], tuple[int, ...] | None]:
        """Faults of the list of transactions, and the log ends it gives (None if it has faults)."""

    @abstractmethod
    def log_faults(
        self, node: int, start: int, end: int | None, tables: Mapping[int, TableDef]
    ) -> Iterator[tuple[int, str]]:
        """Faults of a node's log, each with its offset. The log must reach from `start` to `end` (if known)."""

    @abstractmethod
    def audit_rows(self, table: TableDef) -> RowAudit:
        """Finds rows of a table that are unreadable, or stored under a wrong key or on a wrong node."""

    @abstractmethod
    def states(self, shard: int) -> list[StateRecord]:
        """All states of a shard."""

    def leftovers(self, shard: int) -> int:
        """The number of records in a shard that no epoch uses and none will remove."""
        return 0

    @abstractmethod
    def lost_shard_advice(self, shard: int) -> str:
        """Advice for an operator on a shard that cannot be opened, as a sentence without its full stop."""


class Repairs(ABC):
    """Repairs of damaged structures. The caller holds the epoch lock."""

    @abstractmethod
    def roll_back(self, epoch: int) -> list[tuple[int, int]]:
        """Takes all shards back to an epoch, by the undo records of later ones.

        Readers of that epoch see no change, because they already read through the undo records. Returns (shard, state)
        of each state whose undo records are damaged or gone: it keeps its newest values and must be recomputed.
        """

    @abstractmethod
    def reset_state(self, shard: int, state: int, committed: int) -> None:
        """Drops a state's undo records in a shard, and marks its entries as those of the committed epoch."""

    @abstractmethod
    def rebuild_transactions(self, committed: Cut) -> Cut:
        """Rebuilds the list of transactions from the logs, as one entry at the end of all logs. Returns its cut."""

    def rebuild_rows(self, tables: Collection[TableDef]) -> Cut:
        """Makes the copies of rows of these tables again. Returns the cut from which on they are right."""
        raise NotImplementedError("only for copies (RowAudit.is_copy)")

    def drop_leftovers(self, shard: int) -> None:
        """Deletes what `Inspection.leftovers` counts."""
        raise NotImplementedError("only for stores that can have leftovers")

    @abstractmethod
    def add_to_count(self, table: TableDef, rows: int) -> None:
        """Adds a correction to the stored row count of a table."""

    @abstractmethod
    def scratch(self) -> AbstractContextManager[Store]:
        """A temporary store with the tables of this store and its own, empty shards."""
