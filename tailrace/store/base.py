"""The interface that every store implements, and the values that its methods take and return.

Data is columnar: record batches in, record batches out, encoded keys as bytes. There are two implementations,
`store/lmdb` and `store/hbase`. The contract tests (`tests/store/test_contract_*.py`) run on both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import pyarrow as pa

from tailrace.codec.layouts import Layout
from tailrace.codec.schema import TableDef
from tailrace.errors import NotCapable, Unsupported
from tailrace.store.administration import AdministrativeEvent, Stalled
from tailrace.store.backups import Backups
from tailrace.store.documents import Changes, Count, Kind
from tailrace.store.inspection import Inspection, Repairs, Sizes
from tailrace.store.key_limit import KeyLimit
from tailrace.store.store_ref import StoreRef

if TYPE_CHECKING:
    from tailrace.store.locks import Holder, LockName

T = TypeVar("T")
R = TypeVar("R")

LAYOUTS: Kind[Layout] = Kind("layout:", Layout)
"""The layout of each table whose columns were changed or have defaults, by table id.

A store decodes rows by it and refuses writes that were made for another version, both in the transaction of the read or
write. So a process whose catalog is out of date neither misreads a row nor writes one in a wrong layout.
"""


ROW_COUNTS: Kind[int] = Kind("count:", Count, expendable=True)
"""The number of rows of each table, by table id."""


class Position(NamedTuple):
    """The position of one transaction in the history of a store. It is opaque: only cuts compare positions.

    `number` represents it in files, messages and on the command line.
    """

    number: int

    def __str__(self) -> str:
        return str(self.number)


class Cut(NamedTuple):
    """Offsets in all logs that split no transaction.

    Only the store reads the fields. Other code asks what a cut covers, and which of two cuts comes first.
    """

    transaction: Count
    offsets: tuple[Count, ...]

    @property
    def position(self) -> Position:
        """The newest position that the cut covers."""
        return Position(self.transaction)

    def covers(self, position: Position) -> bool:
        """Whether the cut includes every transaction up to a position."""
        return position.number <= self.transaction

    def is_before(self, other: Cut) -> bool:
        """Whether the other cut covers transactions that this one does not."""
        return self.transaction < other.transaction

    @property
    def operations(self) -> int:
        """The number of operations that the cut covers."""
        return sum(self.offsets)


@dataclass(frozen=True)
class Change:
    """A write to one table. `rows` holds whole rows (put), key and changed columns (update), or keys (delete).

    `remove` deletes whole rows: those that are still the same.
    """

    table: TableDef
    mode: Literal["put", "update", "delete", "remove"]
    rows: pa.RecordBatch


class Past:
    """A cache for reads of one table at a cut: `rows` has the rows at the cut of all keys changed since (None: absent).

    Each read with it adds the changes logged up to `ends`, the ends of the logs then. Not thread-safe.
    """

    def __init__(self, cut: Cut) -> None:
        self.cut = cut
        self.ends = list(cut.offsets)
        self.rows: dict[bytes, bytes | None] = {}


class Written(NamedTuple):
    """The result of a write: its transaction (readers can wait for its position) and the number of changed rows."""

    transaction: int
    operations: int

    @property
    def position(self) -> Position:
        return Position(self.transaction)


@dataclass(frozen=True)
class Write:
    """New values for keys of one state in one shard. Keys are sorted and unique. A NULL value deletes its key.

    `olds` has the values before the epoch (NULL: absent) and becomes its undo record. None means that the state
    begins with this epoch, so no earlier epoch can be read.
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
        """From Python values in any order of keys."""
        order = sorted(range(len(keys)), key=keys.__getitem__)
        arrays = [pa.array([part[i] for i in order], pa.large_binary()) for part in (keys, values)]
        sorted_olds = None if olds is None else pa.array([olds[i] for i in order], pa.large_binary())
        return cls(state, arrays[0], arrays[1], sorted_olds)


