"""What an audit asks of the structures of a store, and what a repair does to them.

Both are capabilities: a store that keeps its structures itself (LMDB files) can be inspected and repaired, one whose
structures belong to another system cannot.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from tailrace.codec.schema import TableDef
from tailrace.errors import TailraceError

if TYPE_CHECKING:
    from tailrace.store.base import Cut, Store

UNREADABLE = (TailraceError, pa.ArrowException, OSError, EOFError, struct.error, ValueError, TypeError, KeyError)
"""What reading damaged bytes may raise."""


class Mark(NamedTuple):
    """The last epoch applied to a state in a shard, and the oldest epoch that can still be read."""

    applied: int
    oldest: int


@dataclass(frozen=True)
class StateRecord:
    """What a shard has of one state: whether there are entries, its mark, and its undo records.

    `marked` says whether a mark exists; `mark` is None if it cannot be read. `damaged` are undo records that cannot be
    read, by epoch, each with the reason.
    """

    state: int
    entries: bool
    marked: bool
    mark: Mark | None
    undos: tuple[int, ...]
    damaged: dict[int, str]


class RowAudit(NamedTuple):
    """What is wrong with the rows of a table, how many rows there are, and how many the store has counted."""

    faults: list[str]
    rows: int
    counted: int


class Inspection(ABC):
    """The structures of a store as they are on disk. Nothing that is read is trusted."""

    @abstractmethod
    def documents(self) -> list[tuple[str, bytes]]:
        """All documents, undecoded."""

    @abstractmethod
    def transaction_faults(self, committed: Cut) -> tuple[list[str], tuple[int, ...] | None]:
        """What is wrong with the list of transactions; and where it says that the logs end, None if it is damaged."""

    @abstractmethod
    def log_faults(
        self, node: int, start: int, end: int | None, tables: Mapping[int, TableDef]
    ) -> Iterator[tuple[int, str]]:
        """Offsets of a node's log, and what is wrong there. `end` is where the log must end, if that is known."""

    @abstractmethod
    def audit_rows(self, table: TableDef) -> RowAudit:
        """Rows of a table that cannot be read, or are stored under a wrong key or on a wrong node."""

    @abstractmethod
    def states(self, shard: int) -> list[StateRecord]:
        """All states of a shard."""

    @abstractmethod
    def lost_shard_advice(self, shard: int) -> str:
        """What to do about a shard that cannot be opened."""


class Repairs(ABC):
    """Repairs of damaged structures. The caller holds the epoch lock."""

    @abstractmethod
    def roll_back(self, epoch: int) -> list[tuple[int, int]]:
        """Take an uncommitted epoch back in all shards, by its undo records.

        Readers see no change: they read through the undo records. Returns shard and state of undo records that were
        damaged. What these states hold stays, as if it had been committed.
        """

    @abstractmethod
    def reset_state(self, shard: int, state: int, committed: int) -> None:
        """Declare what a shard holds of a state to be the committed epoch, and the oldest that can be read."""

    @abstractmethod
    def rebuild_transactions(self, committed: Cut) -> Cut:
        """Rebuild the list of transactions from the logs: one entry, at the end of all logs. Returns its cut."""

    @abstractmethod
    def add_to_count(self, table: TableDef, rows: int) -> None:
        """Correct the number of rows that the store has counted."""

    @abstractmethod
    def scratch(self) -> AbstractContextManager[Store]:
        """A scratch store: the tables of this store, and empty shards of its own."""
