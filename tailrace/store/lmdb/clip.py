"""Keys that fit LMDB, whose keys are at most 511 bytes long.

A longer key keeps its beginning, so that it stays near its neighbours, and ends in a digest of the
whole, so that it stays itself. Readers that need the exact order of long keys compare the rows.
"""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pyarrow.compute as pc

LIMIT = 480  # a whole key; the rest of the 511 bytes is for the prefixes of tables and states
PART = 232  # each part of a two-part key (group, row)
DIGEST = 16


def digest(value: bytes) -> bytes:
    return hashlib.blake2b(value, digest_size=DIGEST).digest()


def clip_one(key: bytes, limit: int = LIMIT) -> bytes:
    return key if len(key) <= limit else key[: limit - DIGEST] + digest(key)


def clip(keys: pa.LargeBinaryArray, limit: int = LIMIT) -> pa.LargeBinaryArray:
    """Keys over the limit cut and marked with a digest; the others, nearly always all, as they are."""
    longest = pc.max(pc.binary_length(keys)).as_py()
    if longest is None or longest <= limit:
        return keys
    return pa.array([clip_one(k, limit) for k in keys.to_pylist()], pa.large_binary())
