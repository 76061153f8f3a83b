"""Reads a shard on HBase as of an epoch: the newest cells with a timestamp up to that epoch.

Old versions are deleted only some time after the marks have said so (`trimming.py`). A snapshot reads the marks at its
beginning, and again if a read ends more than `TRUSTED` seconds later. So it never returns what was half deleted.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence

import pyarrow as pa

from tailrace.codec.keys import prefix_range
from tailrace.errors import SnapshotGone
from tailrace.store.base import ShardSnapshot
from tailrace.store.hbase.recent_entries import RecentEntries
from tailrace.store.hbase.row_ranges import RowRange
from tailrace.store.hbase.shard_content import ShardContent
from tailrace.store.hbase.shard_marks import NEVER, ShardMarks, cell_timestamp
from tailrace.store.hbase.state_rows import decode_cell, state_prefix, state_range

TRUSTED = 15.0  # seconds for which marks that were read count
FEW = 200  # keys that are read together with the marks
GROUP = 4_000  # prefixes whose values are held in memory at a time


class SeenMarks:
    """The marks of a shard, as a reader last saw them."""

    def __init__(self, content: ShardContent) -> None:
        self._content = content
        self._seen: tuple[float, ShardMarks] | None = None

    def get(self) -> ShardMarks:
        if self._seen is None:
            self._seen = time.monotonic(), self._content.read_marks()
        return self._seen[1]

    def get_trusted(self) -> ShardMarks:
        """The marks, read again if they were read too long ago."""
        if self._seen is not None and time.monotonic() - self._seen[0] > TRUSTED:
            self._seen = None
        return self.get()

    def forget(self) -> None:
        self._seen = None


class HbaseShardSnapshot(ShardSnapshot):
    def __init__(self, content: ShardContent, epoch: int, seen: SeenMarks, recent: RecentEntries) -> None:
        self._content, self._epoch, self._seen, self._recent = content, epoch, seen, recent
        self._entries, self._before = content.entries, cell_timestamp(epoch + 1)

    def moved_to(self, epoch: int) -> HbaseShardSnapshot:
        return HbaseShardSnapshot(self._content, epoch, self._seen, self._recent)

    def _require(self, state: int, marks: ShardMarks) -> None:
        """Raises `SnapshotGone` if the epoch is no longer readable."""
        oldest = max(marks.oldest, marks.of(state).first)
        if self._epoch < oldest:
            raise SnapshotGone(epoch=self._epoch, name=f"state {state}", oldest=oldest)

    def _begin(self, state: int) -> bytes:
        """To be called before a read. Returns the prefix of the rows of the state."""
        self._require(state, self._seen.get())
        return state_prefix(self._content.shard, state)

    def _end(self, state: int) -> None:
        """To be called after a read, before its result is used."""
        self._require(state, self._seen.get_trusted())

    def applied(self, state: int) -> int | None:
        if self._seen.get().of(state).is_open:  # a process died in the middle; what it decided counts
            self._content.finish([state])
            self._seen.forget()
        applied = self._seen.get().of(state).applied
        return None if applied == NEVER else applied

    def changed(self, state: int, epoch: int) -> list[bytes]:
        self._begin(state)
        decisions = [d for d in self._content.read_decisions(epoch) if state in d.generations]
        keys = [staged.key for decision in decisions for staged in self._content.staging.read(decision, [state])]
        self._end(state)
        return sorted(keys)

    def get_many(self, state: int, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        return {key: value for key, value in zip(keys, self._get(state, keys), strict=True) if value is not None}

    def values(self, state: int, keys: pa.LargeBinaryArray) -> list[bytes | None]:
        return self._get(state, keys.to_pylist())

    def _get(self, state: int, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys. Those that this process has written last are not read, but the marks are."""
        recent = self._recent.want(state)
        if recent is None:
            return self._read(state, keys)[1]
        known = {key: recent.entries.get(key) for key in keys}
        missing = [key for key, written in known.items() if written is None or written[0] > self._epoch]
        marks, found = self._read(state, missing)
        is_newest = marks.of(state) == recent.mark
        self._recent.judge(state, is_newest)
        if not is_newest:
            return self._read(state, keys)[1]
        values = {key: written[1] for key, written in known.items() if written is not None}
        values |= dict(zip(missing, found, strict=True))
        return [values[key] for key in keys]

    def _read(self, state: int, keys: Sequence[bytes]) -> tuple[ShardMarks, list[bytes | None]]:
        """The marks that concern a state, and the values of keys."""
        if len(keys) <= FEW:
            return self._read_few(state, keys)
        prefix = self._begin(state)
        found = self._entries.look_up([prefix + key for key in keys], before=self._before)
        self._end(state)
        return self._seen.get(), [decode_cell(cells) for cells in found]

    def _read_few(self, state: int, keys: Sequence[bytes]) -> tuple[ShardMarks, list[bytes | None]]:
        """Reads marks and values together: one call instead of two."""
        rows = [state_prefix(self._content.shard, state) + key for key in keys]
        while True:
            began = time.monotonic()
            marks, found = self._content.read_few(state, rows, self._before)
            self._require(state, marks)
            if time.monotonic() - began <= TRUSTED:
                return marks, [decode_cell(cells) for cells in found]

    def scan(
        self, state: int, low: bytes = b"", high: bytes | None = None, size: int = 20_000
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        yield from self._scan(state, low, high, size, reverse=False)

    def scan_back(self, state: int, low: bytes, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        for run in self._scan(state, low, high, 16, reverse=True):
            yield from run

    def _scan(
        self, state: int, low: bytes, high: bytes | None, size: int, reverse: bool
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        prefix = self._begin(state)
        start, stop = state_range(prefix, low, high)
        pages = self._entries.scan(start, stop or None, before=self._before, size=min(size, 2_000), reverse=reverse)
        for page in pages:
            self._end(state)
            values = ((row[len(prefix) :], decode_cell(cells)) for row, cells in page)
            if run := [(key, value) for key, value in values if value is not None]:
                yield run

    def under(self, state: int, prefixes: Sequence[bytes]) -> Iterator[list[bytes]]:
        start = self._begin(state)
        for place in range(0, len(prefixes), GROUP):
            group = prefixes[place : place + GROUP]
            pages = self._entries.scan_ranges(_ranges(start, group), before=self._before)
            found = ((row[len(start) :], decode_cell(cells)) for page in pages for row, cells in page)
            entries = [(key, value) for key, value in found if value is not None]
            self._end(state)
            keys, values = [key for key, _ in entries], [value for _, value in entries]
            for prefix in group:
                low, high = prefix_range(prefix)
                yield values[bisect_left(keys, low) : len(keys) if high is None else bisect_left(keys, high)]


def _ranges(start: bytes, prefixes: Sequence[bytes]) -> list[RowRange]:
    """The rows under prefixes of keys, sorted and without overlaps."""
    ranges: list[RowRange] = []
    last: bytes | None = None
    for prefix in sorted(set(prefixes)):
        if last is None or not prefix.startswith(last):
            last = prefix
            ranges.append(state_range(start, *prefix_range(prefix)))
    return ranges
