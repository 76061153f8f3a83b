"""Writers that count up in rows of their own, and a reader of cuts, while a test moves regions and kills servers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from raw_log import Cell, Mark, RawLog
from thrift_client import Client


class Counting(threading.Thread):
    """Puts 1, 2, 3, ... into every one of its rows. A put whose answer is lost is repeated before the next."""

    def __init__(self, port: int, table: str, rows: Sequence[bytes]) -> None:
        super().__init__(daemon=True)
        self._client, self._table, self.rows = Client(port), table, rows
        self.count = 0
        self.ends = threading.Event()
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.ends.is_set():
                value = b"%d" % (self.count + 1)
                for row in self.rows[:-3]:
                    self._client.put(self._table, row, {"f:n": value})
                self._client.put_rows(self._table, ((row, {"f:n": value}) for row in self.rows[-3:]))
                self.count += 1
                self.ends.wait(0.01)  # leaves the machine some time for what the test does
        except BaseException as problem:
            self.problem = problem
        finally:
            self._client.close()


class Cuts(threading.Thread):
    """Reads cuts as fast as it can, and now and then also the log."""

    def __init__(self, port: int, namespace: str, table: str) -> None:
        super().__init__(daemon=True)
        self._client, self._namespace, self._table = Client(port), namespace, table
        self.cuts: list[list[Mark]] = []
        self.seen: list[tuple[list[Mark], list[Cell]]] = []
        self.ends = threading.Event()
        self.problem: BaseException | None = None

    def run(self) -> None:
        log, read_at = RawLog(self._client, self._namespace), 0.0
        try:
            while not self.ends.is_set():
                cut = log.marks()
                if not self.cuts or cut != self.cuts[-1]:
                    self.cuts.append(cut)
                    if time.monotonic() - read_at > 5:
                        self.seen.append((cut, log.cells(self._table)))
                        read_at = time.monotonic()
        except BaseException as problem:
            self.problem = problem
        finally:
            self._client.close()


class Load:
    def __init__(self, port: int, namespace: str, table: str, rows: Sequence[bytes], threads: int = 3) -> None:
        self.writers = [Counting(port, table, rows[n::threads]) for n in range(threads)]
        self.reader = Cuts(port, namespace, table)

    def await_progress(self, rounds: int = 3, seconds: float = 180) -> None:
        """Waits until every writer has put some more times into every row."""
        goals = [writer.count + rounds for writer in self.writers]
        end = time.monotonic() + seconds
        while any(writer.count < goal for writer, goal in zip(self.writers, goals, strict=True)):
            problems = [thread.problem for thread in (*self.writers, self.reader) if thread.problem]
            assert not problems, problems
            assert time.monotonic() < end, f"rounds {[w.count for w in self.writers]} of {goals}"
            time.sleep(0.05)

    @contextmanager
    def running(self) -> Iterator[Load]:
        threads = [*self.writers, self.reader]
        for thread in threads:
            thread.start()
        try:
            self.await_progress()
            yield self
        finally:
            for thread in threads:
                thread.ends.set()
            for thread in threads:
                thread.join(180)
        assert [thread.problem for thread in threads] == [None] * len(threads)
