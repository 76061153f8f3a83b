"""Connections to a Thrift2 server: a pool per process, and calls that are repeated until HBase answers.

Servers of HBase die, and regions move. For some seconds calls then fail or wait. A call is repeated after a lost
connection, and after an error that HBase marks as temporary.
"""

from __future__ import annotations

import functools
import importlib.resources
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import thriftpy2
from thriftpy2.thrift import TApplicationException

from tailrace.errors import RequestRefused, StoreUnavailable
from tailrace.store.hbase.connection_settings import read_connection_settings
from tailrace.store.hbase.wire import LOST, Wire, describe, explain

CONNECTIONS = 8  # of one process, at most; each one is a thread of the server
PATIENCE = 120.0  # seconds for which a call is repeated
ANSWER = 90.0  # seconds that a call may take; the server itself waits for a region that moves
FIRST_ANSWER = 20.0  # seconds that the first call of all may take
IDLE = 30.0  # seconds after which an unused connection is not used again: the server closes it after 60
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0

T = TypeVar("T")
R = TypeVar("R")


class Unanswered(Exception):
    """A call may have had its effect or not: the connection was lost, or HBase failed temporarily."""


@functools.cache
def idl() -> Any:
    """The types and the service of `hbase.thrift`."""
    with importlib.resources.as_file(importlib.resources.files(__package__) / "hbase.thrift") as path:
        return thriftpy2.load(str(path), module_name="tailrace_hbase_thrift")


class Connections:
    """A pool of connections to one server. Safe for threads, and for processes that fork."""

    def __init__(self, host: str, port: int, patience: float = PATIENCE) -> None:
        self.host, self.port, self.patience = host, port, patience
        self._settings = read_connection_settings()
        self.url = f"hbase://{host}:{port}"
        self._forget()
        _pools.add(self)

    def _forget(self) -> None:
        self._guard = threading.Lock()
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        self._idle: list[Wire] = []  # the one used last is at the end
        self._threads: ThreadPoolExecutor | None = None

    def leave_to_parent(self) -> None:
        """In a forked child: gives up the connections, which the parent goes on to use."""
        for connection in self._idle:
            connection.close()
        self._forget()

    def close(self) -> None:
        """Ends the threads and closes the connections. A later call opens a new one."""
        with self._guard:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()
        self._drop_idle()

    def _drop_idle(self) -> None:
        with self._guard:
            closing, self._idle = self._idle, []
        for connection in closing:
            connection.close()

    def reach(self) -> None:
        """One call, not repeated: tells a wrong address or wrong settings from a server that is busy.

        Raises `StoreUnavailable` with the reason and what to do.
        """
        try:
            wire = self._connect(FIRST_ANSWER)
        except LOST as error:
            raise self._unreachable(error) from None
        try:
            wire.client.listNamespaceDescriptors()
        except idl().TIOError:
            return  # it is a Thrift2 server. HBase has a problem, maybe for a moment
        except LOST as error:
            raise self._unreachable(error) from None
        finally:
            wire.close()

    def _unreachable(self, error: BaseException) -> StoreUnavailable:
        reason, advice = explain(error, self._settings, FIRST_ANSWER)
        text = f"{self.url} cannot be used: {reason}. {advice}"
        return StoreUnavailable(url=self.url, reason=reason, text=text)

    def map(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """The results of `work` for all items, in order; several at a time. `work` itself must not use `map`."""
        if len(items) < 2:
            return map(work, items)
        with self._guard:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="tailrace-hbase")
        return self._threads.map(work, items)

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls the server until it answers. Raises `StoreUnavailable` if it does not within the pool's patience."""
        deadline, pause = time.monotonic() + self.patience, FIRST_PAUSE
        while True:
            try:
                return self.call_once(name, *arguments)
            except Unanswered as problem:
                if time.monotonic() + pause > deadline:
                    raise StoreUnavailable(url=self.url, reason=str(problem)) from None
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def call_once(self, name: str, *arguments: Any) -> Any:
        """Calls the server. Raises `Unanswered` if a repetition may help, `RequestRefused` if it cannot."""
        with self._connection() as connection:
            try:
                return getattr(connection.client, name)(*arguments)
            except idl().TIOError as error:
                reason = (error.message or "no reason given").strip().split("\n")[0]
                if error.canRetry:
                    raise Unanswered(reason) from None
                raise RequestRefused(url=self.url, request=name, reason=reason) from None
            except (idl().TIllegalArgument, TApplicationException) as error:
                reason = str(error.message or error).strip().split("\n")[0]
                raise RequestRefused(url=self.url, request=name, reason=reason) from None

    @contextmanager
    def _connection(self) -> Iterator[Wire]:
        """A connection for one call. It is used again if the server answered, be it with an error."""
        with self._free:
            try:
                connection = self._take()
            except LOST as error:
                raise Unanswered(describe(error, ANSWER)) from None
            try:
                yield connection
            except (Unanswered, RequestRefused):
                self._give_back(connection)
                raise
            except LOST as error:
                connection.close()
                self._drop_idle()  # the others are probably as dead as this one
                raise Unanswered(describe(error, ANSWER)) from None
            except BaseException:
                connection.close()  # an answer may still be on its way
                raise
            self._give_back(connection)

    def _take(self) -> Wire:
        with self._guard:
            if self._idle and time.monotonic() - self._idle[-1].used < IDLE:
                return self._idle.pop()
        self._drop_idle()
        return self._connect(ANSWER)

    def _connect(self, patience: float) -> Wire:
        return Wire(idl().THBaseService, self.host, self.port, self._settings, patience)

    def _give_back(self, connection: Wire) -> None:
        connection.used = time.monotonic()
        with self._guard:
            self._idle.append(connection)


_pools: weakref.WeakSet[Connections] = weakref.WeakSet()


def _leave_to_parent() -> None:
    for pool in list(_pools):
        pool.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)
