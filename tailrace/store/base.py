"""What a store must do, and the plain data that crosses its border.

Everything is columnar: record batches in, record batches out, encoded keys as bytes. There is one
implementation here (`lmdb.py`); the contract tests in `tests/store/test_contract.py` run on each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import pyarrow as pa

from tailrace.codec.schema import TableDef
from tailrace.errors import NotCapable
from tailrace.store.documents import Changes, Count, Kind
from tailrace.store.inspection import Inspection, Repairs
from tailrace.store.key_limit import KeyLimit
from tailrace.store.reference import StoreRef

if TYPE_CHECKING:
    from tailrace.store.locks import Holder, LockName

T = TypeVar("T")


class Position(NamedTuple):
    """The place of one write in the history of a store: opaque, compared through cuts only.

    `number` is its form in files, messages and the command line.
    """

    number: int

    def __str__(self) -> str:
        return str(self.number)


class Cut(NamedTuple):
    """A consistent place in all logs: no transaction is on both sides of it.

    Only the store looks inside. Others ask what a cut covers, and which of two cuts comes first.
    """

    transaction: Count
    offsets: tuple[Count, ...]

    @property
    def position(self) -> Position:
        """The newest position that the cut covers."""
        return Position(self.transaction)

    def covers(self, position: Position) -> bool:
        """Whether everything up to a position is inside the cut."""
        return position.number <= self.transaction

    def is_before(self, other: Cut) -> bool:
        """Whether the other cut covers something that this one does not."""
        return self.transaction < other.transaction

    @property
    def operations(self) -> int:
        """How many operations the cut covers."""
        return sum(self.offsets)


@dataclass(frozen=True)
class Change:
    """A write to one table. `rows` holds whole rows (put), key and changed columns (update), or keys (delete)."""

    table: TableDef
    mode: Literal["put", "update", "delete"]
    rows: pa.RecordBatch


class Past:
    """A table at a cut: for the keys that changed since, their rows then (None: absent), as far as the logs were read.

    It grows by what is logged between two reads, and is for one thread at a time.
    """

    def __init__(self, cut: Cut) -> None:
        self.ends = list(cut.offsets)
        self.rows: dict[bytes, bytes | None] = {}


class Written(NamedTuple):
    """What a transaction did: its number, a position that readers may wait for, and how many rows it touched."""

    transaction: int
    operations: int

    @property
    def position(self) -> Position:
        return Position(self.transaction)


@dataclass(frozen=True)
class Write:
    """New values for keys of one state in one shard; NULL deletes. Keys are sorted and unique; all are binary arrays.

    `olds` is what the keys held before: it becomes the undo record of the epoch. None means that the
    state begins with this epoch: there is nothing to go back to.
    """

    state: int
    keys: pa.LargeBinaryArray
    values: pa.LargeBinaryArray
    olds: pa.LargeBinaryArray | None

    @classmethod
    def of(
        cls,
        state: int,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        olds: Sequence[bytes | None] | None,
    ) -> Write:
        """From Python values in any order."""
        order = sorted(range(len(keys)), key=keys.__getitem__)
        arrays = [pa.array([part[i] for i in order], pa.large_binary()) for part in (keys, values)]
        undone = None if olds is None else pa.array([olds[i] for i in order], pa.large_binary())
        return cls(state, arrays[0], arrays[1], undone)


class ShardSnapshot(ABC):
    """A shard as it was when `epoch` had been applied, whatever was applied after it."""

    @abstractmethod
    def applied(self, state: int) -> int | None:
        """The last epoch applied to a state; None if it never was."""

    @abstractmethod
    def moved_to(self, epoch: int) -> ShardSnapshot:
        """The same shard, seen in the same transaction, at another epoch."""

    @abstractmethod
    def values(self, state: int, keys: pa.LargeBinaryArray) -> list[bytes | None]:
        """What each of the keys, which are in order, holds."""

    @abstractmethod
    def changed(self, state: int, epoch: int) -> list[bytes]:
        """The keys that a later epoch has changed, in order."""

    @abstractmethod
    def get_many(self, state: int, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The values of those keys that exist."""

    @abstractmethod
    def scan(
        self, state: int, low: bytes = b"", high: bytes | None = None, size: int = 20_000
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Entries with low <= key < high in key order, in runs of at most `size`."""

    @abstractmethod
    def under(self, state: int, prefixes: Sequence[bytes]) -> Iterator[list[bytes]]:
        """For each of the prefixes, fastest in order, the values of the keys that begin with it."""

    @abstractmethod
    def scan_back(self, state: int, low: bytes, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Entries with low <= key < high, last first."""


class Shard(ABC):
    """A slice of all arrangements and views. One writer at a time; any number of readers."""

    @abstractmethod
    def at(self, epoch: int) -> AbstractContextManager[ShardSnapshot]:
        """`SnapshotGone` if the shard no longer holds what it takes to go back to that epoch."""

    @abstractmethod
    def apply(self, epoch: int, writes: Sequence[Write], keep: int, term: int = 0) -> bool:
        """Apply an epoch's writes in one transaction; a state that has the epoch is left alone.

        Undo records of epochs up to `keep` are dropped. Returns whether anything was written; `Fenced` if the writer's
        term was fenced off.
        """

    @abstractmethod
    def fence(self, term: int) -> None:
        """Refuse the writes of earlier terms."""

    @abstractmethod
    def drop(self, state: int) -> None:
        """Forget a state, entries and undo records alike."""


class Capability(Enum):
    """What only some stores can do."""

    TRANSACTIONS = "transactions over several rows or tables"
    INSPECTION = "audits of its own structures"
    REPAIR = "repairs of its own structures"


class Store(ABC):
    """Tables with logs, documents, and shards. Tasks in other processes open it by its reference (`ref`)."""

    ref: StoreRef
    capabilities: frozenset[Capability]
    key_limit: KeyLimit
    hashes_keys: bool
    """Whether a row's node is the hash of its primary key: then its changes are logged where its shard is."""
    path: str
    nodes: int
    shards: int

    def require(self, capability: Capability) -> None:
        """Raises `NotCapable` if this kind of store cannot do something."""
        if capability not in self.capabilities:
            raise NotCapable(store=self.ref.url, capability=capability.value)

    def inspect(self) -> AbstractContextManager[Inspection]:
        """The structures of the store, for an audit; needs `Capability.INSPECTION`."""
        raise NotCapable(store=self.ref.url, capability=Capability.INSPECTION.value)

    def repairs(self) -> Repairs:
        """Repairs of the structures of the store; needs `Capability.REPAIR`."""
        raise NotCapable(store=self.ref.url, capability=Capability.REPAIR.value)

    @abstractmethod
    def document(self, kind: Kind[T], key: object = "") -> T | None:
        """The document of a kind, or the one under a key; None if there is no such document."""

    @abstractmethod
    def documents(self, kind: Kind[T]) -> dict[str, T]:
        """All documents of a kind, by key, in the order of their keys."""

    @abstractmethod
    def change_documents(self, changes: Changes, *, expected: Changes | None = None, term: int | None = None) -> None:
        """Set (or with None remove) documents by name, all in one durable transaction.

        Nothing changes if a document is not what the caller `expected` (`Conflict`), or if the epoch lock has another
        term by now (`Fenced`).
        """

    @abstractmethod
    def lock(self, name: LockName, patience: float = 0.0) -> AbstractContextManager[None]:
        """Hold a lock; `EpochsLocked` names its holder if it stays taken. A lock ends with its process."""

    @abstractmethod
    def holder(self, name: LockName) -> Holder | None:
        """The living process that holds a lock, if any."""

    def fence(self, term: int) -> None:
        """Refuse the writes of earlier terms in all shards."""
        for index in range(self.shards):
            self.shard(index).fence(term)

    @abstractmethod
    def write(self, changes: Sequence[Change]) -> Written:
        """Rows and log entries of all changes, in one transaction: all or nothing, never split by a cut."""

    @abstractmethod
    def get(self, table: TableDef, keys: Sequence[bytes], past: Past | None = None) -> dict[bytes, bytes]:
        """The rows under encoded keys, those that exist: the newest, or those at the cut of `past`.

        `past` is brought to the end of the logs first, so the next read with it costs only what was logged meanwhile.
        """

    @abstractmethod
    def count(self, table: TableDef) -> int:
        """How many rows a table has now."""

    @abstractmethod
    def rows(
        self,
        table: TableDef,
        node: int,
        cut: Cut | None,
        columns: Sequence[int],
        size: int = 50_000,
        *,
        after: bytes = b"",
        upto: bytes | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """A node's rows of a table, newest or as they were at a cut; `columns` are positions.

        Only those with after < encoded key <= upto, if these are given. `OffsetGap` if the log after the cut is gone.
        """

    @abstractmethod
    def step(self, table: TableDef, node: int, after: bytes, count: int, size: int) -> tuple[bytes | None, int]:
        """The last encoded key when so many rows after a key, or rows of so many bytes, have passed, and how many did.

        One row at least; the key is None when no more are left.
        """

    @abstractmethod
    def deltas(
        self, table: TableDef, node: int, start: Cut, end: Cut, columns: Sequence[int], size: int = 200_000
    ) -> Iterator[pa.RecordBatch]:
        """A node's changes of a table between two cuts: chosen columns and `_weight`."""

    @abstractmethod
    def history(
        self, tables: Mapping[int, TableDef], node: int, start: Cut, end: Cut
    ) -> Iterator[tuple[Position, TableDef, pa.RecordBatch]]:
        """A node's changes of tables (by id) between two cuts, in the order of its log.

        Each comes with its position, all columns and `_weight`.
        """

    @abstractmethod
    def touched(self, start: Cut, end: Cut, *, checked: bool = True) -> dict[int, int]:
        """How many operations each table id has between two cuts.

        Every log entry between them is checked, unless somebody else does that before anything rests on the answer.
        """

    @abstractmethod
    def newest_cut(self) -> Cut:
        """The cut after the last transaction."""

    @abstractmethod
    def cut_after(self, cut: Cut, operations: int) -> Cut:
        """The last cut with at most `operations` more than `cut`; one whole transaction at least, if there is one."""

    @abstractmethod
    def position(self, given: Position | Written | int) -> Position:
        """The position that a user names; `BadPosition` if no write to this store has returned it."""

    @abstractmethod
    def written_after(self, cut: Cut) -> float | None:
        """When the first transaction after a cut was written (seconds since 1970); None if there is none."""

    @abstractmethod
    def trim(self, cut: Cut) -> None:
        """Forget log entries before a cut."""

    @abstractmethod
    def drop_rows(self, table: int) -> None:
        """Forget the rows of a dropped table, which its id names."""

    @abstractmethod
    def shard(self, index: int) -> Shard:
        """The shard, opened once per process."""

    def drop_state(self, state: int) -> None:
        """Forget a state in all shards."""
        for index in range(self.shards):
            self.shard(index).drop(state)

    @abstractmethod
    def sync(self) -> None:
        """Make everything durable that relaxed durability has left in memory."""

    @abstractmethod
    def close(self) -> None: ...
