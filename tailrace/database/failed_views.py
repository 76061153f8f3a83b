"""Failed views for their users: what they show, and how they are tried again."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from tailrace.catalog.failed import FAILED, FailedView, ask_to_resume, read_failed, view_failed
from tailrace.errors import EpochsLocked, Timeout
from tailrace.store.base import Store
from tailrace.store.pins import Pin

POLL_SECONDS = 0.05


def shown_pin(name: str, failed: Mapping[str, FailedView], committed: Pin) -> Pin:
    """The epoch that a view shows: the committed one or, if the view has failed, its last good one.

    Raises `ViewFailed` if the tables cannot be read at that epoch any more.
    """
    view = failed.get(name)
    if view is None:
        return committed
    if not view.held:
        raise view_failed(name, view)
    return Pin(view.epoch, view.cut, view.time)


def require_built(store: Store, names: Collection[str]) -> None:
    """Raises `ViewFailed` if one of these views has no rows because it could not be built."""
    for name, view in read_failed(store).items():
        if name in names and not view.built:
            raise view_failed(name, view)


def resume(
    store: Store, name: str, failed: Mapping[str, FailedView], refresh: Callable[[], object], timeout: float | None
) -> None:
    """Tries a failed view again, and the failed view that it reads. Raises `ViewFailed` if it fails again.

    If another process runs epochs, waits until that process has tried.
    """
    view = failed.get(name)
    if view is None:
        return
    asked = {n: failed[n] for n in (name, view.because) if n in failed}
    ask_to_resume(store, asked)
    try:
        refresh()
    except EpochsLocked:
        _wait(store, name, timeout)
    if (still := store.document(FAILED, name)) is not None:
        raise view_failed(name, still)


def _wait(store: Store, name: str, timeout: float | None) -> None:
    """Waits until the process that runs epochs has tried the view."""
    began = time.monotonic()
    while (now := store.document(FAILED, name)) is not None and (now.next_try == 0.0 or now.trying):
        waited = time.monotonic() - began
        if timeout is not None and waited >= timeout:
            position = now.cut.position.number
            newest = store.newest_cut().position.number
            advice = "The process that runs epochs has not tried it yet; wait longer (timeout=)"
            raise Timeout(
                name=f"view {name!r}",
                wanted=newest,
                covered=position,
                behind=newest - position,
                waited=waited,
                advice=advice,
            )
        time.sleep(POLL_SECONDS)
