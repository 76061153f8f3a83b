"""Errors of tasks as data: a task sends its error as one line of JSON, and the driver makes the same error of it again.

Spark passes on nothing of a Python exception but its text, so the text is the envelope.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
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
    """An error on its way from a task to the driver."""

    def __init__(self, error: TailraceError) -> None:
        sent = _Sent(type(error).__name__, error.data)
        super().__init__(f"tailrace-error {msgspec.json.encode(sent, enc_hook=str).decode()}")


def send_errors(batches: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """The batches of a task; an error of Tailrace that they raise is sent as data."""
    try:
        yield from batches()
    except TailraceError as error:
        raise SentError(error) from None


def receive_error(failure: Exception) -> TailraceError | None:
    """The error that a task of a failed job has sent, if any."""
    envelope = _ENVELOPE.search(str(failure))
    if envelope is None:
        return None
    sent = msgspec.json.decode(envelope[1], type=_Sent)
    kind = getattr(errors, sent.error, None)
    return kind(**sent.data) if isinstance(kind, type) and issubclass(kind, TailraceError) else None
