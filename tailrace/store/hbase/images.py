"""Images: a copy of every row by transaction, and what is needed to merge later cells into it.

    ns:rows   row = table (u32) | node (u16) | key, timestamp of the cells = transaction
              v   the row as `TableDef.rows` packs it; empty if there is none
              t   its stamps: number of columns (u16) | timestamp of the cell `_` and of each column by stored position
                  (i64 each) | deletions and cells of other columns (msgpack), if there are any
              b   why it cannot be read: a JSON object of columns and reasons; empty if it can be read again

The key is that of the table's key codec. A row whose row key is no primary key has the key 0xff and its row key.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np

from tailrace.codec.arrays import Vector
from tailrace.errors import Corrupt
from tailrace.store.hbase.cell_merging import ABSENT, Column, Stamps
from tailrace.store.hbase.client import Deletion, HbaseTable
from tailrace.store.hbase.mapping import KEY

ROW, STAMPS, BAD = b"v", b"t", b"b"
BAD_KEY = b"\xff"  # the beginning of the key of a row whose row key is no primary key
_PREFIX = struct.Struct(">IH")
_COUNT = struct.Struct("<H")


def image_prefix(table: int, node: int) -> bytes:
    return _PREFIX.pack(table, node)


@dataclass(frozen=True)
class Image:
    """A row: packed (None: absent), its stamps (encoded), and which of its columns are bad."""

    row: bytes | None
    stamps: bytes
    bad: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> bytes | None:
        """The row if it can be read."""
        return None if self.bad else self.row


class Gone(NamedTuple):
    """The image of a deleted row: its key, its transaction, and the greatest timestamp of a deletion in it."""

    key: bytes
    transaction: int
    deleted: int

    @property
    def table(self) -> int:
        return int(_PREFIX.unpack_from(self.key)[0])


def encode_stamps(timestamps: Vector, more: Stamps | None) -> bytes:
    """`timestamps` are those of the cell `_` and of the columns by position; `more` has everything else."""
    head = _COUNT.pack(len(timestamps)) + timestamps.astype("<i8").tobytes()
    return head if more is None else head + msgspec.msgpack.encode(more)


def is_plain(stamps: bytes) -> bool:
    """Whether stamps have only the timestamps of columns."""
    return bool(len(stamps) == _COUNT.size + 8 * _COUNT.unpack_from(stamps)[0])


def decode_timestamps(stamps: bytes, count: int) -> Vector:
    """The timestamps of the cell `_` and of the first `count` columns; those added since are absent."""
    timestamps = np.full(count + 1, ABSENT, np.int64)
    stored = min(_COUNT.unpack_from(stamps)[0], count + 1)
    timestamps[:stored] = np.frombuffer(stamps, "<i8", stored, _COUNT.size)
    return timestamps


def decode_more(stamps: bytes) -> Stamps:
    """What stamps have besides the timestamps of columns."""
    at = _COUNT.size + 8 * _COUNT.unpack_from(stamps)[0]
    try:
        return msgspec.msgpack.decode(stamps[at:], type=Stamps) if at < len(stamps) else Stamps()
    except msgspec.MsgspecError as error:
        raise Corrupt(where="the stamps of an image", reason=str(error)) from None


class Images:
    """The table of images."""

    def __init__(self, table: HbaseTable) -> None:
        self._table = table

    def read(self, keys: Sequence[bytes], transaction: int) -> list[Image | None]:
        """The images as of a transaction, by whole keys (with their prefixes)."""
        found = self._table.look_up(keys, before=transaction + 1) if keys else []
        return [_image(cells) if cells else None for cells in found]

    def write(self, images: Sequence[tuple[bytes, Image]], was_bad: Sequence[bool], transaction: int) -> None:
        rows = []
        for (key, image), bad_before in zip(images, was_bad, strict=True):
            cells = {ROW: image.row or b"", STAMPS: image.stamps}
            if image.bad or bad_before:
                cells[BAD] = msgspec.json.encode(image.bad) if image.bad else b""
            rows.append((key, cells))
        self._table.put_many(rows, timestamp=transaction)

    def scan(
        self, prefix: bytes, transaction: int, after: bytes = b"", upto: bytes | None = None
    ) -> Iterator[list[tuple[bytes, bytes, dict[str, str]]]]:
        """Pages of the rows with after < key <= upto as of a transaction: key, packed row, its bad columns."""
        start = prefix + after + (b"\0" if after else b"")
        stop = after_prefix(prefix) if upto is None else prefix + upto + b"\0"
        for page in self._table.scan(start, stop, before=transaction + 1, qualifiers=[ROW, BAD]):
            rows = ((key, cells.get(ROW, _NONE)[0], cells.get(BAD, _NONE)[0]) for key, cells in page)
            yield [(key[len(prefix) :], row, _bad(bad)) for key, row, bad in rows if row or bad]

    def trim(self, keys: Sequence[bytes], transaction: int) -> list[Gone]:
        """Deletes what is older than the newest version up to a transaction. Returns those that are of deleted rows."""
        found = self._table.look_up(keys, before=transaction + 1)
        deletions, gone = [], []
        for key, cells in zip(keys, found, strict=True):
            if cells:
                deletions.append(Deletion(key, cells[STAMPS][1] - 1))
                image = _image(cells)
                if image.row is None and not image.bad:
                    gone.append(Gone(key, cells[STAMPS][1], _last_deletion(image.stamps)))
        self._table.delete_many(deletions)
        return gone

    def forget(self, gone: Sequence[Gone]) -> None:
        """Deletes images of deleted rows. Their deletions must be below the horizon of the table."""
        self._table.delete_many([Deletion(one.key, one.transaction) for one in gone])

    def drop(self, table: int, transaction: int) -> None:
        """Deletes all images of a table."""
        prefix = struct.pack(">I", table)
        for page in self._table.scan(prefix, after_prefix(prefix), qualifiers=[STAMPS]):
            self._table.delete_many([Deletion(key, transaction) for key, _ in page])


_NONE = (b"", 0)


def after_prefix(prefix: bytes) -> bytes:
    """The first key after all keys with a prefix."""
    return (int.from_bytes(prefix, "big") + 1).to_bytes(len(prefix), "big")


def _image(cells: Mapping[bytes, tuple[bytes, int]]) -> Image:
    return Image(cells[ROW][0] or None, cells[STAMPS][0], _bad(cells.get(BAD, _NONE)[0]))


def _bad(cell: bytes) -> dict[str, str]:
    """The bad columns. A note that cannot be read counts as one about the whole row: an audit finds it."""
    try:
        return msgspec.json.decode(cell, type=dict[str, str]) if cell else {}
    except msgspec.MsgspecError as error:
        return {KEY: f"the note about it is damaged ({error})"}


def _last_deletion(stamps: bytes) -> int:
    more = decode_more(stamps)
    by_version = (*more.versions.values(), *more.family_versions.values())
    versions = (timestamp for timestamps in by_version for timestamp in timestamps)
    return max((*more.columns.values(), *more.families.values(), *versions), default=ABSENT)


def split_stamps(stamps: Stamps, positions: Mapping[Column, int], count: int) -> tuple[Vector, Stamps | None]:
    """Stamps as the timestamps of mapped columns and the rest."""
    timestamps = np.full(count + 1, ABSENT, np.int64)
    others = {}
    for column, timestamp in stamps.live.items():
        if column in positions:
            timestamps[positions[column]] = timestamp
        else:
            others[column] = timestamp
    rest = Stamps(others, stamps.columns, stamps.families, stamps.versions, stamps.family_versions)
    return timestamps, None if rest == Stamps() else rest
