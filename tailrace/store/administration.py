"""Administrative events: what happens to the regions of a store's tables and to their servers while the store is used.

A store that has no servers, such as the embedded one, has no such events.
"""

from __future__ import annotations

from typing import Literal

from tailrace.store.documents import Count, Document

EventKind = Literal["opened", "closed", "moved", "split", "merged", "server_added", "server_gone"]


class AdministrativeEvent(Document, frozen=True):
    """An event, as the process saw it that runs epochs.

    number    grows by one from event to event
    at        when it was seen (seconds since 1970); it happened up to some seconds before
    regions   the regions concerned, after the event; `before` are those that were split or merged
    server    where the regions are now; `source` is where they were before
    """

    number: Count
    at: float
    kind: EventKind
    table: str = ""
    regions: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    server: str = ""
    source: str = ""

    def __str__(self) -> str:
        match self.kind:
            case "server_added":
                return f"server {self.server} has its first region of these tables"
            case "server_gone":
                return f"server {self.source} has no region of these tables any more"
            case "moved":
                return f"{self._regions(self.regions)} moved from {self.source} to {self.server}"
            case "split" | "merged":
                return f"{self._regions(self.before)} {self.kind} into {', '.join(self.regions)}"
            case "opened":
                return f"{self._regions(self.regions)} opened"
        return f"{self._regions(self.before)} closed"

    def _regions(self, names: tuple[str, ...]) -> str:
        return f"{'region' if len(names) == 1 else 'regions'} {', '.join(names)} of {self.table}"


class Stalled(Document, frozen=True):
    """A region whose log has not moved since a time (seconds since 1970), although it has something to tell."""

    table: str
    region: str
    server: str
    since: float
