"""How far the logs of HBase are resolved: documents of the store, and positions of writes.

A transaction of the store has all cells between two sets of marks. Its number is `round * 2^24 + i`: a *round* begins,
puts a barrier into every region, and ends when all barriers have been resolved. A write that ends while round r is the
last one begun is therefore covered by the first transaction of round r + 1: that is its position.
"""

from __future__ import annotations

from tailrace.store.documents import Count, Document, Kind

ROUND = 1 << 24  # transactions of one round, at most: enough for weeks in which a region ships nothing


class Tail(Document, frozen=True):
    """The newest transaction, the ends of all logs after it, and the mark up to which each region is resolved.

    `begun` is the last round that was begun.
    """

    ends: tuple[Count, ...]
    transaction: Count = 0
    marks: dict[str, Count] = {}
    begun: Count = 0

    def fits(self, nodes: int) -> bool:
        return len(self.ends) == nodes


class Forming(Document, frozen=True):
    """A transaction that is being made, and the marks that it goes up to. Another process can make it anew.

    `late` are the rows of late chunks, if it is made of these.
    """

    transaction: Count
    marks: dict[str, Count]
    late: tuple[bytes, ...] = ()


TAIL: Kind[Tail] = Kind("tail", Tail)
FORMING: Kind[Forming] = Kind("forming", Forming)
WANTED: Kind[int] = Kind("wanted", Count)
"""The position that a reader waits for: rounds are needed until it is covered."""

TRIMMED: Kind[int] = Kind("trimmed", Count)
"""The transaction up to which logs are trimmed. Images before it are incomplete."""
