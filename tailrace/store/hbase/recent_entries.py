"""Entries of a shard that this process has written last: it need not read them again while no other process writes.

An aggregate reads the accumulators of the groups that change, and mostly the same groups change again. The entries of a
state are as of one mark (`shard_marks.py`), which has the id of the attempt that wrote them. So while the shard has
this mark, nobody else has written an epoch of the state, or taken one back.

Spark may give the epochs to two processes by turns. Neither of them has the newest mark then, so a process that was
wrong about a state reads it as usual for a while, for longer each time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tailrace.store.hbase.shard_marks import StateMark

MOST = 50_000  # entries of a shard; about 12 MB
LONGEST_PAUSE = 64  # reads

Written = tuple[int, bytes | None]  # the epoch that has written a value, and the value (None: deleted)


class Recent(NamedTuple):
    """The known entries of a state, as of a mark. Those written last are at the end."""

    mark: StateMark
    entries: dict[bytes, Written]


class RecentEntries:
    """The entries of one shard.

    A thread may read while another one notes an epoch. It can tell the new entries from the old ones by their epoch.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._states: dict[int, Recent | None] = {}  # the states that this process reads by key
        self._pauses: dict[int, tuple[int, int]] = {}  # by state: reads that are left of a pause, and its length

    def want(self, state: int) -> Recent | None:
        """What is known of a state. From now on its entries are kept when they are written."""
        left, length = self._pauses.get(state, (0, 0))
        if left:
            self._pauses[state] = left - 1, length
            return None
        return self._states.setdefault(state, None)

    def judge(self, state: int, is_right: bool) -> None:
        """Says whether what was known of a state had the newest mark. If not, it is not asked for for a while."""
        if is_right:
            self._pauses.pop(state, None)
            return
        length = min(2 * self._pauses.get(state, (0, 0))[1] + 1, LONGEST_PAUSE)
        self._pauses[state] = length, length
        self.forget(state)

    def is_wanted(self, state: int) -> bool:
        return state in self._states

    def note(
        self, state: int, before: StateMark, after: StateMark, entries: Iterable[tuple[bytes, bytes | None]]
    ) -> None:
        """Takes in what an epoch has written, with the marks before and after it."""
        last = self._states[state]
        kept = last.entries if last is not None and last.mark == before else {}
        for key, value in entries:
            kept.pop(key, None)
            kept[key] = after.applied, value
        for key in list(kept)[: max(0, len(kept) - self._most)]:
            del kept[key]
        self._states[state] = Recent(after, kept)
        self._forget_others(state)

    def forget(self, state: int) -> None:
        self._states.pop(state, None)

    def _forget_others(self, state: int) -> None:
        """Keeps the total limited: forgets the entries of other states."""
        total = sum(len(one.entries) for one in self._states.values() if one is not None)
        for other, recent in list(self._states.items()):
            if total > self._most and other != state and recent is not None:
                self._states[other] = None
                total -= len(recent.entries)
