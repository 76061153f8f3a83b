"""Compares the images of a table with the rows that HBase has now, and says what the images should be.

Writers go on meanwhile, so a row that differs is looked at again: its cells are read, then everything that was written
before is resolved, then its cells are read again. If they are the same, the image must have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from tailrace.codec.arrays import LARGE_BINARY
from tailrace.codec.murmur import hash_buckets
from tailrace.codec.schema import TableDef
from tailrace.store.hbase.cell_merging import ABSENT
from tailrace.store.hbase.client import Cells
from tailrace.store.hbase.images import BAD_KEY, Image, decode_stamps, encode_stamps, image_prefix
from tailrace.store.hbase.mapping import escape
from tailrace.store.hbase.raw_log import DELETE_FAMILY, concat, scanned_cells
from tailrace.store.hbase.resolving import Touched, resolve
from tailrace.store.inspection import UNREADABLE

if TYPE_CHECKING:
    from tailrace.store.hbase.hbase_store import HbaseStore

ATTEMPTS = 5  # looks at a row that its writers keep changing
_NONE = Image(None, encode_stamps(np.zeros((1, 0), np.int64), {})[0])

Rows = Sequence[tuple[bytes, Cells]]


class WrongImage(NamedTuple):
    """An image that is not what HBase has: its whole key, its row key, what is wrong, and what it should be.

    It was compared as of a transaction.
    """

    key: bytes
    row: bytes
    fault: str
    right: Image
    transaction: int

    def __str__(self) -> str:
        return f"image of row {escape(self.row)}: {self.fault}"


class RowComparer:
    """Compares one table."""

    def __init__(self, store: HbaseStore, table: TableDef) -> None:
        self._store, self._user = store, store.user_table(table)
        self._mapped, self._images = self._user.mapped, store.images
        self.rows = 0  # rows that the images show, as of the transaction of the last comparison

    def compare(self, transaction: int) -> list[WrongImage]:
        """All images that are wrong, with or without a row in HBase. Counts the rows as of a transaction."""
        suspects: set[bytes] = set()
        for page in self._user.scan():
            suspects |= {wrong.row for wrong in self._wrong(page, transaction)}
        strays = []
        self.rows = 0
        for node in range(self._store.nodes):
            prefix = image_prefix(self._mapped.table.id, node)
            for entries in self._images.scan(prefix, transaction):
                self.rows += sum(1 for _, row, bad in entries if row and not bad)
                names = [(key, self._row_key(key, node)) for key, _, _ in entries]
                strays += [
                    WrongImage(prefix + key, key, "it is of no row", _NONE, transaction)
                    for key, row in names
                    if row is None
                ]
                rows = [row for _, row in names if row is not None]
                suspects |= {row for row, cells in zip(rows, self._user.get(rows), strict=True) if not cells}
        return [*strays, *self._confirm(sorted(suspects))]

    def _row_key(self, key: bytes, node: int) -> bytes | None:
        """The row key of HBase of an image; None if its key is none, or of another node."""
        if key.startswith(BAD_KEY):
            return key.removeprefix(BAD_KEY)
        try:
            row = self._mapped.rows_of_keys([key])[0]
            columns, bad = self._mapped.key_columns(pa.array([row], LARGE_BINARY))
            return None if bad[0] or hash_buckets(columns, self._store.nodes, 1)[0] != node else row
        except UNREADABLE:
            return None

    def _confirm(self, rows: Sequence[bytes]) -> list[WrongImage]:
        confirmed: list[WrongImage] = []
        for _ in range(ATTEMPTS):
            if not rows:
                break
            before = self._user.get(rows)
            self._store.catch_up()
            transaction = self._store.newest_cut().transaction
            after = self._user.get(rows)
            same = [i for i in range(len(rows)) if before[i] == after[i]]
            confirmed += self._wrong([(rows[i], after[i]) for i in same], transaction)
            rows = [row for i, row in enumerate(rows) if before[i] != after[i]]
        return confirmed

    def _wrong(self, page: Rows, transaction: int) -> Iterator[WrongImage]:
        """Those of some rows whose images are wrong."""
        touched, right = self._right(page)
        stored = self._stored(touched.keys, transaction)
        for key, row, image, expected in zip(touched.keys, touched.rows, stored, right, strict=True):
            if (fault := self._fault(image, expected)) is not None:
                yield WrongImage(key, row, fault, expected, transaction)

    def _right(self, page: Rows) -> tuple[Touched, list[Image]]:
        """The images that rows should have. A row without cells has that of a deleted row."""
        name, family = self._mapped.mapping.table, self._mapped.families[0]
        gone = scanned_cells(name, [(row, {family + b":": (b"", 1)}) for row, cells in page if not cells])
        deletions = replace(gone, kinds=np.full(len(gone), DELETE_FAMILY, np.uint8))
        cells = concat([scanned_cells(name, [(row, cells) for row, cells in page if cells]), deletions])
        touched = Touched(self._mapped, cells, self._store.nodes, self._store.key_limit)
        resolved = resolve(touched, [None] * len(touched), ABSENT, lambda doubts: [None] * len(doubts))
        return touched, [image for _, image in resolved.images]

    def _stored(self, keys: Sequence[bytes], transaction: int) -> list[Image | str | None]:
        """The images under these keys, or why they cannot be read."""
        try:
            return [*self._images.read(keys, transaction)]
        except UNREADABLE as error:
            if len(keys) == 1:
                return [f"it cannot be read ({error or type(error).__name__})"]
            half = len(keys) // 2
            return [*self._stored(keys[:half], transaction), *self._stored(keys[half:], transaction)]

    def _fault(self, image: Image | str | None, right: Image) -> str | None:
        if isinstance(image, str):
            return image
        if image is None:
            return None if right.row is None and not right.bad else "it is missing"
        if bool(image.bad) != bool(right.bad):
            return "it is noted as bad, but HBase has valid cells" if image.bad else "it is not noted as bad"
        if right.bad:
            return None
        if right.row is None or image.row is None:
            return None if right.row == image.row else "HBase does not have the row" if image.row else "it has no row"
        try:
            table, columns = self._mapped.table, len(self._mapped.table.stored) + 1
            is_same = table.rows.encode(table.decode([image.row])).to_pylist() == [right.row]
            (stamps, expected), _ = decode_stamps([image.stamps, right.stamps], columns)
        except UNREADABLE as error:
            return f"it cannot be read ({error or type(error).__name__})"
        if not is_same:
            return "its values are not those of HBase"
        return None if np.array_equal(stamps, expected) else "its timestamps are not those of HBase"
