"""Records of committed epochs: the cut of each, and what it did.

The store keeps the records of the last epochs, and of all epochs after the oldest pin. So a reader that follows the
epochs from its pin finds the cut of every one.
"""

from __future__ import annotations

from tailrace.store.base import Cut, Store
from tailrace.store.documents import Count, Document, Kind


class Committed(Document, frozen=True):
    """The last committed epoch, which readers see, its cut, and its time: what `now()` is in views.

    `time` is in microseconds since 1970. It is 0 if the epoch was committed before times were recorded.
    """

    epoch: Count
    cut: Cut
    at: float
    time: Count = 0

    def fits(self, nodes: int) -> bool:
        return len(self.cut.offsets) == nodes


class Refreshed(Document, frozen=True):
    """How an epoch refreshed one view: `taken` says whether by deltas or by recomputing, `reason` why."""

    taken: str
    reason: str


class EpochRecord(Document, frozen=True):
    """What one epoch did. `failed` are the views that were left out of it."""

    epoch: Count
    at: float
    operations: Count
    seconds: float
    refreshed: dict[str, Refreshed]
    cut: Cut | None = None
    failed: tuple[str, ...] = ()
    time: Count = 0

    def fits(self, nodes: int) -> bool:
        return self.cut is None or len(self.cut.offsets) == nodes


COMMITTED: Kind[Committed] = Kind("committed", Committed)
EPOCHS: Kind[EpochRecord] = Kind("epoch:", EpochRecord, expendable=True)


def read_committed(store: Store) -> Committed:
    return store.document(COMMITTED) or Committed(0, Cut(0, (0,) * store.nodes), 0.0)


def epoch_key(epoch: int) -> str:
    """The key of an epoch's record. Keys sort like epoch numbers."""
    return f"{epoch:016d}"


def committed_between(store: Store, after: int, upto: int) -> list[EpochRecord]:
    """The epochs committed after one epoch and up to another. A repair leaves gaps in the numbers.

    Complete only if epoch `after` is pinned: older records may have been removed.
    """
    records = sorted(store.documents(EPOCHS).values(), key=lambda record: record.epoch)
    return [record for record in records if after < record.epoch <= upto and record.cut is not None]
