"""Entries of a shard that this process has written last: it need not read them again while no other process writes.

An aggregate reads the accumulators of the groups that change, and mostly the same groups change again. The entries of a
state are as of one mark (`shard_marks.py`), which has the id of the attempt that wrote them. So while the shard has
this mark, nobody else has written an epoch of the state, or taken one back.

Spark may give the epochs to two processes by turns. Neither of them has the newest mark then, so a process that was
wrong about a state reads it as usual for a while, for longer each time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from tailrace.store.hbase.shard_marks import StateMark

MOST = 12 << 20  # bytes of a shard's entries, about
OVERHEAD = 150  # bytes of an entry beside its key and value
LONGEST_PAUSE = 64  # reads

Written = tuple[int, bytes | None]  # the epoch that has written a value, and the value (None: deleted)


@dataclass
class Recent:
    """The known entries of a state, as of a mark, and their size. Those written last are at the end."""

    mark: StateMark
    entries: dict[bytes, Written] = field(default_factory=dict)
    size: int = 0

    def put(self, key: bytes, written: Written) -> None:
        self.remove(key)
        self.entries[key] = written
        self.size += _size(key, written)

    def remove(self, key: bytes) -> None:
        if (written := self.entries.pop(key, None)) is not None:
            self.size -= _size(key, written)


def _size(key: bytes, written: Written) -> int:
    return len(key) + len(written[1] or b"") + OVERHEAD


class RecentEntries:
    """The entries of one shard.

    A thread may read while another one notes an epoch. It can tell the new entries from the old ones by their epoch.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most, self._guard = most, threading.Lock()
        self._states: dict[int, Recent | None] = {}  # the states that this process reads by key
        self._pauses: dict[int, tuple[int, int]] = {}  # by state: reads that are left of a pause, and its length

    def want(self, state: int) -> Recent | None:
        """What is known of a state. From now on its entries are kept when they are written."""
        with self._guard:
            left, length = self._pauses.get(state, (0, 0))
            if left:
                self._pauses[state] = left - 1, length
                return None
            return self._states.setdefault(state, None)

    def judge(self, state: int, is_right: bool) -> None:
        """Says whether what was known of a state had the newest mark. If not, its next reads do without."""
        with self._guard:
            if is_right:
                self._pauses.pop(state, None)
                return
            length = min(2 * self._pauses.get(state, (0, 0))[1] + 1, LONGEST_PAUSE)
            self._pauses[state] = length, length
            self._states.pop(state, None)

    def is_wanted(self, state: int) -> bool:
        return state in self._states

    def note(
        self, state: int, before: StateMark, after: StateMark, entries: Iterable[tuple[bytes, bytes | None]]
    ) -> None:
        """Takes in what an epoch has written, with the marks before and after it."""
        with self._guard:
            last = self._states.get(state)
            if last is not None and last.mark == before:
                recent = Recent(after, last.entries, last.size)
            else:
                recent = Recent(after)
            for key, value in entries:
                recent.put(key, (after.applied, value))
                while recent.size > self._most:
                    recent.remove(next(iter(recent.entries)))
            if state in self._states:
                self._states[state] = recent
                self._forget_others(state)

    def forget(self, state: int) -> None:
        with self._guard:
            self._states.pop(state, None)

    def _forget_others(self, state: int) -> None:
        """Keeps the total limited: forgets the entries of other states."""
        total = sum(recent.size for recent in self._states.values() if recent is not None)
        for other, recent in self._states.items():
            if total > self._most and other != state and recent is not None:
                self._states[other] = None
                total -= recent.size
