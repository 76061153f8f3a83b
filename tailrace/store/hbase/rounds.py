"""Rounds: a barrier in every region, to know that everything written before has been resolved when all have come out.

A round goes on while transactions are made: a region whose server has died holds up the round, but no other region.
If a barrier does not come for long, the replication of its region stands still, and a document says so.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from tailrace import events
from tailrace.store.administration import Stalled
from tailrace.store.documents import Document, Kind
from tailrace.store.hbase.admin import Region
from tailrace.store.hbase.meta import Documents
from tailrace.store.hbase.tail import ROUND, WANTED, Tail
from tailrace.store.hbase.tracking import Barrier

HEARTBEAT = 60.0  # seconds between rounds if no reader waits
STALLED = 20.0  # seconds after which a region whose barrier has not come is reported


@dataclass
class Round:
    """A round that has begun.

    number       0 if it belongs to a table that is attached
    name         the name of its barriers
    left         the barriers that have not come
    transaction  that of the tail before it
    """

    number: int
    name: bytes
    left: dict[Barrier, Region]
    transaction: int
    began: float = field(default_factory=time.monotonic)
    at: float = field(default_factory=time.time)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


class StalledRegions(Document, frozen=True):
    """Regions whose barriers have not come."""

    regions: tuple[Stalled, ...]


STALLED_REGIONS: Kind[StalledRegions] = Kind("stalled", StalledRegions, expendable=True)


class Rounds:
    """The open round of this process, if it has one."""

    def __init__(self, documents: Documents, url: str) -> None:
        self._documents, self._url = documents, url
        self._ended = -HEARTBEAT
        self.open: Round | None = None
        self.settled = 0.0  # when the last round began that has ended

    def is_due(self, tail: Tail, wanted: int) -> bool:
        """Whether a round should begin: a reader waits for `wanted`, numbers run out, or the last one is long ago."""
        if self.open is not None and self.open.number != tail.begun:
            self.open = None  # another process has begun one since, and has maybe seen our barriers
        return self.open is None and (
            wanted > tail.transaction
            or tail.transaction % ROUND > ROUND // 2
            or time.monotonic() - self._ended >= HEARTBEAT
        )

    def _is_wanted(self, tail: Tail) -> bool:
        return (self._documents.document(WANTED) or 0) > tail.transaction

    def end(self, tail: Tail) -> bool:
        """Ends the open round. Returns whether transactions get its number.

        They do not if nothing was resolved and no reader waits: so a store at rest has no new cuts.
        """
        ended, self.open = self.open, None
        assert ended is not None
        has_news = tail.transaction != ended.transaction or self._is_wanted(tail)
        self._ended, self.settled = time.monotonic(), ended.at
        self._report({})
        return has_news

    def report_if_stalled(self) -> None:
        """Says which regions the open round has been waiting for, if it has for long."""
        if self.open is not None and self.open.seconds >= STALLED:
            since = self.open.at
            found = [Stalled(table, region.name, region.server, since) for (table, _), region in self.open.left.items()]
            self._report({(one.table, one.region): one for one in found})

    def _report(self, stalled: Mapping[tuple[str, str], Stalled]) -> None:
        before = self._documents.document(STALLED_REGIONS)
        known = {(one.table, one.region): one for one in before.regions} if before is not None else {}
        if known.keys() == stalled.keys():
            return
        # The time of a region that was reported already stays: another round may wait for it by now.
        kept = tuple(known.get(key, one) for key, one in sorted(stalled.items()))
        self._documents.change_documents(
            {STALLED_REGIONS.name: StalledRegions(kept) if kept else None}, expected={STALLED_REGIONS.name: before}
        )
        for key, one in stalled.items():
            if key not in known:
                events.stalled(self._url, one)
