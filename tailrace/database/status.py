"""The data of `db.status()` and `tailrace status`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from msgspec import to_builtins

from tailrace.catalog.catalog import Catalog
from tailrace.catalog.failed import FailedView
from tailrace.database.admission import Lag, max_lag
from tailrace.database.expiry import describe_retention
from tailrace.epochs import records
from tailrace.store.base import Capability, Cut, Store
from tailrace.store.commits import read_committed
from tailrace.store.inspection import Extent
from tailrace.store.pins import list_pins


@dataclass(frozen=True)
class Status:
    """The state of a store. `ok` means that no view and no build has failed.

    lag_operations, lag_seconds   operations logged but not yet in the views, and the age of the oldest one
    time                          the time that the views show (their `now()`), in microseconds since 1970, or None
    runner                        the process that runs epochs now, or None
    max_lag, delay                writers are throttled while the lag exceeds max_lag; a write now waits up to `delay` s
    pins                          open snapshots and queries, whose undo records and logs are retained; oldest first
    tables[].ttl                  the time to live of rows, and how many expired ones were deleted so far; or None
    views[].failed                if the view has failed: the epoch, the one it still shows, and why
    views[].refreshed             how the last epoch refreshed the view, if its policy allows recomputing
    building                      unfinished builds: rows loaded so far, `failures` since the last chunk, and the reason
                                  if the build was given up (`failed`)
    epochs                        the last epochs, newest first
    administrative                the last administrative events of the store's servers and regions, newest first;
                                  each has a `number` that grows, so a listener knows what is new
    stalled                       regions whose logs have not been shipped since a time (`since`) although they should
    sizes                         bytes of the store's parts, if asked for and the kind of store can tell; then tables
                                  and views also have theirs:

    tables[].rows, .bytes         rows, and an estimate of their bytes
    views[].rows, .exact          stored rows (of a view without key: distinct ones), and whether they were counted
    views[].bytes, .shared_bytes  bytes of the states that only this view uses, and of those that it shares;
                                  `sizes["shared"]` counts shared states once
    """

    path: str
    epoch: int
    cut: list[int]
    lag_operations: int
    lag_seconds: float
    committed_at: float | None
    time: int | None
    runner: dict[str, Any] | None
    max_lag: int
    delay: float
    pins: list[dict[str, Any]]
    tables: list[dict[str, Any]]
    views: list[dict[str, Any]]
    building: list[dict[str, Any]]
    epochs: list[dict[str, Any]]
    administrative: list[dict[str, Any]]
    stalled: list[dict[str, Any]]
    sizes: dict[str, int] | None = None

    @property
    def ok(self) -> bool:
        """Whether no view and no build has failed."""
        return not self.failed_views and not self.failed_builds

    @property
    def failed_views(self) -> list[str]:
        return [view["name"] for view in self.views if view["failed"]]

    @property
    def failed_builds(self) -> list[str]:
        return [build["name"] for build in self.building if build["failed"]]

    def to_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self)}


def _failure(failed: FailedView | None, newest: Cut) -> dict[str, Any] | None:
    """A failed view: the epoch that it shows, how far behind that is, why it failed, and when it is tried again."""
    if failed is None:
        return None
    return {
        "epoch": failed.failed_at,
        "shows": failed.epoch,
        "behind": newest.operations - failed.cut.operations,
        "at": failed.at,
        "message": failed.message,
        "operator": failed.operator,
        "expression": failed.expression,
        "key": failed.key,
        "reason": failed.reason,
        "because": failed.because,
        "tries": failed.tries,
        "next_try": failed.next_try,
        "next_step": failed.next_step,
        "trying": failed.trying or not failed.diagnosed,
        "built": failed.built,
        "log_kept": failed.held,
    }


def status(store: Store, catalog: Catalog, *, sizes: bool = False) -> Status:
    measured = _measure(store, catalog) if sizes and Capability.SIZES in store.capabilities else None
    done, newest = read_committed(store), store.newest_cut()
    epochs, failed = records.recent(store), catalog.failed
    runner, lag = store.holder("runner"), Lag(newest.operations - done.cut.operations, max_lag(store))
    oldest_waiting = store.written_after(done.cut) if done.cut.is_before(newest) else None
    return Status(
        path=store.path,
        epoch=done.epoch,
        cut=list(done.cut.offsets),
        lag_operations=lag.operations,
        lag_seconds=max(0.0, time.time() - oldest_waiting) if oldest_waiting is not None else 0.0,
        committed_at=done.at or None,
        time=done.time or None,
        runner=None if runner is None else runner._asdict(),
        max_lag=lag.allowed,
        delay=lag.delay if runner else 0.0,
        pins=list_pins(store),
        tables=[
            {
                "name": t.name,
                "key": list(t.key),
                "columns": {c.name: c.type for c in t.columns},
                "ttl": describe_retention(store, t),
                **(measured.tables[t.name] if measured else {}),
            }
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
                "failed": _failure(failed.get(v.name), newest),
                **(measured.views[v.name] if measured else {}),
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
        administrative=[{**to_builtins(e), "message": str(e)} for e in reversed(store.administrative_events())],
        stalled=[to_builtins(region) for region in store.stalled()],
        sizes=measured.totals if measured else None,
    )


@dataclass(frozen=True)
class _Measured:
    """What the sizes of a store add to its status: to each table and view by name, and the totals."""

    tables: dict[str, dict[str, Any]]
    views: dict[str, dict[str, Any]]
    totals: dict[str, int]


def _measure(store: Store, catalog: Catalog) -> _Measured:
    """Reads the sizes of the store, and finds the tables and views to which they belong."""
    tables, views, numbers = catalog.tables, catalog.views, catalog.states
    sizes = store.sizes(list(tables.values()))
    states = {v.name: {v.state, *(numbers[p] for p in v.fingerprints if p in numbers)} for v in views.values()}
    users = Counter(state for used in states.values() for state in used)
    empty = Extent(0, 0, True)

    def total(of: Iterable[int]) -> int:
        return sum(sizes.states.get(state, empty).bytes for state in of)

    found_views = {}
    for view in views.values():
        rows = sizes.states.get(view.state, empty)
        shared = {state for state in states[view.name] if users[state] > 1}
        own = states[view.name] - shared
        found_views[view.name] = {
            "rows": rows.entries,
            "exact": rows.exact,
            "bytes": total(own),
            "shared_bytes": total(shared),
        }
    return _Measured(
        {t.name: {"rows": sizes.tables[t.id].entries, "bytes": sizes.tables[t.id].bytes} for t in tables.values()},
        found_views,
        {
            "tables": sum(extent.bytes for extent in sizes.tables.values()),
            "views": sum(view["bytes"] for view in found_views.values()),
            "shared": total(state for state, number in users.items() if number > 1),
            "log": sizes.log,
            "undo": sizes.undo,
            "free": sizes.free,
            "files": sizes.files,
            "fullest": sizes.fullest,
            "limit": sizes.limit,
        },
    )
