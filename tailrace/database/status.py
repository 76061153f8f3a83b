"""How a store is doing."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from msgspec import to_builtins

from tailrace.catalog.catalog import Catalog
from tailrace.database.admission import Lag, allowed
from tailrace.epochs import records
from tailrace.store.base import Store
from tailrace.store.commits import read_committed
from tailrace.store.pins import list_pins


@dataclass(frozen=True)
class Status:
    """`lag_operations` are logged but not yet in the views; `lag_seconds` is the age of the oldest of them.

    `runner` is who runs epochs now, if anybody. Writers are slowed while the lag is over `max_lag`: a write now waits
    up to `delay` seconds. `pins` are snapshots and running queries, for which what was is kept, the oldest first.

    A view's `refreshed` says how an epoch brought it up to date last, if it may be recomputed; `epochs` are
    the last ones, the newest first. In `building` are views that are on their way, with the rows of their tables
    they have so far and the `failures` since the last chunk, or the reason why they were given up (`failed`).
    """

    path: str
    epoch: int
    cut: list[int]
    lag_operations: int
    lag_seconds: float
    committed_at: float | None
    runner: dict[str, Any] | None
    max_lag: int
    delay: float
    pins: list[dict[str, Any]]
    tables: list[dict[str, Any]]
    views: list[dict[str, Any]]
    building: list[dict[str, Any]]
    epochs: list[dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def status(store: Store, catalog: Catalog) -> Status:
    done, newest = read_committed(store), store.newest_cut()
    epochs = records.recent(store)
    runs, lag = store.holder("runner"), Lag(newest.operations - done.cut.operations, allowed(store))
    waiting = store.written_after(done.cut) if done.cut.is_before(newest) else None
    return Status(
        path=store.path,
        epoch=done.epoch,
        cut=list(done.cut.offsets),
        lag_operations=lag.operations,
        lag_seconds=max(0.0, time.time() - waiting) if waiting is not None else 0.0,
        committed_at=done.at or None,
        runner=None if runs is None else runs._asdict(),
        max_lag=lag.allowed,
        delay=lag.delay if runs else 0.0,
        pins=list_pins(store),
        tables=[
            {"name": t.name, "key": list(t.key), "columns": {c.name: c.type for c in t.columns}}
            for t in sorted(catalog.tables.values(), key=lambda t: t.name)
        ],
        views=[
            {
                "name": v.name,
                "key": v.key_names,
                "columns": {c.name: c.type for c in v.columns},
                "uses": list(v.uses),
                "refresh": v.refresh,
                "reason": v.reason,
                "refreshed": records.last_way(epochs, v.name),
            }
            for v in sorted(catalog.views.values(), key=lambda v: v.name)
        ],
        building=[
            {
                "name": m.name,
                "rows": m.rows,
                "total": m.total,
                "pid": m.pid if m.owned else None,
                "replaces": m.replaces,
                "failures": list(m.failures),
                "failed": m.failed,
            }
            for m in sorted(catalog.builds.values(), key=lambda m: m.name)
        ],
        epochs=[to_builtins(e) for e in epochs],
    )
