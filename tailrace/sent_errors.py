"""Sends errors from Spark tasks to the driver: a task encodes its error as a line of JSON, the driver decodes it.

Spark transmits only the text of a Python exception, so the JSON is part of the text. An error that an operator raises
also has the views that need the operator (`views`, the numbers of their states): exactly these fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import pyarrow as pa

from tailrace import errors
from tailrace.errors import TailraceError

_ENVELOPE = re.compile(r"tailrace-error (\{.*\})$", re.MULTILINE)


class _Sent(msgspec.Struct, frozen=True):
    error: str
    data: dict[str, Any]


class SentError(Exception):
    """An error with a TailraceError encoded in its text."""

    def __init__(self, error: TailraceError) -> None:
        sent = _Sent(type(error).__name__, error.data)
        super().__init__(f"tailrace-error {msgspec.json.encode(sent, enc_hook=str).decode()}")


@contextmanager
def blaming(views: Callable[[], Sequence[int]]) -> Iterator[None]:
    """Adds to an error of the block which views fail by it, unless it has that already."""
    try:
        yield
    except TailraceError as error:
        if "views" in error.data:
            raise
        raise type(error)(**error.data, views=list(views())) from error


def send_errors(batches: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a task; turns a TailraceError into a SentError."""
    try:
        yield from batches()
    except TailraceError as error:
        raise SentError(error) from None


def receive_error(failure: Exception) -> TailraceError | None:
    """The error that a task sent, decoded from the exception of the failed Spark job; None if it contains none."""
    envelope = _ENVELOPE.search(str(failure))
    if envelope is None:
        return None
    sent = msgspec.json.decode(envelope[1], type=_Sent)
    kind = getattr(errors, sent.error, None)
    return kind(**sent.data) if isinstance(kind, type) and issubclass(kind, TailraceError) else None
