"""The entries of one state in one shard: what rules call keys and values, in the form in which a store has them.

    data     prefix of the state, packed key (`templates.py`) → packed value (`shapes.py`)

All keys of a state in a shard have one template, which is in its mark. If a write has keys that do not fit, all entries
are stored again by a template that they fit, in the transaction of the write. The new template has fewer bytes, so this
happens a few times in the life of a state. Numbers that grow, for example, reach a new byte when there are 256 times as
many. The first write to a state without entries chooses its template. In stores of formats 2 and 3 templates are empty.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from tailrace.codec import arrays
from tailrace.codec.keys import after_prefix
from tailrace.store.lmdb.dense import put_sorted
from tailrace.store.lmdb.form import Form
from tailrace.store.lmdb.shapes import Shapes
from tailrace.store.lmdb.templates import FEW, Template

RUN = 4096  # values that are unpacked at once
REWRITTEN = 65_536  # entries that are stored again at once
# Serialises puts of all threads: every put releases Python's interpreter lock, so concurrent puts would slow each other
# down by switching. Commits, which wait for the disk, still run in parallel.
_putting = threading.Lock()

Entry = tuple[bytes, bytes]


class Entries:
    """The entries of a state, read or written in one transaction. A write may change the `template` of the keys."""

    def __init__(self, txn: Any, databases: dict[str, Any], form: Form, state: int, template: Template) -> None:
        self._txn, self._data, self._form, self.template = txn, databases["data"], form, template
        self._prefix = form.prefix(state)
        self._shapes = Shapes(txn, databases["shapes"], state, zeros=not form.short) if form.packed else None

    def _unpack(self, stored: Sequence[bytes]) -> Sequence[bytes]:
        """Values as they were before they were stored."""
        return stored if self._shapes is None else self._shapes.unpack(stored)

    def _unpack_keys(self, stored: Sequence[bytes]) -> list[bytes]:
        return self.template.unpack_each(stored, len(self._prefix))

    def _place(self, bound: bytes | None) -> bytes | None:
        """The stored form of a bound; None stands for the end of the state, and is returned for that of the shard."""
        packed = None if bound is None else self.template.bound(bound)
        return after_prefix(self._prefix) if packed is None else self._prefix + packed

    # reading

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The value of each key; None if it has none."""
        stored_keys = self.template.pack_each(keys, self._prefix)
        existing = stored_keys if None not in stored_keys else [key for key in stored_keys if key is not None]
        if len(existing) == 1:
            value = self._txn.get(existing[0], db=self._data)
            found = {} if value is None else {existing[0]: self._unpack([value])[0]}
        else:
            with self._txn.cursor(self._data) as cursor:
                entries = cursor.getmulti(existing)
            found = dict(zip([key for key, _ in entries], self._unpack([value for _, value in entries]), strict=True))
        return [found.get(key) for key in stored_keys]

    def scan(self, low: bytes, high: bytes | None, size: int) -> Iterator[list[Entry]]:
        """Entries with low <= key < high in key order, in lists of `size`."""
        for keys, stored in self._scan_stored(low, high, size):
            yield list(zip(self._unpack_keys(keys), self._unpack(stored), strict=True))

    def _scan_stored(self, low: bytes, high: bytes | None, size: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Stored keys and stored values of entries."""
        start, stop = self._place(low), self._place(high)
        cursor = self._txn.cursor(self._data)
        if start is None or not cursor.set_range(start):
            return
        keys: list[bytes] = []
        stored: list[bytes] = []
        for key, value in cursor.iternext():
            if stop is not None and key >= stop:
                break
            keys.append(key)
            stored.append(value)
            if len(keys) == size:
                yield keys, stored
                keys, stored = [], []
        if keys:
            yield keys, stored

    def scan_back(self, low: bytes, high: bytes | None) -> Iterator[Entry]:
        """Entries with low <= key < high in descending key order."""
        start, stop = self._place(low), self._place(high)
        cursor = self._txn.cursor(self._data)
        is_past_range = stop is not None and cursor.set_range(stop)
        has_entry = cursor.prev() if is_past_range else cursor.last()
        if not has_entry or start is None:
            return
        for key, value in cursor.iterprev():
            if key < start:
                return
            yield self._unpack_keys([key])[0], self._unpack([value])[0]

    def under(self, prefixes: Sequence[bytes]) -> Iterator[list[bytes]]:
        """For each prefix, the values of the keys that begin with it."""
        stored: list[bytes] = []
        ends = [0]
        with self._txn.cursor(self._data) as cursor:
            for low in self._pack_prefixes(prefixes):
                if low is not None and cursor.set_range(low):
                    for key, value in cursor.iternext():
                        if not key.startswith(low):
                            break
                        stored.append(value)
                ends.append(len(stored))
                if len(stored) >= RUN:
                    yield from self._cut(stored, ends)
                    stored, ends = [], [0]
        yield from self._cut(stored, ends)

    def _pack_prefixes(self, prefixes: Sequence[bytes]) -> list[bytes | None]:
        """The stored form of each prefix of keys; None if no key begins with it."""
        if len(prefixes) > FEW and len(set(map(len, prefixes))) == 1:
            return self.template.cut(len(prefixes[0])).pack_each(prefixes, self._prefix)
        return [self.template.pack_one(prefix, self._prefix) for prefix in prefixes]

    def _cut(self, stored: list[bytes], ends: list[int]) -> Iterator[list[bytes]]:
        """Unpacks values, and divides them at the given places."""
        values = list(self._unpack(stored))
        yield from (values[start:end] for start, end in pairwise(ends))

    # writing

    def put(self, keys: pa.LargeBinaryArray, values: pa.LargeBinaryArray) -> None:
        """Writes entries; a NULL value deletes its key. The keys are sorted. May change `template`."""
        kept, news = keys, values
        if values.null_count:
            kept, news = keys.filter(values.is_valid()), values.drop_null()
        if len(kept):
            stored = news if self._shapes is None else self._shapes.pack(news)
            self._put_stored(self._pack_new(kept), stored)
        if values.null_count:
            for key in self.template.pack_each(keys.filter(values.is_null()).to_pylist(), self._prefix):
                if key is not None:
                    self._txn.delete(key, db=self._data)

    def _pack_new(self, keys: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        """The stored form of keys that are written. First makes the template fit them."""
        if self._form.short and not self.template.fixed and self._is_empty():
            self.template = Template.of(keys).trimmed()
        if len(keys) <= FEW:
            packed = self.template.pack_each(keys.to_pylist(), self._prefix)
            if None not in packed:
                return pa.array(packed, arrays.LARGE_BINARY)
        narrowed = self.template.narrowed(keys)
        if narrowed is not self.template:
            self._rewrite(narrowed.trimmed())
        return self.template.pack(keys, self._prefix)

    def _is_empty(self) -> bool:
        with self._txn.cursor(self._data) as cursor:
            return not (cursor.set_range(self._prefix) and cursor.key().startswith(self._prefix))

    def _rewrite(self, template: Template) -> None:
        """Stores all entries again, by another template."""
        runs = [
            (pa.array(self._unpack_keys(keys), arrays.LARGE_BINARY), pa.array(stored, arrays.LARGE_BINARY))
            for keys, stored in self._scan_stored(b"", None, REWRITTEN)
        ]
        with self._txn.cursor(self._data) as cursor:
            more = cursor.set_range(self._prefix)
            while more and cursor.key().startswith(self._prefix):
                more = cursor.delete() and bool(cursor.key())
        self.template = template
        for keys, stored in runs:
            self._put_stored(template.pack(keys, self._prefix), stored)

    def _put_stored(self, keys: pa.LargeBinaryArray, values: pa.LargeBinaryArray) -> None:
        with _putting:
            entries = arrays.pairs(keys, values)
            put_sorted(self._txn, self._data, keys[0].as_py(), keys[-1].as_py(), entries, len(keys))
