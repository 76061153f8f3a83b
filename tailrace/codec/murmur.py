"""Spark's Murmur3 hash in NumPy, so that Spark and Python assign a key to the same node and shard.

`hash_columns` equals Spark SQL's `hash(c1, c2, ...)` bit for bit: `Murmur3_x86_32` with seed 42. The hash of each
column is the seed of the next; a NULL leaves the hash unchanged. Spark differs from the published algorithm in the
bytes after the last whole word: it mixes each of them as a signed word of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.codec import arrays
from tailrace.codec.arrays import LONG_DIGITS, Vector, normalise, to_unscaled
from tailrace.codec.scalars import days, length, micros
from tailrace.errors import Unsupported

__all__ = ["hash_bucket", "hash_buckets", "hash_columns", "hash_one"]

SEED = 42
_ROWS_ONE_BY_ONE = 16
"""This many longest strings of a column are hashed row by row, which beats a NumPy call per word position."""

_MASK = 0xFFFFFFFF
_Words = npt.NDArray[np.uint32]
_Mixer = Callable[[Any, int], int]


def hash_buckets(
    columns: Sequence[pa.Array | pa.ChunkedArray], count: int, length: int | None = None
) -> npt.NDArray[np.int32]:
    """The bucket (node or shard) of each row's key, from 0 to `count` - 1: Spark's `pmod(hash(...), count)`."""
    return hash_columns(columns, length) % np.int32(count)


def hash_bucket(values: Sequence[Any], types: Sequence[pa.DataType], count: int) -> int:
    """`hash_buckets` of one key, given as Python values."""
    return hash_one(values, types) % count


def hash_columns(columns: Sequence[pa.Array | pa.ChunkedArray], length: int | None = None) -> npt.NDArray[np.int32]:
    """Spark's `hash` of each row. `length` is the number of rows, required if there are no columns."""
    rows = len(columns[0]) if columns else length
    if rows is None:
        raise ValueError("length is required for a key without columns")
    running = np.full(rows, SEED, np.uint32)
    for column in columns:
        kind = column.type
        array = arrays.as_array(column, arrays.LARGE_BINARY if arrays.is_bytes(kind) else kind)
        mask = arrays.valid_mask(array)
        mixed = _hash_column(array, running)
        running = mixed if mask is None else np.where(mask, mixed, running)
    return running.view(np.int32)


def hash_one(values: Sequence[Any], types: Sequence[pa.DataType]) -> int:
    """`hash_columns` of one key, given as Python values, without Arrow."""
    running = SEED
    for value, kind in zip(values, types, strict=True):
        if value is not None:
            running = _mixer(kind)(value, running)
    return running - (1 << 32) if running >> 31 else running


def _hash_column(array: pa.Array, seed: _Words) -> _Words:
    kind = array.type
    if arrays.is_bytes(kind):
        return _hash_bytes(arrays.content(array), arrays.offsets(array), seed)
    if arrays.storage_type(kind) is None:
        raise _unhashable(kind)
    values = arrays.fixed_values(normalise(array))
    if values.ndim == 2:
        return _hash_wide(values, seed)
    if values.dtype.kind == "f":
        values = values.view(f"<i{values.dtype.itemsize}")
    if values.dtype.itemsize == 8:
        bits = values.astype(np.int64).view(np.uint64)
        low, high = bits.astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)
        return _finish(_mix(_mix(seed, low), high), 8)
    return _finish(_mix(seed, values.astype(np.int32).view(np.uint32)), 4)


def _hash_wide(words: Vector, seed: _Words) -> _Words:
    """Hashes decimals wider than 64 bits by Java's `BigInteger.toByteArray()`, the shortest two's complement form."""
    data = np.ascontiguousarray(words[:, ::-1]).astype(">i8").view(np.uint8).reshape(-1, 16)
    bits = data ^ np.where(data[:, :1] & 0x80, np.uint8(0xFF), np.uint8(0))
    first = np.where(bits.any(axis=1), (bits != 0).argmax(axis=1), 15)
    top = np.take_along_axis(bits, first[:, None], axis=1)[:, 0] >= 0x80
    ends = np.arange(1, len(data) + 1, dtype=np.int64) * 16
    return _hash_spans(data.reshape(-1), ends - 16 + first - top, ends, seed)


def _hash_bytes(data: pa.Buffer, edges: Vector, seed: _Words) -> _Words:
    return _hash_spans(np.frombuffer(data, np.uint8), edges[:-1], edges[1:], seed)