class ShardSnapshot(ABC):
    """A shard as of one epoch: the changes of later epochs are not visible."""

    @abstractmethod
    def applied(self, state: int) -> int | None:
        """The last epoch applied to a state, even if later than this snapshot's; None if none was."""

    @abstractmethod
    def moved_to(self, epoch: int) -> ShardSnapshot:
        """A snapshot at another epoch, in the same read transaction."""

    @abstractmethod
    def values(self, state: int, keys: pa.LargeBinaryArray) -> list[bytes | None]:
        """The value of each key (None: absent). The keys are sorted."""

    @abstractmethod
    def changed(self, state: int, epoch: int) -> list[bytes]:
        """The keys that a later epoch changed, sorted."""

    @abstractmethod
    def get_many(self, state: int, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The values of the keys that exist."""

    @abstractmethod
    def scan(
        self, state: int, low: bytes = b"", high: bytes | None = None, size: int = 20_000
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Entries with low <= key < high in key order, in lists of about `size`."""

    @abstractmethod
    def under(self, state: int, prefixes: Sequence[bytes]) -> Iterator[list[bytes]]:
        """For each prefix, the values of the keys that begin with it. Fastest with sorted prefixes."""

    @abstractmethod
    def scan_back(self, state: int, low: bytes, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Entries with low <= key < high in descending key order."""


class Shard(ABC):
    """A slice of all states, by hash of key. One writer at a time; any number of readers."""

    @abstractmethod
    def at(self, epoch: int) -> AbstractContextManager[ShardSnapshot]:
        """A snapshot at an epoch. Its reads raise `SnapshotGone` if the undo records they need were dropped."""

    @abstractmethod
    def apply(self, epoch: int, writes: Sequence[Write], keep: int, term: int = 0) -> bool:
        """Applies an epoch's writes, except to states that already have the epoch.

        The write of each state is applied in one transaction. Drops undo records of epochs up to `keep`. Returns
        whether anything was written. Raises `Fenced` if the writer's term was fenced off.
        """

    @abstractmethod
    def roll_back(self, epoch: int, states: Sequence[int] | None = None) -> list[int]:
        """Takes these states (None: all) back to an epoch, in one transaction.

        The caller has fenced off the tasks of later epochs. Returns the states whose undo records are damaged or gone:
        they keep their newest values.
        """

    @abstractmethod
    def fence(self, term: int) -> None:
        """From now on refuses writes of earlier terms."""

    @abstractmethod
    def drop(self, state: int) -> None:
        """Deletes a state: its entries, undo records and mark."""


class Capability(Enum):
    """Operations that only some kinds of store support."""

    TRANSACTIONS = "transactions over several rows or tables"
    INSPECTION = "audits of its own structures"
    REPAIR = "repairs of its own structures"
    SIZES = "sizes of its parts"
    BACKUP = "backups"
    DEFAULTS = "columns that are added with a default"


class Store(ABC):
    """Tables with their logs, documents, locks and shards. Other processes open it by its reference (`ref`)."""

    ref: StoreRef
    capabilities: frozenset[Capability]
    key_limit: KeyLimit
    hashes_keys: bool
    """Whether the hash of its primary key decides a row's node. Then its log is where the shard of that key is."""
    path: str
    nodes: int
    shards: int

    def require(self, capability: Capability) -> None:
        """Raises `NotCapable` if this kind of store lacks a capability."""
        if capability not in self.capabilities:
            raise NotCapable(store=self.ref.url, capability=capability.value)

    def inspect(self) -> AbstractContextManager[Inspection]:
        """Reads the structures of the store for an audit. Needs `Capability.INSPECTION`."""
        raise NotCapable(store=self.ref.url, capability=Capability.INSPECTION.value)

    def repairs(self) -> Repairs:
        """Repairs of the store's structures. Needs `Capability.REPAIR`."""
        raise NotCapable(store=self.ref.url, capability=Capability.REPAIR.value)

    def backups(self) -> Backups:
        """Copies of the store while it is used. Needs `Capability.BACKUP`."""
        raise NotCapable(store=self.ref.url, capability=Capability.BACKUP.value)

    def sizes(self, tables: Sequence[TableDef]) -> Sizes:
        """How large these tables, all states and the store are. Needs `Capability.SIZES`."""
        raise NotCapable(store=self.ref.url, capability=Capability.SIZES.value)

    @abstractmethod
    def document(self, kind: Kind[T], key: object = "") -> T | None:
        """The document of a kind, or of a kind and key; None if it does not exist."""

    @abstractmethod
    def documents(self, kind: Kind[T]) -> dict[str, T]:
        """All documents of a kind by key, sorted by key."""

    @abstractmethod
    def change_documents(self, changes: Changes, *, expected: Changes | None = None, term: int | None = None) -> None:
        """Sets documents by name, or removes them (None), all in one durable transaction.

        Nothing changes if a document differs from what the caller `expected` (`Conflict`), or if `term` is no longer
        the term of the epoch lock (`Fenced`).
        """

    def reading_once(
        self, kinds: Sequence[Kind[Any]], while_none: Sequence[Kind[Any]] = ()
    ) -> AbstractContextManager[None]:
        """In the block, documents of these kinds may be read once. Then they come from memory, with own changes.

        For documents that only the holder of a lock changes, in a block in which the thread holds it. Kinds in
        `while_none` are those that other processes change if they exist, but do not create.
        """
        return nullcontext()

    @abstractmethod
    def lock(self, name: LockName, patience: float = 0.0) -> AbstractContextManager[None]:
        """Holds a lock in the block. If another process holds it longer than `patience` seconds, raises `EpochsLocked`.

        The death of its process releases a lock.
        """

    @abstractmethod
    def holder(self, name: LockName) -> Holder | None:
        """The live process that holds a lock, if any."""

    def fence(self, term: int) -> None:
        """From now on refuses writes of earlier terms in all shards."""
        for index in range(self.shards):
            self.shard(index).fence(term)

    # administration

    def administrative_events(self) -> Sequence[AdministrativeEvent]:
        """The last events of the store's servers and regions, oldest first. A store without servers has none."""
        return ()

    def stalled(self) -> Sequence[Stalled]:
        """The regions whose logs have not moved for long although they should."""
        return ()

    # definitions of tables

    def new_table(self, table: TableDef, options: Mapping[str, str]) -> Changes:
        """Prepares the place of a new table's rows. Returns documents that are stored with its definition.

        `options` are those of CREATE TABLE for kinds of stores (`hbase.table`). Raises `Unsupported` for one that
        this kind of store does not have.
        """
        for option in options:
            reason = f"it is an option of stores on HBase; this store is {self.ref.url}"
            raise Unsupported(construct=f"option {option}", reason=reason)
        return {}

    def altered_table(self, table: TableDef) -> tuple[Changes, Changes]:
        """Documents that are stored with the definition of a table whose columns have changed.

        Also what these documents were: the change must fail if they are no longer so.
        """
        return {}, {}

    def table_options(self, table: TableDef) -> Mapping[str, str]:
        """The options of CREATE TABLE by which a table gets the place that it has."""
        return {}

    # writing and reading

    @abstractmethod
    def write(self, changes: Sequence[Change]) -> Written:
        """Writes the rows and log entries of all changes in one transaction, which no cut splits.

        Raises `TableAltered`, and writes nothing, if the layout of a table has another version by now.
        """

    @abstractmethod
    def get(self, table: TableDef, keys: Sequence[bytes], past: Past | None = None) -> dict[bytes, bytes]:
        """The rows under encoded keys, where they exist: the newest rows, or those at the cut of `past`.

        Reads the logs into `past` up to their end, so the next read with it reads only newer log entries.
        """

    @abstractmethod
    def count(self, table: TableDef) -> int:
        """The current number of rows of a table."""

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
        """A node's rows of a table, the newest or those at a cut; `columns` are stored positions.

        Returns rows with after < encoded key <= upto. Raises `OffsetGap` if the log after the cut was trimmed.
        """

    @abstractmethod
    def step(self, table: TableDef, node: int, after: bytes, count: int, size: int) -> tuple[bytes | None, int]:
        """The end of the next chunk of rows, and its number of rows. The chunk starts after an encoded key.

        A chunk has at most `count` rows and `size` bytes, but at least one row. Its end is an encoded key, or None if
        no rows are left after it.
        """

    @abstractmethod
    def deltas(
        self, table: TableDef, node: int, start: Cut, end: Cut, columns: Sequence[int], size: int = 200_000
    ) -> Iterator[pa.RecordBatch]:
        """A node's delta of a table between two cuts: the columns at stored positions, and `_weight`."""

    @abstractmethod
    def history(
        self, tables: Mapping[int, TableDef], node: int, start: Cut, end: Cut
    ) -> Iterator[tuple[Position, TableDef, pa.RecordBatch]]:
        """A node's changes of several tables (by id) between two cuts, in log order.

        Each item is the position of the transaction, the table, and a batch of all columns and `_weight`.
        """

    @abstractmethod
    def touched(self, start: Cut, end: Cut, *, checked: bool = True) -> dict[int, int]:
        """The number of operations of each table between two cuts, by table id.

        Verifies the checksum of every log entry in between. Unsafe with checked=False, unless the caller verifies the
        entries before an epoch over them is committed.
        """

    @abstractmethod
    def catch_up(self) -> None:
        """Returns when `newest_cut` covers everything that was written before this call.

        A store that logs a write in the transaction of the write has nothing to do. If others fill the log later, this
        waits for them.
        """

    @abstractmethod
    def advance(self) -> None:
        """Makes `newest_cut` cover what has reached the log by now, without waiting for the rest."""

    @abstractmethod
    def newest_cut(self) -> Cut:
        """The cut after the last transaction."""

    @abstractmethod
    def cut_after(self, cut: Cut, operations: int) -> Cut:
        """The last cut with at most `operations` more than `cut`, but at least one transaction later if possible."""

    @abstractmethod
    def position(self, given: Position | Written | int) -> Position:
        """The position that a user passed. Raises `BadPosition` if no write to this store can have returned it."""

    @abstractmethod
    def written_after(self, cut: Cut) -> float | None:
        """When the first transaction after a cut was written (seconds since 1970); None if the cut is the newest."""

    @abstractmethod
    def trim(self, cut: Cut) -> None:
        """Deletes log entries before a cut."""

    def trim_soon(self, cut: Cut) -> None:
        """Deletes log entries before a cut, now or a little later. A process that ends first may leave them."""
        self.trim(cut)

    def finish_trimming(self) -> None:  # noqa: B027, most stores trim at once
        """Waits until everything is deleted that `trim_soon` was asked for."""

    @abstractmethod
    def drop_rows(self, table: int) -> None:
        """Deletes the rows of a dropped table, given by its id."""

    @abstractmethod
    def shard(self, index: int) -> Shard:
        """A shard, opened once per process."""

    def read_shards(self, read: Callable[[T], R], reads: Sequence[T]) -> Iterable[R]:
        """Calls `read`, which reads one shard, for each of `reads`. Returns the results in order.

        A store that waits for other machines reads several shards at a time.
        """
        return map(read, reads)

    def drop_state(self, state: int) -> None:
        """Deletes a state in all shards."""
        for index in range(self.shards):
            self.shard(index).drop(state)

    @abstractmethod
    def sync(self) -> None:
        """Flushes all commits to disk, for stores that do not do so at every commit."""

    @abstractmethod
    def close(self) -> None: ...
