"""Changes of the catalog that are planned without the epoch lock, so that epochs continue meanwhile.

Planning takes time: it may start Spark, and asks Spark for types. The lock is taken for the change itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tailrace.catalog.catalog import Catalog
from tailrace.errors import TailraceError
from tailrace.store.locks import EpochLock

MAX_ATTEMPTS = 5

T = TypeVar("T")


@contextmanager
def planned(catalog: Catalog, lock: EpochLock, plan: Callable[[], T]) -> Iterator[T]:
    """Plans a change, then holds the epoch lock in the block. The plan is that of the catalog as it is in the block.

    If the catalog has changed in between, the lock is released and the change planned again. After MAX_ATTEMPTS it is
    planned under the lock, so that other processes that keep changing the catalog cannot delay it for ever.
    """
    for _ in range(MAX_ATTEMPTS):
        version = catalog.version
        try:
            change = plan()
        except TailraceError:
            if catalog.version == version:
                raise
            continue  # it may have read definitions of before and after another change
        with lock.held():
            if catalog.version == version:
                yield change
                return
    with lock.held():
        yield plan()
