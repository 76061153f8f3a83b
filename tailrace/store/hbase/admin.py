"""Namespaces and tables of HBase: making, describing and dropping them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tailrace.errors import RequestRefused
from tailrace.store.hbase.client import Client
from tailrace.store.hbase.connections import idl

ALL_VERSIONS = FOREVER = 2**31 - 1
_REPLACED = (b"SPLIT", b"MERGED")  # states of regions whose rows are in other regions now
UNSPLIT = {b"SPLIT_POLICY": b"org.apache.hadoop.hbase.regionserver.DisabledRegionSplitPolicy"}
"""The attribute of a table whose regions are never split."""


@dataclass(frozen=True)
class Family:
    """A column family: how many versions of a cell it keeps, and its replication scope (1: replicated).

    `ttl`: seconds after which cells vanish. `by_sequence`: deletions hide only cells that were put before them.
    """

    name: bytes
    versions: int = 1
    scope: int = 0
    ttl: int | None = None
    by_sequence: bool = False


@dataclass(frozen=True)
class Region:
    """A region of a table: the rows with start <= row < end (empty: no bound), and the server that has it.

    `name` is the encoded name, `id` the time of its creation.
    """

    start: bytes
    end: bytes
    name: str
    id: int
    server: str


class PlacedRegion(msgspec.Struct, frozen=True):
    """A region as `hbase:meta` has it: its rows (first row and end in hexadecimal; no end: to the last), its server."""

    table: str
    name: str
    start: str
    end: str
    server: str

    def overlaps(self, other: PlacedRegion) -> bool:
        """Whether two regions of a table have rows in common."""
        return (not other.end or self.start < other.end) and (not self.end or other.start < self.end)


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
        """The regions of a table, in the order of their rows."""
        located = self._connections.call("getAllRegionLocations", name.encode())
        numbers = self._region_ids(name)
        regions = [_region(one, numbers.get(one.regionInfo.startKey or b"", 0)) for one in located]
        return sorted(regions, key=lambda region: region.start)

    def servers(self) -> list[str]:
        """The names of the region servers that have regions: host, port and time of the start."""
        found = set()
        for page in self._meta.scan(b"", None, qualifiers=[b"server", b"serverstartcode"]):
            for _, cells in page:
                if b"server" in cells and b"serverstartcode" in cells:
                    host, _, port = cells[b"server"][0].decode().rpartition(":")
                    found.add(f"{host},{port},{int.from_bytes(cells[b'serverstartcode'][0])}")
        return sorted(found)

    def is_enabled(self, name: str) -> bool:
        return bool(self._connections.call("isTableEnabled", self._name(name)))

    def placement(self, name: str, known: Mapping[str, PlacedRegion]) -> list[PlacedRegion]:
        """The regions of a table and their servers. A region that is in transition stays where it was `known` to be."""
        prefix, found = f"{name},".encode(), list[tuple[bytes, str, str]]()
        for page in self._meta.scan(prefix + b",", prefix[:-1] + b"-,"):
            for row, cells in page:
                start, _, rest = row.removeprefix(prefix).rpartition(b",")
                encoded = rest.strip(b".").rpartition(b".")[2].decode()
                state = cells.get(b"state", (b"", 0))[0]
                if state == b"OPEN" and b"server" in cells and b"serverstartcode" in cells:
                    code = int.from_bytes(cells[b"serverstartcode"][0], "big")
                    server = f"{cells[b'server'][0].decode().replace(':', ',')},{code}"
                    found.append((start, encoded, server))
                elif state not in _REPLACED and encoded in known:
                    found.append((start, encoded, known[encoded].server))
        found.sort()
        ends = [start for start, _, _ in found[1:]] + [b""]
        return [
            PlacedRegion(name, encoded, start.hex(), end.hex(), server)
            for (start, encoded, server), end in zip(found, ends, strict=True)
        ]

    def _region_ids(self, name: str) -> dict[bytes, int]:
        """The id of each region, by its first row. The answer to `getAllRegionLocations` leaves it out.

        Rows of `hbase:meta` are `table,first row,id.encoded name.`; a region that was split still has one. The newest
        region with a first row is the live one. Bounds of such a scan need the second comma, by which HBase orders.
        """
        prefix, ids = f"{name},".encode(), dict[bytes, int]()
        for page in self._meta.scan(prefix + b",", prefix[:-1] + b"-,"):
            for row, _ in page:
                start, _, rest = row.removeprefix(prefix).rpartition(b",")
                ids[start] = max(ids.get(start, 0), int(rest.partition(b".")[0].partition(b"_")[0]))
        return ids

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
    return Family(column.name, column.maxVersions, column.scope, ttl, by_sequence)


def _full_name(name: Any) -> str:
    """`namespace:name`; without the namespace if that is `default`."""
    return name.qualifier.decode() if name.ns == b"default" else f"{name.ns.decode()}:{name.qualifier.decode()}"


def _region(location: Any, number: int) -> Region:
    info, server = location.regionInfo, location.serverName
    start, end = info.startKey or b"", info.endKey or b""
    name = hashlib.md5(b"%b,%b,%d" % (info.tableName, start, number), usedforsecurity=False).hexdigest()
    return Region(start, end, name, number, f"{server.hostName},{server.port},{server.startCode}")
