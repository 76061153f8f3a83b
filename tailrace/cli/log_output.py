"""Writes the events of the logger `tailrace` (`tailrace/events.py`): as lines for people, or as JSON for programs."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from tailrace import events
from tailrace.codec import text
from tailrace.errors import TailraceError
from tailrace.events import LOGGER

FORMATS = ("text", "json")


class Reported(Exception):
    """The verb has failed, and its error is in the log."""


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).strftime("%Y-%m-%d %H:%M:%S")
        return f"{when} {record.getMessage()}"


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        common = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", "log"),
            "store": getattr(record, "store", None),
            "pid": os.getpid(),
            "message": record.getMessage(),
        }
        return text.to_json({**common, **getattr(record, "fields", {})})


class _Output(logging.Handler):
    """Writes errors to stderr and all else to stdout or stderr. Looks both up for each event: tests replace them."""

    def __init__(self, to_stdout: bool) -> None:
        super().__init__()
        self._to_stdout = to_stdout

    def emit(self, record: logging.LogRecord) -> None:
        out = sys.stdout if self._to_stdout and record.levelno < logging.ERROR else sys.stderr
        print(self.format(record), file=out, flush=True)


@contextmanager
def attached(chosen: str | None, store: str | None, *, to_stdout: bool) -> Iterator[None]:
    """Writes events in a format while the block runs; None writes none. In JSON an error is an event, too."""
    if chosen is None:
        yield
        return
    handler = _Output(to_stdout)
    handler.setFormatter(_Json() if chosen == "json" else _Text())
    level, propagate = LOGGER.level, LOGGER.propagate
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
    try:
        yield
    except (TailraceError, OSError) as error:
        if chosen == "json" and not isinstance(error, BrokenPipeError):
            events.failed(store, error)
            raise Reported from error
        raise
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)
        LOGGER.propagate = propagate
