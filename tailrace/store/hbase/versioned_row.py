"""Rows whose columns change together, on a condition: compare and set by a version column.

Several processes read a row, decide, and write. Only the one that still finds the version that it read gets through;
the others read again. The version is a counter, followed by the ids of the last changes. So a process whose answer was
lost finds out whether its change is in, even if others have changed the row since.

All cells have the counter as their timestamp. Clocks play no part, and a column that was deleted can be put again at
once.
"""

from __future__ import annotations

import os
import random
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tailrace.errors import Corrupt, StoreUnavailable
from tailrace.store.hbase.client import HbaseTable
from tailrace.store.hbase.connections import Unanswered

VERSION = b"\x00version"
REMEMBERED = 64  # ids of changes in a version
_COUNTER = struct.Struct(">Q")
_ID = 8  # bytes
LONGEST_WAIT = 0.25  # seconds between two attempts

Values = dict[bytes, bytes]


class Known(NamedTuple):
    """What a process has read of a row: its version, and the values of some columns.

    `is_changed`: the process has just made this version. Then the values include all columns that it has put.
    """

    version: bytes | None
    values: Values
    is_changed: bool = False


@dataclass(frozen=True)
class Update:
    """What a change does to a row."""

    puts: Mapping[bytes, bytes] = field(default_factory=dict)
    deletes: Sequence[bytes] = ()


class VersionedRow:
    def __init__(self, table: HbaseTable, row: bytes) -> None:
        self._table, self._row = table, row

    @property
    def name(self) -> bytes:
        """The row key."""
        return self._row

    def read(self, qualifiers: Sequence[bytes] | None = None, prefixes: Sequence[bytes] = ()) -> Values:
        """The values of columns as of one moment: the given ones, or those with one of the prefixes, or all."""
        cells = self._table.get(self._row, qualifiers=qualifiers, prefixes=prefixes)
        return {qualifier: value for qualifier, (value, _) in cells.items() if qualifier != VERSION}

    def read_known(self, qualifiers: Sequence[bytes]) -> Known:
        """The version and the values of columns, to begin a change with."""
        cells = self._table.get(self._row, qualifiers=[VERSION, *qualifiers])
        values = {qualifier: value for qualifier, (value, _) in cells.items()}
        return Known(values.pop(VERSION, None), values)

    def change(
        self, qualifiers: Sequence[bytes], decide: Callable[[Values], Update | None], known: Known | None = None
    ) -> Known:
        """Changes the row in one step. `decide` gets the values of the given columns, and says what to change.

        It is called again if another process was faster. It may raise an error, or return None: nothing changes then.
        What is `known` of these columns is not read. Returns what is known afterwards.
        """
        own, attempt, unanswered = os.urandom(_ID), 0, 0
        deadline = time.monotonic() + self._table.patience
        while True:
            if known is None:
                known = self.read_known(qualifiers)
            version, values, _ = known
            if attempt and _includes(version, own):
                return known
            if unanswered and _counter(version) >= unanswered + REMEMBERED:
                raise StoreUnavailable(url=self._table.url, reason="the answer to a change was lost; it may be stored")
            if (update := decide(values)) is None:
                return known
            counter = _counter(version) + 1
            ids = own + (version or b"")[_COUNTER.size : _COUNTER.size + _ID * (REMEMBERED - 1)]
            puts = {**update.puts, VERSION: _COUNTER.pack(counter) + ids}
            deletes = update.deletes if version is not None else ()
            try:
                if self._table.check_and_mutate(self._row, VERSION, version, puts, deletes, timestamp=counter):
                    new_version = puts.pop(VERSION)
                    left = {q: v for q, v in {**values, **puts}.items() if q not in deletes}
                    return Known(new_version, left, is_changed=True)
            except Unanswered as problem:
                unanswered = unanswered or counter
                if time.monotonic() > deadline:
                    raise StoreUnavailable(url=self._table.url, reason=str(problem)) from None
            known, attempt = None, attempt + 1
            time.sleep(random.uniform(0, min(0.002 * 2**attempt, LONGEST_WAIT)))  # so that all get through in the end


def _counter(version: bytes | None) -> int:
    if version is None:
        return 0
    if len(version) < _COUNTER.size or (len(version) - _COUNTER.size) % _ID:
        raise Corrupt(where="the version of a row of HBase", reason=f"it has {len(version)} bytes")
    return int(_COUNTER.unpack_from(version)[0])


def follows(version: bytes | None, before: bytes | None) -> bool:
    """Whether a version is that of the first change after another version."""
    own = slice(_COUNTER.size + _ID, _COUNTER.size + 2 * _ID)  # the id of the change before
    last = slice(_COUNTER.size, _COUNTER.size + _ID)
    return (
        version is not None
        and before is not None
        and _counter(version) == _counter(before) + 1
        and version[own] == before[last]
    )


def _includes(version: bytes | None, change: bytes) -> bool:
    """Whether a change is among the last ones."""
    return version is not None and any(
        version[place : place + _ID] == change for place in range(_COUNTER.size, len(version), _ID)
    )
