"""The longest keys that a store can hold, and how longer keys are shortened.

A shortened key keeps its beginning, so it stays near its neighbours. It ends in a digest of the whole key, so it stays
unique. Shortened keys with the same beginning are not in order: readers that need the order compare the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.codec.keys import DIGEST, digest


@dataclass(frozen=True)
class KeyLimit:
    """The limits of one kind of store in bytes: for a whole key, and for each part of a two-part key (group, row)."""

    whole: int
    part: int

    def shorten(self, keys: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        return _shorten(keys, self.whole)

    def shorten_one(self, key: bytes) -> bytes:
        return _shorten_one(key, self.whole)

    def shorten_part(self, keys: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        return _shorten(keys, self.part)

    def shorten_part_one(self, key: bytes) -> bytes:
        return _shorten_one(key, self.part)

    @property
    def exact_whole(self) -> int:
        """The number of leading bytes that shortening keeps. Keys up to this length are in order."""
        return self.whole - DIGEST

    @property
    def exact_part(self) -> int:
        """The number of leading bytes that shortening keeps of a part. Parts up to this length are in order."""
        return self.part - DIGEST


def _shorten(keys: pa.LargeBinaryArray, limit: int) -> pa.LargeBinaryArray:
    longest = pc.max(pc.binary_length(keys)).as_py()
    if longest is None or longest <= limit:  # nearly always
        return keys
    return pa.array([_shorten_one(k, limit) for k in keys.to_pylist()], pa.large_binary())


def _shorten_one(key: bytes, limit: int) -> bytes:
    return key if len(key) <= limit else key[: limit - DIGEST] + digest(key)
