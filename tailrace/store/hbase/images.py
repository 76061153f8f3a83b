"""Images: a copy of every row by transaction, and what is needed to merge later cells into it.

    ns:rows   row = table (u32) | node (u16) | key, timestamp of the cells = transaction
              v   length of the stamps (u32) | stamps | the row as `TableDef.rows` packs it, empty if there is none;
                  v1, v2, ... the rest of it, if it is long
              b   why it cannot be read: a JSON object of columns and reasons; empty if it can be read again

Stamps are: number of columns (u16) | timestamp of the cell `_` and of each column by stored position (i64 each) |
deletions and cells of other columns (msgpack), if there are any.

The key is that of the table's key codec. A row whose row key is no primary key has the key 0xff and its row key.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import numpy as np

from tailrace.codec.arrays import Vector
from tailrace.errors import Corrupt
from tailrace.store.hbase.cell_merging import ABSENT, Column, Stamps
from tailrace.store.hbase.client import Cells, Deletion, HbaseTable
from tailrace.store.hbase.long_values import join_value, split_value
from tailrace.store.hbase.mapping import KEY

IMAGE, BAD = b"v", b"b"
BAD_KEY = b"\xff"  # the beginning of the key of a row whose row key is no primary key
_PREFIX = struct.Struct(">IH")
_COUNT = struct.Struct("<H")
_LENGTH = struct.Struct("<I")


NOTHING: Mapping[str, str] = MappingProxyType({})


def image_prefix(table: int, node: int) -> bytes:
    return _PREFIX.pack(table, node)


class Image(NamedTuple):
    """A row: packed (None: absent), its stamps (encoded), and which of its columns are bad."""

    row: bytes | None
    stamps: bytes
    bad: Mapping[str, str] = NOTHING


class Gone(NamedTuple):
    """The image of a deleted row: its key, its transaction, and the greatest timestamp of a deletion in it."""

    key: bytes
    transaction: int
    deleted: int

    @property
    def table(self) -> int:
        return int(_PREFIX.unpack_from(self.key)[0])


class WrittenImages(msgspec.Struct, frozen=True, array_like=True):
    """Which images a transaction wrote: all that `trim` has to know of them.

    `replaced` has a byte for each key: 1 if there may be an older image. `deleted` has the images of deleted rows: the
    place of the key, and the greatest timestamp of a deletion in the image.
    """

    keys: list[bytes]
    replaced: bytes
    deleted: dict[int, int]


def encode_stamps(timestamps: Vector, more: Mapping[int, Stamps | None]) -> list[bytes]:
    """The stamps of images. `timestamps` has a line for each image: those of the cell `_` and of the columns by
    position. `more` has everything else, by image.
    """
    count, columns = timestamps.shape
    records = np.empty(count, _stamps_type(columns))
    records["count"], records["timestamps"] = columns, timestamps
    whole, size = records.tobytes(), records.itemsize
    stamps = [whole[at : at + size] for at in range(0, count * size, size)]
    for image, rest in more.items():
        if rest is not None:
            stamps[image] += msgspec.msgpack.encode(rest)
    return stamps


def decode_stamps(stamps: Sequence[bytes | None], columns: int) -> tuple[Vector, Vector]:
    """The timestamps of images, a line for each, and which of them have more. None is an image that does not exist.

    The timestamps are those of the cell `_` and of the other columns. Columns that were added since are absent.
    """
    timestamps = np.full((len(stamps), columns), ABSENT, np.int64)
    kind = _stamps_type(columns)
    usual = [n for n, one in enumerate(stamps) if one is not None and len(one) == kind.itemsize]
    records = np.frombuffer(b"".join([stamps[n] or b"" for n in usual]), kind)
    is_whole = records["count"] == columns
    timestamps[np.array(usual, np.int64)[is_whole]] = records["timestamps"][is_whole]
    have_more = np.zeros(len(stamps), bool)
    for n in {*range(len(stamps))}.difference(np.array(usual, np.int64)[is_whole].tolist()):
        if (one := stamps[n]) is not None:
            stored = _COUNT.unpack_from(one)[0]
            known = min(stored, columns)
            timestamps[n, :known] = np.frombuffer(one, "<i8", known, _COUNT.size)
            have_more[n] = len(one) > _COUNT.size + 8 * stored
    return timestamps, have_more


def _stamps_type(columns: int) -> np.dtype[np.void]:
    return np.dtype([("count", "<u2"), ("timestamps", "<i8", (columns,))])


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

    def transactions(self, keys: Sequence[bytes]) -> list[int | None]:
        """The transactions that have written the newest images under these keys; None where there is none."""
        found = self._table.look_up(keys, qualifiers=[IMAGE]) if keys else []
        return [cells[IMAGE][1] if cells else None for cells in found]

    def write(self, images: Sequence[tuple[bytes, Image]], was_bad: Sequence[bool], transaction: int) -> None:
        rows = []
        for (key, image), bad_before in zip(images, was_bad, strict=True):
            cells = split_value(IMAGE, _LENGTH.pack(len(image.stamps)) + image.stamps + (image.row or b""))
            if image.bad or bad_before:
                cells[BAD] = msgspec.json.encode(dict(image.bad)) if image.bad else b""
            rows.append((key, cells))
        self._table.put_many(rows, timestamp=transaction)

    def scan(
        self, prefix: bytes, transaction: int, after: bytes = b"", upto: bytes | None = None
    ) -> Iterator[list[tuple[bytes, bytes, Mapping[str, str]]]]:
        """Pages of the rows with after < key <= upto as of a transaction: key, packed row, its bad columns."""
        start = prefix + after + (b"\0" if after else b"")
        stop = after_prefix(prefix) if upto is None else prefix + upto + b"\0"
        for page in self._table.scan(start, stop, before=transaction + 1):
            images = ((key[len(prefix) :], _image(cells)) for key, cells in page)
            yield [(key, image.row or b"", image.bad) for key, image in images if image.row or image.bad]

    def trim(self, written: Iterable[tuple[int, WrittenImages]]) -> list[Gone]:
        """Deletes the images that later ones replace. Returns those that are left of deleted rows.

        `written` has the images of all transactions up to a cut that were not trimmed before, in order.
        """
        newest: dict[bytes, int] = {}
        replaced: set[bytes] = set()
        deleted: dict[bytes, int] = {}
        for transaction, images in written:
            for place, (key, is_replaced) in enumerate(zip(images.keys, images.replaced, strict=True)):
                if is_replaced or key in newest:
                    replaced.add(key)
                newest[key] = transaction
                deleted.pop(key, None)
                if place in images.deleted:
                    deleted[key] = images.deleted[place]
        self._table.delete_many([Deletion(key, newest[key] - 1) for key in sorted(replaced)])
        return [Gone(key, newest[key], last) for key, last in deleted.items()]

    def forget(self, gone: Sequence[Gone]) -> None:
        """Deletes images of deleted rows. Their deletions must be below the horizon of the table."""
        self._table.delete_many([Deletion(one.key, one.transaction) for one in gone])

    def drop(self, table: int, transaction: int) -> None:
        """Deletes all images of a table."""
        prefix = struct.pack(">I", table)
        for page in self._table.scan(prefix, after_prefix(prefix), keys_only=True):
            self._table.delete_many([Deletion(key, transaction) for key, _ in page])


def after_prefix(prefix: bytes) -> bytes:
    """The first key after all keys with a prefix."""
    return (int.from_bytes(prefix, "big") + 1).to_bytes(len(prefix), "big")


def _image(cells: Cells) -> Image:
    value = join_value(IMAGE, cells)
    end = _LENGTH.size + int(_LENGTH.unpack_from(value)[0])
    return Image(value[end:] or None, value[_LENGTH.size : end], _bad(cells[BAD][0]) if BAD in cells else NOTHING)


def _bad(cell: bytes) -> Mapping[str, str]:
    """The bad columns. A note that cannot be read counts as one about the whole row: an audit finds it."""
    try:
        return msgspec.json.decode(cell, type=dict[str, str]) if cell else NOTHING
    except msgspec.MsgspecError as error:
        return {KEY: f"the note about it is damaged ({error})"}


def last_deletion(stamps: bytes) -> int:
    """The greatest timestamp of a deletion that stamps remember."""
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
