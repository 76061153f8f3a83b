"""Trimming beside epochs: requests while a trim runs become one, errors reach the next request."""

from __future__ import annotations

import threading
import time

import pytest

from tailrace.store.base import Cut
from tailrace.store.hbase.background_trimming import BackgroundTrimmer


def cut(number: int) -> Cut:
    return Cut(number, (number,))


def request_until_error(trimmer: BackgroundTrimmer, upto: Cut) -> None:
    """The error is kept a moment after the trim has raised it."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        trimmer.request(upto)
        time.sleep(0.01)


def test_requests_during_a_trim_become_one() -> None:
    begun, goes_on, done = threading.Semaphore(0), threading.Semaphore(0), list[Cut]()

    def trim(upto: Cut) -> None:
        begun.release()
        assert goes_on.acquire(timeout=60)
        done.append(upto)

    trimmer = BackgroundTrimmer(trim, pause=0)
    trimmer.request(cut(1))
    assert begun.acquire(timeout=60)
    for number in (2, 3, 4):
        trimmer.request(cut(number))
    goes_on.release(2)
    trimmer.finish()
    assert done == [cut(1), cut(4)]
    trimmer.close()


def test_an_error_reaches_the_next_request_and_trimming_goes_on() -> None:
    failed, done = threading.Event(), threading.Event()

    def trim(upto: Cut) -> None:
        if upto == cut(1):
            failed.set()
            raise ValueError("no luck")
        done.set()

    trimmer = BackgroundTrimmer(trim, pause=0)
    trimmer.request(cut(1))
    assert failed.wait(60)
    with pytest.raises(ValueError, match="no luck"):
        request_until_error(trimmer, cut(2))
    assert done.wait(60)
    trimmer.close()


def test_a_closed_trimmer_begins_nothing() -> None:
    done = list[Cut]()
    trimmer = BackgroundTrimmer(done.append)
    trimmer.close()
    trimmer.request(cut(1))
    trimmer.close()
    assert done == []
