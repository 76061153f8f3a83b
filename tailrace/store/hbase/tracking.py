"""Which tables of HBase are tailed, barriers in their regions, and the rows that a table had before.

Attaching a table makes the endpoint ship its cells, then scans it into the raw log. The scan and the log overlap, which
is harmless: cells are merged by their timestamps.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable

import msgspec

from tailrace.errors import SqlError, Unsupported
from tailrace.store.hbase.admin import Admin, Family, Region
from tailrace.store.hbase.client import Client, Deletion, HbaseTable
from tailrace.store.hbase.mapping import TableMapping, unescape
from tailrace.store.hbase.raw_log import (
    BARRIER,
    MARK,
    SCAN,
    Mark,
    chunk_cells,
    chunk_key,
    encode_chunk,
    mark_key,
    scanned_cells,
)

TRACKED = b"tracked"  # the row of `meta` with the tables whose cells the endpoint ships

Barrier = tuple[str, bytes]  # table, row


def new_scan_name() -> str:
    """The name of a region that does not exist, for the rows of a scan."""
    return SCAN + uuid.uuid4().hex[len(SCAN) :]


class Tracking:
    """The tailed tables of one store."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._admin = client, Admin(client)
        self._meta = client.table(f"{namespace}:meta", b"d")
        self._wal = client.table(f"{namespace}:wal", b"w")
        self._marks = client.table(f"{namespace}:marks", b"m")

    def replicate(self, mapping: TableMapping) -> None:
        """Sets the replication scope of the families of a table. Raises `SqlError` if it cannot be tailed."""
        families = {family.name: family for family in self._admin.describe(mapping.table)}
        for text in mapping.families:
            family = families.get(unescape(text))
            if family is None:
                raise SqlError(message=f"the HBase table {mapping.table} has no family {text!r}")
            if (reason := _obstacle(mapping.table, text, family)) is not None:
                raise Unsupported(construct=f"family {text!r} of the HBase table {mapping.table}", reason=reason)
        self._admin.replicate(mapping.table, [unescape(text) for text in mapping.families])

    def track(self, table: str) -> None:
        self._meta.put_many([(TRACKED, {table.encode(): b"{}"})])

    def untrack(self, table: str) -> None:
        cells = self._meta.get(TRACKED, qualifiers=[table.encode()])
        if cells:
            self._meta.delete_many([Deletion(TRACKED, cells[table.encode()][1], [table.encode()])])

    def scan(self, mapping: TableMapping) -> int:
        """Scans a tracked table into the raw log, as the scan that its mapping names.

        Returns the horizon: deletions up to it may not be in the log.
        It is the time now, or the greatest timestamp in the table if clients set greater ones.
        """
        horizon = int(time.time() * 1000)
        table = self._client.table(mapping.table, None)
        region, number = mapping.scan, 0
        for page in table.scan(b"", None):
            number += 1
            cells = scanned_cells(mapping.table, page)
            horizon = max(horizon, int(cells.timestamps.max()))
            self._wal.put_many([(chunk_key(region, number), chunk_cells(encode_chunk(cells)))])
        if number:
            mark = Mark(mapping.table, region, 0, "", "", horizon)
            value = msgspec.json.encode({k: getattr(mark, k) for k in mark.__struct_fields__ if k != "sequence"})
            self._marks.put_many([(mark_key(region, 0), {MARK: value})], timestamp=number)
        return horizon

    def put_barriers(self, mappings: Iterable[TableMapping]) -> tuple[bytes, dict[Barrier, Region]]:
        """Puts a barrier into each region of all tables. Returns them, without those of tables that do not exist.

        Also returns the name that they share, which no other barriers have: another store may tail the same tables.
        """
        name = uuid.uuid4().hex.encode()
        barriers: dict[Barrier, Region] = {}
        for table, family in {m.table: unescape(m.families[0]) for m in mappings}.items():
            regions = self._admin.regions(table) if self._admin.table_exists(table) else []
            while True:
                rows = {region.start or b"\0": region for region in regions}
                column = family + b":" + BARRIER + name
                handle: HbaseTable = self._client.table(table, None)
                handle.delete_many([Deletion(row, 1, [column], "version") for row in rows])
                again = self._admin.regions(table) if regions else []
                if [r.name for r in again] == [r.name for r in regions]:
                    break
                regions = again
            barriers |= {(table, row): region for row, region in rows.items()}
        return name, barriers


def _obstacle(table: str, text: str, family: Family) -> str | None:
    """Why a family cannot be tailed; None if it can."""
    if family.ttl is not None:
        return "its cells have a TTL: they vanish without an entry in the log. Remove it from the family"
    if family.by_sequence:
        return "it has NEW_VERSION_BEHAVIOR, in which deletions have another meaning"
    if family.keeps_deleted:
        reason = "it has KEEP_DELETED_CELLS, with which deleted cells show again when older versions are read"
        alter = f"alter '{table}', {{NAME => '{text}', KEEP_DELETED_CELLS => 'FALSE'}}"
        return f"{reason}. Run in the shell of HBase: {alter}"
    return None
