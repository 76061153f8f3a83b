"""Deletes versions of entries that nobody can read any more.

An epoch says with `keep` which epochs are still needed, and the marks of the shard say it to readers. Versions are
deleted at least `GRACE` seconds later: until then, a reader that has read the earlier marks may still need them.

For each key that an epoch up to there has changed, only the newest version up to there stays, or none if it is a
deletion. The staged writes of these epochs say which keys that are, and are dropped afterwards.
"""

from __future__ import annotations

import time
from itertools import groupby

from tailrace.store.hbase.client import Deletion
from tailrace.store.hbase.shard_content import ShardContent
from tailrace.store.hbase.shard_marks import OLDEST, Decision, ShardMarks, cell_timestamp, encode_oldest
from tailrace.store.hbase.state_rows import COLUMN, state_prefix
from tailrace.store.hbase.versioned_row import Update, Values

EPOCHS = 16  # epochs that are trimmed at once, at least
DECISIONS = 64  # decisions that are trimmed at once, about
GRACE = 30.0  # seconds; twice as long as readers trust the marks that they have read


class Trimmer:
    """Trims one shard, as often as it is due."""

    def __init__(self, content: ShardContent, grace: float = GRACE) -> None:
        self._content, self._grace = content, grace
        self._noted: tuple[int, float] | None = None  # an oldest readable epoch, and since when it is known to be it

    def trim_if_due(self, marks: ShardMarks) -> None:
        """Trims if enough epochs are no longer readable for long enough. `marks` are the newest."""
        now = time.monotonic()
        if self._noted is None:
            self._noted = marks.oldest, now
        limit, since = self._noted
        if now - since >= self._grace:
            self._noted = None
            if limit - marks.trimmed >= EPOCHS:
                self.trim(limit)

    def trim(self, limit: int) -> None:
        """Trims the epochs up to `limit`, or some of them if they are many."""
        decisions, upto = _some_epochs([d for d in self._content.read_decisions() if d.epoch <= limit], limit)
        live = self._content.read_marks().states
        newest: dict[bytes, Deletion | None] = {}
        for decision in decisions:
            timestamps = {s: cell_timestamp(decision.epoch, g) for s, g in decision.generations.items()}
            for state, key, value, is_new in self._content.staging.read(decision, live):
                row = state_prefix(self._content.shard, state) + key
                if value is None:
                    newest[row] = Deletion(row, timestamps[state], [COLUMN])
                elif is_new and row not in newest:
                    newest[row] = None  # there is no older version
                else:
                    newest[row] = Deletion(row, timestamps[state] - 1, [COLUMN])
        self._content.entries.delete_many([deletion for deletion in newest.values() if deletion is not None])

        def decide(values: Values) -> Update:
            marks = ShardMarks(values)
            trimmed = encode_oldest(marks.oldest, max(marks.trimmed, upto))
            return Update({OLDEST: trimmed}, [decision.column for decision in decisions])

        self._content.row.change([OLDEST], decide)
        self._content.staging.drop_upto(upto)


def _some_epochs(decisions: list[Decision], limit: int) -> tuple[list[Decision], int]:
    """The decisions of the first epochs, and the epoch up to which these are all."""
    chosen: list[Decision] = []
    for epoch, group in groupby(decisions, key=lambda decision: decision.epoch):
        if len(chosen) >= DECISIONS:
            return chosen, epoch - 1
        chosen += group
    return chosen, limit
