"""All access to the tables of HBase, through a Thrift2 server.

Every write can be repeated: it names its timestamps, or has the same content. So a call whose answer was lost is sent
again. The exception is `check_and_mutate`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

from tailrace.store.hbase.connections import PATIENCE, Connections, idl
from tailrace.store.hbase.row_ranges import RowRange, ranges_filter

GETS, PUTS = 1_000, 2_000  # rows of one call, at most
MANY = 256  # rows that are worth a scan
BYTES = 2 << 20  # of one call that writes, and of one page of a scan, about
RANGES = 500  # ranges of one call, at most
LARGEST_PAGE = 5_000  # rows

Cells = dict[bytes, tuple[bytes, int]]
"""The cells of a row: qualifier -> (value, timestamp)."""

Page = list[tuple[bytes, Cells]]
"""Some rows of a scan, in order."""


@dataclass(frozen=True)
class Deletion:
    """Deletes cells of a row: those with exactly this timestamp (`version`), or all up to it (`upto`).

    `qualifiers` are the columns; None is the whole family. Until a major compaction, HBase also hides cells that are
    put later with such a timestamp.
    """

    row: bytes
    timestamp: int
    qualifiers: Sequence[bytes] | None = None
    kind: Literal["version", "upto"] = "upto"


@dataclass(frozen=True)
class RowChange:
    """Puts cells of a row, and deletes all cells of columns up to a timestamp, by column or family."""

    row: bytes
    puts: Mapping[bytes, bytes]
    deletes: Mapping[bytes, int]


class Client:
    """HBase, for one process. Safe for threads."""

    def __init__(self, host: str, port: int, patience: float = PATIENCE) -> None:
        self.connections = Connections(host, port, patience)

    @property
    def url(self) -> str:
        return self.connections.url

    def table(self, name: str, family: bytes | None) -> HbaseTable:
        """One family of a table. With None it is all families, and qualifiers are written `family:qualifier`."""
        return HbaseTable(self.connections, name, family)

    def close(self) -> None:
        self.connections.close()


class HbaseTable:
    """One family of a table of HBase, or all families."""

    def __init__(self, connections: Connections, name: str, family: bytes | None) -> None:
        self._connections, self.name, self.family = connections, name, family
        self._name = name.encode()
        self._idl = idl()

    @property
    def url(self) -> str:
        return self._connections.url

    @property
    def patience(self) -> float:
        """The seconds for which a call is repeated."""
        return self._connections.patience

    # reading

    def get(
        self,
        row: bytes,
        *,
        before: int | None = None,
        qualifiers: Sequence[bytes] | None = None,
        prefixes: Sequence[bytes] = (),
    ) -> Cells:
        """The newest cells of a row, of all columns or of some: given, or with one of these prefixes (ASCII).

        `before`: the newest cells with a smaller timestamp.
        """
        get = self._get(row, before, qualifiers)
        if prefixes:
            get.filterString = b"MultipleColumnPrefixFilter(" + b",".join(b"'%b'" % p for p in prefixes) + b")"
        return self._cells(self._connections.call("get", self._name, get))

    def get_many(
        self,
        rows: Sequence[bytes],
        *,
        before: int | Sequence[int] | None = None,
        qualifiers: Sequence[bytes] | None = None,
    ) -> list[Cells]:
        """The newest cells of each row, in the order of `rows`. A row that does not exist has none.

        `before` is one timestamp for all rows, or one for each.
        """
        times = before if isinstance(before, Sequence) else [before] * len(rows)
        wanted = list(zip(rows, times, strict=True))
        parts = [wanted[i : i + GETS] for i in range(0, len(rows), GETS)]

        def read(part: Sequence[tuple[bytes, int | None]]) -> list[Cells]:
            gets = [self._get(row, time, qualifiers) for row, time in part]
            return [self._cells(result) for result in self._connections.call("getMultiple", self._name, gets)]

        return [cells for part in self._connections.map(read, parts) for cells in part]

    def look_up(
        self, rows: Sequence[bytes], *, before: int | None = None, qualifiers: Sequence[bytes] | None = None
    ) -> list[Cells]:
        """As `get_many`, but reads many rows by scans over ranges of one row each: two to five times as fast."""
        if len(rows) < MANY:
            return self.get_many(rows, before=before, qualifiers=qualifiers)
        ranges = [RowRange(row, row + b"\x00") for row in sorted(set(rows))]
        found = dict(chain.from_iterable(self.scan_ranges(ranges, before=before, qualifiers=qualifiers)))
        return [found.get(row, {}) for row in rows]

    def scan(
        self,
        start: bytes,
        stop: bytes | None,
        *,
        before: int | None = None,
        reverse: bool = False,
        size: int = 1_000,
        qualifiers: Sequence[bytes] | None = None,
        keys_only: bool = False,
    ) -> Iterator[Page]:
        """Pages of the rows with start <= row < stop (None: to the end), in order or in reverse order.

        The first page has `size` rows, later ones about 2 MiB. Pages are separate calls: nothing is left open on the
        server, and a page can be read again. With `keys_only` all values are empty.
        """
        if stop is not None and start >= stop:
            return
        if reverse:
            yield from self._scan_back(start, stop, before, size, qualifiers)
            return
        while True:
            results = self._page(start, stop, size, before, qualifiers, keys_only=keys_only)
            if page := [(result.row, self._cells(result)) for result in results]:
                yield page
            if len(page) < size:
                return
            start, size = page[-1][0] + b"\x00", _next_size(page, size)

    def _scan_back(
        self, low: bytes, high: bytes | None, before: int | None, size: int, qualifiers: Sequence[bytes] | None
    ) -> Iterator[Page]:
        """A reverse scan. That of HBase includes its upper bound and leaves out its lower one."""
        while True:
            results = self._page(low, high, size + 1, before, qualifiers, reverse=True)
            page = [(result.row, self._cells(result)) for result in results if result.row != high]
            if len(results) <= size:
                if low and (first := self.get(low, before=before, qualifiers=qualifiers)):
                    page.append((low, first))
                if page:
                    yield page
                return
            yield page
            high, size = page[-1][0], _next_size(page, size)

    def scan_ranges(
        self, ranges: Sequence[RowRange], *, before: int | None = None, qualifiers: Sequence[bytes] | None = None
    ) -> Iterator[Page]:
        """The rows of many ranges that are sorted and do not overlap. Each page has all rows of some more ranges.

        Several calls run at a time.
        """
        groups = [ranges[i : i + RANGES] for i in range(0, len(ranges), RANGES)]
        return self._connections.map(lambda group: self._read_ranges(group, before, qualifiers), groups)

    def _read_ranges(self, ranges: Sequence[RowRange], before: int | None, qualifiers: Sequence[bytes] | None) -> Page:
        rows, size = Page(), 2 * RANGES
        left = list(ranges)
        while left:
            results = self._page(left[0].low, left[-1].high, size, before, qualifiers, ranges_filter(left))
            page = [(result.row, self._cells(result)) for result in results]
            rows += page
            if len(page) < size:
                return rows
            after = page[-1][0] + b"\x00"
            left = [RowRange(max(r.low, after), r.high) for r in left if not r.high or r.high > after]
            size = _next_size(page, size)
        return rows

    def _page(
        self,
        low: bytes,
        high: bytes | None,
        rows: int,
        before: int | None,
        qualifiers: Sequence[bytes] | None,
        row_filter: bytes | None = None,
        *,
        reverse: bool = False,
        keys_only: bool = False,
    ) -> list[Any]:
        """Up to `rows` results, from one call. A reverse scan goes from `high`, which it includes, to `low`."""
        start, stop = (high or b"", low) if reverse else (low, high or b"")
        scan = self._idl.TScan(
            startRow=start,
            stopRow=stop,
            columns=self._columns(qualifiers),
            caching=rows,
            limit=rows,
            reversed=reverse or None,
            timeRange=self._times(before),
            filterBytes=row_filter,
            filterString=b"KeyOnlyFilter()" if keys_only else None,
        )
        results: list[Any] = self._connections.call("getScannerResults", self._name, scan, rows)
        return results

    # writing

    def put_many(self, rows: Iterable[tuple[bytes, Mapping[bytes, bytes]]], *, timestamp: int | None = None) -> None:
        """Puts cells of many rows. Each row is atomic, all together are not. Several calls run at a time."""
        puts = [self._put(row, cells, timestamp) for row, cells in rows]
        for _ in self._connections.map(lambda part: self._call("putMultiple", part), list(_parts(puts))):
            pass

    def delete_many(self, deletions: Sequence[Deletion]) -> None:
        """Deletes cells of many rows. Each row is atomic, all together are not."""
        parts = [deletions[i : i + PUTS] for i in range(0, len(deletions), PUTS)]
        for _ in self._connections.map(lambda p: self._call("deleteMultiple", [self._delete(d) for d in p]), parts):
            pass

    def mutate_row(
        self, row: bytes, puts: Mapping[bytes, bytes], deletes: Sequence[bytes] = (), *, timestamp: int | None = None
    ) -> None:
        """Puts some columns of a row and deletes others, in one step."""
        self._call("mutateRow", self._mutations(row, puts, deletes, timestamp))

    def change_rows(self, changes: Sequence[RowChange]) -> None:
        """Puts and deletes cells of rows. Each row changes in one step, all together do not. Several run at a time."""

        def change_row(change: RowChange) -> None:
            mutations = []
            if change.puts:
                mutations.append(self._idl.TMutation(put=self._put(change.row, change.puts, None)))
            for kind in (self._idl.TDeleteType.DELETE_COLUMNS, self._idl.TDeleteType.DELETE_FAMILY):
                whole = kind == self._idl.TDeleteType.DELETE_FAMILY
                names = [q for q in change.deletes if (self._split(q)[1] is None) == whole]
                columns = [self._idl.TColumn(*self._split(q), change.deletes[q]) for q in names]
                if columns:
                    delete = self._idl.TDelete(row=change.row, columns=columns, deleteType=kind)
                    mutations.append(self._idl.TMutation(deleteSingle=delete))
            self._call("mutateRow", self._idl.TRowMutations(row=change.row, mutations=mutations))

        for _ in self._connections.map(change_row, list(changes)):
            pass

    def check_and_mutate(
        self,
        row: bytes,
        qualifier: bytes,
        expected: bytes | None,
        puts: Mapping[bytes, bytes],
        deletes: Sequence[bytes] = (),
        *,
        timestamp: int | None = None,
    ) -> bool:
        """Changes a row in one step, if a column has the expected value (None: if it does not exist).

        Returns whether it did. Raises `Unanswered` if that is unknown: read the row again to find out. So the caller
        must put a value that no other change puts.
        """
        family, column = self._split(qualifier)
        if expected is not None:
            mutations = self._mutations(row, puts, deletes, timestamp)
            equal = self._idl.TCompareOp.EQUAL
            done = self._connections.call_once(
                "checkAndMutate", self._name, row, family, column, equal, expected, mutations
            )
        else:
            assert not deletes, "a row that has no such column yet is only put"
            put = self._put(row, puts, timestamp)
            done = self._connections.call_once("checkAndPut", self._name, row, family, column, None, put)
        return bool(done)

    # in the terms of Thrift

    def _call(self, name: str, argument: Any) -> None:
        self._connections.call(name, self._name, argument)

    def _split(self, qualifier: bytes) -> tuple[bytes, bytes | None]:
        """The family and the qualifier of a column. Without a colon it is a whole family."""
        if self.family is not None:
            return self.family, qualifier
        family, colon, rest = qualifier.partition(b":")
        return family, rest if colon else None

    def _cells(self, result: Any) -> Cells:
        if self.family is not None:
            return {cell.qualifier: (cell.value, cell.timestamp) for cell in result.columnValues}
        return {cell.family + b":" + cell.qualifier: (cell.value, cell.timestamp) for cell in result.columnValues}

    def _columns(self, qualifiers: Sequence[bytes] | None) -> list[Any] | None:
        if qualifiers is not None:
            return [self._idl.TColumn(*self._split(qualifier)) for qualifier in qualifiers]
        return None if self.family is None else [self._idl.TColumn(self.family)]

    def _times(self, before: int | None) -> Any:
        return None if before is None else self._idl.TTimeRange(0, before)

    def _get(self, row: bytes, before: int | None, qualifiers: Sequence[bytes] | None) -> Any:
        return self._idl.TGet(row=row, columns=self._columns(qualifiers), timeRange=self._times(before))

    def _put(self, row: bytes, cells: Mapping[bytes, bytes], timestamp: int | None) -> Any:
        values = [self._idl.TColumnValue(*self._split(qualifier), value) for qualifier, value in cells.items()]
        return self._idl.TPut(row=row, columnValues=values, timestamp=timestamp)

    def _delete(self, deletion: Deletion) -> Any:
        types, timestamp = self._idl.TDeleteType, deletion.timestamp
        if deletion.qualifiers is not None:
            columns = [self._idl.TColumn(*self._split(q), timestamp) for q in deletion.qualifiers]
            kind = types.DELETE_COLUMN if deletion.kind == "version" else types.DELETE_COLUMNS
            return self._idl.TDelete(row=deletion.row, columns=columns, deleteType=kind)
        if self.family is None:
            assert deletion.kind == "upto", "one version of a whole row cannot be deleted"
            return self._idl.TDelete(row=deletion.row, timestamp=timestamp)
        kind = types.DELETE_FAMILY_VERSION if deletion.kind == "version" else types.DELETE_FAMILY
        column = self._idl.TColumn(self.family, None, timestamp)
        return self._idl.TDelete(row=deletion.row, columns=[column], deleteType=kind)

    def _mutations(
        self, row: bytes, puts: Mapping[bytes, bytes], deletes: Sequence[bytes], timestamp: int | None
    ) -> Any:
        mutations = []
        if puts:
            mutations.append(self._idl.TMutation(put=self._put(row, puts, timestamp)))
        if deletes:
            columns = [self._idl.TColumn(*self._split(qualifier), timestamp) for qualifier in deletes]
            delete = self._idl.TDelete(row=row, columns=columns, deleteType=self._idl.TDeleteType.DELETE_COLUMNS)
            mutations.append(self._idl.TMutation(deleteSingle=delete))
        return self._idl.TRowMutations(row=row, mutations=mutations)


def _parts(puts: Sequence[Any]) -> Iterator[list[Any]]:
    """Puts in parts of a limited number of rows and bytes."""
    part: list[Any] = []
    size = 0
    for put in puts:
        part.append(put)
        size += len(put.row) + sum(len(cell.value) + len(cell.qualifier) for cell in put.columnValues)
        if len(part) == PUTS or size > BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _next_size(page: Page, rows: int) -> int:
    """The number of rows of the next page, so that its size is about `BYTES`; at most four times as many as now."""
    size = sum(len(value) + len(qualifier) + len(row) for row, cells in page for qualifier, (value, _) in cells.items())
    return max(1, min(BYTES * len(page) // max(size, 1), 4 * rows, LARGEST_PAGE))
