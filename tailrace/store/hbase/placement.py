"""Where the regions of tailed tables are, and which administrative events lie between two looks at `hbase:meta`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tailrace import events
from tailrace.store.administration import AdministrativeEvent
from tailrace.store.documents import Count, Document, Kind
from tailrace.store.hbase.admin import Admin
from tailrace.store.hbase.meta import Documents

GLANCE = 5.0  # seconds between two looks
KEPT = 64  # events


class PlacedRegion(Document, frozen=True):
    """A region: its rows (first row and end in hexadecimal; no end: to the last), and its server."""

    table: str
    name: str
    start: str
    end: str
    server: str

    def overlaps(self, other: PlacedRegion) -> bool:
        """Whether two regions of a table have rows in common."""
        return (not other.end or self.start < other.end) and (not self.end or other.start < self.end)


class Placement(Document, frozen=True):
    """The regions by encoded name as they were last seen, the tables looked at, and the last events, oldest first."""

    tables: tuple[str, ...]
    regions: dict[str, PlacedRegion]
    events: tuple[AdministrativeEvent, ...] = ()
    count: Count = 0


PLACEMENT: Kind[Placement] = Kind("placement", Placement, expendable=True)


class Observer:
    """Looks at the placement now and then, and keeps the events. One process at a time observes a store."""

    def __init__(self, admin: Admin, documents: Documents, url: str) -> None:
        self._admin, self._documents, self._url = admin, documents, url
        self._looked_at = -GLANCE

    def observe_if_due(self, tables: Iterable[str]) -> None:
        if time.monotonic() - self._looked_at >= GLANCE:
            self.observe(tables)
            self._looked_at = time.monotonic()

    def observe(self, tables: Iterable[str]) -> None:
        """Compares the placement with the last one, and stores the new one with the events in between."""
        before = self._documents.document(PLACEMENT)
        known = {} if before is None else before.regions
        names = tuple(sorted(set(tables)))
        regions = {region.name: region for table in names for region in self._placed(table, known)}
        if before is not None and (before.tables, before.regions) == (names, regions):
            return
        happened, count = list[AdministrativeEvent](), 0
        if before is not None:
            count, now = before.count, time.time()
            for fields in changes(before, names, regions):
                count += 1
                happened.append(AdministrativeEvent(number=count, at=now, **fields))
            kept = (*before.events, *happened)[-KEPT:]
        else:
            kept = ()
        self._documents.change_documents(
            {PLACEMENT.name: Placement(names, regions, kept, count)}, expected={PLACEMENT.name: before}
        )
        for event in happened:
            events.administrative(self._url, event)

    def _placed(self, table: str, known: Mapping[str, PlacedRegion]) -> Iterator[PlacedRegion]:
        """The regions of a table. A region that is not open stays where it was; a new one does not count yet."""
        for region in self._admin.regions(table):
            if region.is_open or region.name in known:
                server = region.server if region.is_open else known[region.name].server
                yield PlacedRegion(table, region.name, region.start.hex(), region.end.hex(), server)


Fields = dict[str, Any]


def changes(before: Placement, tables: Sequence[str], regions: Mapping[str, PlacedRegion]) -> Iterator[Fields]:
    """The events between two placements, without number and time. A table that was not looked at before has none."""
    for table in tables:
        old = {name: r for name, r in before.regions.items() if r.table == table}
        new = {name: r for name, r in regions.items() if r.table == table}
        if table in before.tables:
            yield from _table_changes(table, old, new)
    for table in before.tables:
        gone = tuple(sorted(name for name, r in before.regions.items() if r.table == table))
        if table not in tables and gone:
            yield {"kind": "closed", "table": table, "before": gone}
    servers = {r.server for r in regions.values()}
    servers_before = {r.server for r in before.regions.values()}
    if before.regions:
        yield from ({"kind": "server_added", "server": server} for server in sorted(servers - servers_before))
    yield from ({"kind": "server_gone", "source": server} for server in sorted(servers_before - servers))


def _table_changes(table: str, old: Mapping[str, PlacedRegion], new: Mapping[str, PlacedRegion]) -> Iterator[Fields]:
    for name in sorted(old.keys() & new.keys()):
        if old[name].server != new[name].server:
            source, server = old[name].server, new[name].server
            yield {"kind": "moved", "table": table, "regions": (name,), "source": source, "server": server}
    came, went = new.keys() - old.keys(), old.keys() - new.keys()
    for parents, children in _families({n: old[n] for n in went}, {n: new[n] for n in came}):
        if not parents:
            yield {"kind": "opened", "table": table, "regions": children}
        elif not children:
            yield {"kind": "closed", "table": table, "before": parents}
        else:
            kind = "merged" if len(children) < len(parents) else "split"
            yield {"kind": kind, "table": table, "regions": children, "before": parents}


def _families(
    old: Mapping[str, PlacedRegion], new: Mapping[str, PlacedRegion]
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Groups of old and new regions that have rows in common. Several splits and merges may be one group."""
    groups: list[tuple[list[PlacedRegion], list[PlacedRegion]]] = []
    for region in old.values():
        groups.append(([region], []))
    for region in new.values():
        touched = [g for g in groups if any(region.overlaps(other) for other in (*g[0], *g[1]))]
        merged = ([r for g in touched for r in g[0]], [*(r for g in touched for r in g[1]), region])
        groups = [g for g in groups if g not in touched] + [merged]
    return sorted(tuple(tuple(sorted(r.name for r in part)) for part in group) for group in groups)  # type: ignore[misc]
