"""What happens to a store, as records of the logger `tailrace`.

    import logging
    logging.basicConfig(level=logging.INFO)     # one line for each event; or attach a handler to the logger `tailrace`

Every record has the attributes `event`, `store` (its path) and `fields` (a dict; docs/operations.md lists the fields of
each event). Without a handler, and below the level of the logger, an event costs one comparison.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from tailrace.words import count, shorten

if TYPE_CHECKING:
    from tailrace.epochs.model import Epoch
    from tailrace.store.administration import AdministrativeEvent, Stalled
    from tailrace.store.base import Store

LOGGER = logging.getLogger("tailrace")
LOGGER.addHandler(logging.NullHandler())


def _emit(event: str, message: str, store: str | None, level: int = logging.INFO, **fields: Any) -> None:
    LOGGER.log(level, "%s", message, extra={"event": event, "store": store, "fields": fields})


def _is_wanted() -> bool:
    return LOGGER.isEnabledFor(logging.INFO)


def started(store: str, tables: Sequence[str], views: Sequence[str], interval: float, pid: int) -> None:
    """A process begins to run epochs."""
    if _is_wanted():
        reads = f"{count(len(tables), 'table')} ({shorten(tables)})" if tables else "no tables"
        keeps = f"{count(len(views), 'view')} ({shorten(views)})" if views else "no views"
        message = f"watching {store}: {reads}, {keeps}, every {interval:g} s, process {pid}"
        _emit("start", message, store, tables=list(tables), views=list(views), interval=interval)


def spark_started(version: str, master: str, memory: str, seconds: float) -> None:
    if _is_wanted():
        message = f"Spark {version} started in {seconds:.1f} s ({master}, {memory} of memory)"
        _emit("spark", message, None, version=version, master=master, memory=memory, seconds=round(seconds, 3))


def epoch_committed(store: Store, epoch: Epoch) -> None:
    """An epoch is committed. Views that failed in it also have events of their own, when it is known why."""
    if not _is_wanted():
        return
    lag = store.newest_cut().operations - epoch.cut.operations
    recomputed = sorted(name for name, way in epoch.refreshed.items() if way.taken == "recomputed")
    message = describe_epoch(epoch) + (f", {count(lag, 'operation')} behind" if lag else ", views are up to date")
    _emit(
        "epoch",
        message,
        store.path,
        epoch=epoch.number,
        operations=epoch.operations,
        seconds=round(epoch.seconds, 6),
        view_rows=epoch.view_rows,
        views=epoch.views,
        recomputed=recomputed,
        failed=sorted(epoch.failed),
        recovered=list(epoch.recovered),
        position=epoch.cut.position.number,
        lag_operations=lag,
    )


def describe_epoch(epoch: Epoch) -> str:
    recomputed = sorted(name for name, way in epoch.refreshed.items() if way.taken == "recomputed")
    return (
        f"epoch {epoch.number}: {count(epoch.operations, 'operation')} in {epoch.seconds:.2f} s"
        f" ({epoch.rate:,.0f}/s), {count(epoch.view_rows, 'view row')}"
        + (f", recomputed {', '.join(recomputed)}" if recomputed else "")
        + (f", {', '.join(sorted(epoch.failed))} failed" if epoch.failed else "")
        + (f", {', '.join(epoch.recovered)} recovered" if epoch.recovered else "")
    )


def build_step(store: str, view: str, rows: int, total: int) -> None:
    """A build has loaded a chunk."""
    if _is_wanted():
        message = f"building {view}: {rows:,} of {count(total, 'row')}"
        _emit("build", message, store, view=view, rows=rows, total=total)


def view_published(store: str, view: str) -> None:
    """A view is complete and readable."""
    if _is_wanted():
        _emit("published", f"view {view} is built", store, view=view)


def view_failed(store: str, view: str, reason: str) -> None:
    """A view cannot be maintained, or its build was given up."""
    _emit("view_failed", f"view {view} failed: {reason}", store, logging.ERROR, view=view, reason=reason)


def administrative(store: str, event: AdministrativeEvent) -> None:
    """Regions of the store's tables were opened, moved, split or merged, or their servers are others."""
    if _is_wanted():
        fields = {name: value for name, value in to_builtins(event).items() if name != "at"}
        _emit("administrative", str(event), store, **fields)


def stalled(store: str, region: Stalled) -> None:
    """The log of a region has not moved for long."""
    waiting = f"has not shipped its log for {time.time() - region.since:.0f} s"
    message = f"region {region.region} of {region.table} on {region.server} {waiting}"
    _emit("stalled", message, store, logging.WARNING, **to_builtins(region))


def failed(store: str | None, error: Exception) -> None:
    """A command ends with an error."""
    data = {name: value for name, value in getattr(error, "data", {}).items() if name != "message"}
    _emit("error", str(error), store, logging.ERROR, error=type(error).__name__, data=data)


def stopped(store: str, reason: str, epoch: int) -> None:
    """A process ends running epochs."""
    if _is_wanted():
        _emit("stop", f"stopped at epoch {epoch}: {reason}", store, reason=reason, epoch=epoch)
