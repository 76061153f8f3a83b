"""A Thrift2 client for the tests, as any HBase user may have one: it knows nothing of Tailrace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import thriftpy2
from thriftpy2.rpc import make_client
from thriftpy2.thrift import TException
from thriftpy2.transport import TTransportException

from tailrace_hbase.probing import IDL
from tailrace_hbase.settings import HOST

hbase: Any = thriftpy2.load(str(IDL), module_name="tests_hbase_thrift")

Answer = TypeVar("Answer")


class Client:
    """One connection. Calls that fail because a server is away are repeated, so a put may happen twice."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: Any = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Returns a call of the interface, such as `putMultiple`."""
        return lambda *arguments: self._repeated(lambda connection: getattr(connection, name)(*arguments))

    def put(self, table: str, row: bytes, cells: dict[str, bytes], timestamp: int | None = None) -> None:
        self._repeated(lambda connection: connection.put(table.encode(), tput(row, cells, timestamp)))

    def put_rows(self, table: str, rows: Iterable[tuple[bytes, dict[str, bytes]]]) -> None:
        puts = [tput(row, cells) for row, cells in rows]
        self._repeated(lambda connection: connection.putMultiple(table.encode(), puts))

    def delete(
        self, table: str, row: bytes, columns: Sequence[str] = (), kind: int | None = None, timestamp: int | None = None
    ) -> None:
        """`columns` are families or family:qualifier; without them the whole row."""
        wanted = [tcolumn(name, timestamp) for name in columns] or None
        tdelete = hbase.TDelete(row=row, columns=wanted, deleteType=kind, timestamp=timestamp)
        self._repeated(lambda connection: connection.deleteSingle(table.encode(), tdelete))

    def scan(self, table: str, start: bytes = b"", stop: bytes = b"", page: int = 200) -> Iterator[Any]:
        """Yields rows in key order. Every page is a scan of its own, so it survives that a region moves."""
        while True:
            tscan = hbase.TScan(startRow=start, stopRow=stop, limit=page, caching=page)
            results = self.getScannerResults(table.encode(), tscan, page)
            yield from results
            if len(results) < page:
                return
            start = results[-1].row + b"\x00"

    def create_table(
        self, table: str, families: Sequence[str], scope: int = 0, splits: Sequence[bytes] = (), versions: int = 1
    ) -> None:
        columns = [hbase.TColumnFamilyDescriptor(name=f.encode(), scope=scope, maxVersions=versions) for f in families]
        description = hbase.TTableDescriptor(tableName=tname(table), columns=columns)
        if not self.tableExists(tname(table)):  # a repeated call may find its own table
            self.createTable(description, list(splits))

    def drop_table(self, table: str) -> None:
        if self.tableExists(tname(table)):
            if self.isTableEnabled(tname(table)):
                self.disableTable(tname(table))
            self.deleteTable(tname(table))

    def regions(self, table: str) -> list[Region]:
        """Returns the open regions, from hbase:meta. (getAllRegionLocations leaves out the ids of regions.)"""
        found = []
        for row in self.scan("hbase:meta", f"{table},,".encode(), f"{table}-".encode()):
            cells = {(cell.family, cell.qualifier): cell.value for cell in row.columnValues}
            if cells.get((b"info", b"state")) == b"OPEN":
                name, encoded = row.row[:-1].rsplit(b".", 1)
                _, rest = name.split(b",", 1)
                start, number = rest.rsplit(b",", 1)
                found.append((start, int(number), encoded.decode(), cells[b"info", b"server"].decode()))
        found.sort()
        ends = [start for start, *_ in found[1:]] + [b""]
        return [Region(start, end, *rest) for (start, *rest), end in zip(found, ends, strict=True)]

    def _repeated(self, call: Callable[[Any], Answer], seconds: float = 120) -> Answer:
        end = time.monotonic() + seconds
        while True:
            try:
                if self._connection is None:
                    self._connection = make_client(hbase.THBaseService, HOST, self._port, timeout=None)
                return call(self._connection)
            except (TTransportException, OSError, EOFError, hbase.TIOError) as problem:
                retried = not isinstance(problem, hbase.TIOError) or problem.canRetry
                self.close()
                if not retried or time.monotonic() > end:
                    raise
                time.sleep(0.1)
            except TException:
                self.close()
                raise


@dataclass(frozen=True)
class Region:
    start: bytes
    end: bytes
    id: int
    encoded_name: str
    server: str


def tname(table: str) -> Any:
    namespace, _, qualifier = table.rpartition(":")
    return hbase.TTableName(ns=(namespace or "default").encode(), qualifier=qualifier.encode())


def tcolumn(name: str, timestamp: int | None = None) -> Any:
    family, _, qualifier = name.partition(":")
    return hbase.TColumn(family=family.encode(), qualifier=qualifier.encode() or None, timestamp=timestamp)


def tput(row: bytes, cells: dict[str, bytes], timestamp: int | None = None) -> Any:
    values = []
    for name, value in cells.items():
        family, _, qualifier = name.partition(":")
        values.append(hbase.TColumnValue(family=family.encode(), qualifier=qualifier.encode(), value=value))
    return hbase.TPut(row=row, columnValues=values, timestamp=timestamp)
