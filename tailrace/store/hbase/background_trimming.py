"""Trims the log in a thread of its own: epochs need not wait for the deletion of what they no longer need.

A later cut includes the earlier ones. So if trimming takes longer than epochs do, it goes on with the newest cut, and
deletes the older images of a key that changes often only once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tailrace.store.base import Cut

PAUSE = 1.0  # seconds between two trims
CLOSING = 30.0  # seconds that `close` waits


class BackgroundTrimmer:
    """Calls `trim` with the newest requested cut, one call at a time. A process that ends in between loses nothing."""

    def __init__(self, trim: Callable[[Cut], None], pause: float = PAUSE) -> None:
        self._trim, self._pause = trim, pause
        self._changed = threading.Condition()
        self._wanted: Cut | None = None
        self._is_trimming = False
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def request(self, cut: Cut) -> None:
        """Trims up to a cut soon. Raises the error of the last trim if it failed."""
        with self._changed:
            error, self._error = self._error, None
            self._wanted = cut
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._run, name="tailrace-trim", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        if error is not None:
            raise error

    def finish(self) -> None:
        """Waits until everything is trimmed that was requested."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or (self._wanted is None and not self._is_trimming))

    def close(self) -> None:
        """Waits for the trim that runs, unless HBase does not answer. What was requested since is not trimmed."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(CLOSING)

    def _run(self) -> None:
        while (cut := self._next()) is not None:
            try:
                self._trim(cut)
            except Exception as error:  # raised by the next request
                self._error = error
            with self._changed:
                self._is_trimming = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._is_closed, self._pause)

    def _next(self) -> Cut | None:
        """Waits for a cut. None: the trimmer was closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._wanted is not None)
            if self._is_closed:
                return None
            cut, self._wanted, self._is_trimming = self._wanted, None, True
            return cut
