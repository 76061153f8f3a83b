"""Namespaces and tables of HBase: making, describing and dropping them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tailrace.errors import RequestRefused
from tailrace.store.hbase.client import Client
from tailrace.store.hbase.connections import idl

ALL_VERSIONS = FOREVER = 2**31 - 1
UNSPLIT = {b"SPLIT_POLICY": b"org.apache.hadoop.hbase.regionserver.DisabledRegionSplitPolicy"}
"""The attribute of a table whose regions are never split."""


@dataclass(frozen=True)
class Family:
    """A column family: how many versions of a cell it keeps, and its replication scope (1: replicated).

    `ttl`: seconds after which cells vanish. `by_sequence`: deletions hide only cells that were put before them.
    `keeps_deleted`: reads up to a timestamp show cells that were deleted later.
    """

    name: bytes
    versions: int = 1
    scope: int = 0
    ttl: int | None = None
    by_sequence: bool = False
    keeps_deleted: bool = False


@dataclass(frozen=True)
class Region:
    """A region of a table: the rows with start <= row < end (empty: no bound), and the server that has or had it.

    `name` is the encoded name, `id` the time of its creation. A region that moves is not open. A new one may have had
    no server yet ("").
    """

    start: bytes
    end: bytes
    name: str
    id: int
    server: str
    is_open: bool


class Admin:
    def __init__(self, client: Client) -> None:
        self._connections, self._idl = client.connections, idl()
        self._meta = client.table("hbase:meta", b"info")

    # namespaces

    def create_namespace(self, name: str) -> None:
        """Makes a namespace, if there is none of that name."""
        if not self.namespace_exists(name):
            self._create("createNamespace", self._idl.TNamespaceDescriptor(name=name))

    def namespace_exists(self, name: str) -> bool:
        return any(found.name == name for found in self._connections.call("listNamespaceDescriptors"))

    def drop_namespace(self, name: str) -> None:
        """Drops a namespace and all its tables, if it exists."""
        if self.namespace_exists(name):
            for _ in self._connections.map(self.drop_table, self.tables(name)):
                pass
            self._connections.call("deleteNamespace", name)

    def tables(self, namespace: str) -> list[str]:
        names = self._connections.call("getTableNamesByNamespace", namespace)
        return sorted(_full_name(name) for name in names)

    # tables

    def create_table(
        self,
        name: str,
        families: Sequence[Family],
        splits: Sequence[bytes] = (),
        attributes: Mapping[bytes, bytes] | None = None,
    ) -> None:
        """Makes a table, if there is none of that name. It is divided into regions at `splits`."""
        if self.table_exists(name):
            return
        columns = [
            self._idl.TColumnFamilyDescriptor(name=f.name, maxVersions=f.versions, scope=f.scope) for f in families
        ]
        table = self._idl.TTableDescriptor(tableName=self._name(name), columns=columns, attributes=attributes)
        self._create("createTable", table, list(splits) or None)

    def table_exists(self, name: str) -> bool:
        return bool(self._connections.call("tableExists", self._name(name)))

    def drop_table(self, name: str) -> None:
        """Drops a table, if it exists."""
        if self.table_exists(name):
            if self.is_enabled(name):
                self._connections.call("disableTable", self._name(name))
            self._connections.call("deleteTable", self._name(name))

    def describe(self, name: str) -> list[Family]:
        """The families of a table."""
        return [_family(column) for column in self._columns(name)]

    def replicate(self, name: str, families: Sequence[bytes]) -> None:
        """Sets the replication scope of families to 1. Their regions are opened anew."""
        for column in self._columns(name):
            if column.name in families and column.scope != 1:
                column.scope = 1  # everything else is in its attributes, and stays
                self._connections.call("modifyColumnFamily", self._name(name), column)

    def _columns(self, name: str) -> list[Any]:
        """The descriptors of a table's families."""
        columns: list[Any] = self._connections.call("getTableDescriptor", self._name(name)).columns
        return columns

    def regions(self, name: str) -> list[Region]:
        """The regions of a table, in the order of their rows, from `hbase:meta`.

        (The call `getAllRegionLocations` fails while a region has no server, as in the middle of a split.)

        Rows of `hbase:meta` are `table,first row,id.encoded name.`. A region that was split still has one,
        which names its daughters. Bounds of such a scan need the second comma, by which HBase orders.
        """
        prefix, found = f"{name},".encode(), list[tuple[bytes, int, str, str, bool]]()
        for page in self._meta.scan(prefix + b",", prefix[:-1] + b"-,"):
            for row, cells in page:
                values = {column: value for column, (value, _) in cells.items()}
                if b"splitA" not in values:
                    start, _, rest = row.removeprefix(prefix).rpartition(b",")
                    number, _, encoded = rest.rstrip(b".").partition(b".")
                    found.append(
                        (start, int(number), encoded.decode(), _server(values), values.get(b"state") == b"OPEN")
                    )
        found.sort()
        ends = [start for start, *_ in found[1:]] + [b""]
        return [
            Region(start, end, encoded, number, server, is_open)
            for (start, number, encoded, server, is_open), end in zip(found, ends, strict=True)
        ]

    def servers(self) -> list[str]:
        """The names of the region servers that have regions: host, port and time of the start."""
        found = set()
        for page in self._meta.scan(b"", None, qualifiers=[b"server", b"serverstartcode"]):
            for _, cells in page:
                found.add(_server({column: value for column, (value, _) in cells.items()}))
        return sorted(found - {""})

    def is_enabled(self, name: str) -> bool:
        return bool(self._connections.call("isTableEnabled", self._name(name)))

    def _create(self, request: str, *arguments: Any) -> None:
        """Makes something. Another process, or an earlier call whose answer was lost, may have made it meanwhile."""
        try:
            self._connections.call(request, *arguments)
        except RequestRefused as error:
            if "exists" not in error.reason.lower() and "already" not in error.reason.lower():
                raise

    def _name(self, name: str) -> Any:
        namespace, colon, qualifier = name.rpartition(":")
        return self._idl.TTableName(ns=namespace.encode() if colon else b"default", qualifier=qualifier.encode())


def _family(column: Any) -> Family:
    ttl = None if column.timeToLive in (None, FOREVER) else column.timeToLive
    by_sequence = (column.attributes or {}).get(b"NEW_VERSION_BEHAVIOR", b"false").lower() == b"true"
    keeps_deleted = column.keepDeletedCells not in (None, idl().TKeepDeletedCells.FALSE)
    return Family(column.name, column.maxVersions, column.scope, ttl, by_sequence, keeps_deleted)


def _full_name(name: Any) -> str:
    """`namespace:name`; without the namespace if that is `default`."""
    return name.qualifier.decode() if name.ns == b"default" else f"{name.ns.decode()}:{name.qualifier.decode()}"


def _server(columns: Mapping[bytes, bytes]) -> str:
    """`host,port,start code` of the server of a row of `hbase:meta`."""
    address, code = columns.get(b"server"), columns.get(b"serverstartcode")
    if address is None or code is None:
        return ""
    return f"{address.decode().replace(':', ',')},{int.from_bytes(code, 'big')}"