def _hash_spans(data: Vector, starts: Vector, ends: Vector, seed: _Words) -> _Words:
    """Spark's `hashUnsafeBytes` of each span of the data.

    Loops over word positions, not rows: rows are sorted longest first, so the rows that have a word at position i
    are a prefix. The longest rows are finished one by one, because a single value of a megabyte must not cost a
    NumPy call per word.
    """
    sizes = ends - starts
    order = np.argsort(-sizes, kind="stable")
    starts, sizes, hashes = starts[order], sizes[order], seed[order]
    words = sizes // 4
    longest = int(words[_ROWS_ONE_BY_ONE]) if len(words) > _ROWS_ONE_BY_ONE else 0
    active = np.searchsorted(-words, -np.arange(1, longest + 1), side="right")
    words_at = _words_at_bytes(data)
    for i, count in enumerate(active.tolist()):
        hashes[:count] = _mix(hashes[:count], words_at[starts[:count] + 4 * i])
    raw = data.data
    for row in range(min(_ROWS_ONE_BY_ONE, len(words))):
        rest = slice(int(starts[row]) + 4 * longest, int(starts[row]) + 4 * int(words[row]))
        hashes[row] = _mix_words(raw[rest], int(hashes[row]))
    tail = sizes - 4 * words
    signed = data.view(np.int8)
    for i in range(3):
        rows = np.flatnonzero(tail > i)
        single = signed[starts[rows] + 4 * words[rows] + i].astype(np.int32).view(np.uint32)
        hashes[rows] = _mix(hashes[rows], single)
    result = np.empty_like(hashes)
    result[order] = _finish(hashes, sizes.astype(np.uint32))
    return result


def _words_at_bytes(data: Vector) -> _Words:
    """The little-endian word that begins at each byte of the data."""
    if len(data) < 4:
        return np.zeros(0, np.uint32)
    return np.ndarray((len(data) - 3,), np.dtype("<u4"), buffer=data, strides=(1,))


def _mix(seed: _Words, word: _Words) -> _Words:
    word = word * np.uint32(0xCC9E2D51)
    word = (word << np.uint32(15) | word >> np.uint32(17)) * np.uint32(0x1B873593)
    seed = seed ^ word
    return (seed << np.uint32(13) | seed >> np.uint32(19)) * np.uint32(5) + np.uint32(0xE6546B64)


def _finish(seed: _Words, size: int | _Words) -> _Words:
    seed = seed ^ np.asarray(size, np.uint32)
    seed = (seed ^ seed >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    seed = (seed ^ seed >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return seed ^ seed >> np.uint32(16)


@lru_cache(maxsize=4096)
def _mixer(kind: pa.DataType) -> _Mixer:
    """A function that hashes one Python value of a type, given the running hash."""
    if arrays.is_text(kind):
        return lambda value, seed: _bytes_one(value.encode(), seed)
    if arrays.is_bytes(kind):
        return _bytes_one
    if arrays.storage_type(kind) is None:
        raise _unhashable(kind)
    if pa.types.is_decimal128(kind):
        scale = kind.scale
        if kind.precision <= LONG_DIGITS:
            return lambda value, seed: _long_one(to_unscaled(value, scale), seed)
        return lambda value, seed: _bytes_one(_java_bytes(to_unscaled(value, scale)), seed)
    if pa.types.is_floating(kind):
        return _float_mixer(*((">f", ">i", _int_one) if kind == pa.float32() else (">d", ">q", _long_one)))
    if pa.types.is_timestamp(kind):
        return lambda value, seed: _long_one(micros(value), seed)
    if pa.types.is_duration(kind):
        return lambda value, seed: _long_one(length(value), seed)
    if pa.types.is_date32(kind):
        return lambda value, seed: _int_one(days(value), seed)
    return _long_one if kind == pa.int64() else _int_one


def _float_mixer(form: str, bits: str, mix: _Mixer) -> _Mixer:
    """Spark hashes the bits of a float after normalising -0.0 to 0.0 and every NaN to one NaN."""
    pack, unpack, nan = struct.Struct(form).pack, struct.Struct(bits).unpack, float("nan")
    return lambda value, seed: mix(unpack(pack(value + 0.0 if value == value else nan))[0], seed)


def _java_bytes(number: int) -> bytes:
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


def _mix_one(seed: int, word: int) -> int:
    word = word * 0xCC9E2D51 & _MASK
    word = (word << 15 | word >> 17) * 0x1B873593 & _MASK
    seed ^= word
    return ((seed << 13 | seed >> 19) * 5 + 0xE6546B64) & _MASK


def _mix_words(data: bytes | memoryview, seed: int) -> int:
    for (word,) in struct.iter_unpack("<I", data):
        seed = _mix_one(seed, word)
    return seed


def _finish_one(seed: int, size: int) -> int:
    seed ^= size
    seed = (seed ^ seed >> 16) * 0x85EBCA6B & _MASK
    seed = (seed ^ seed >> 13) * 0xC2B2AE35 & _MASK
    return seed ^ seed >> 16


def _int_one(value: int, seed: int) -> int:
    return _finish_one(_mix_one(seed, value & _MASK), 4)


def _long_one(value: int, seed: int) -> int:
    return _finish_one(_mix_one(_mix_one(seed, value & _MASK), value >> 32 & _MASK), 8)


def _bytes_one(data: bytes, seed: int) -> int:
    whole = len(data) & ~3
    seed = _mix_words(data[:whole], seed)
    for byte in data[whole:]:
        seed = _mix_one(seed, (byte - 256 if byte > 127 else byte) & _MASK)
    return _finish_one(seed, len(data))


def _unhashable(kind: pa.DataType) -> Unsupported:
    return Unsupported(construct=f"a key of type {kind}", reason="use key columns of other types")
