"""Locks on HBase: a dead holder loses its lock, a live one does not. HBase is away for a while."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from children import start_child
from hbase_parts import HbaseParts, new_parts

from tailrace.errors import EpochsLocked, StoreUnavailable
from tailrace.store import documents
from tailrace.store.hbase.connections import Unanswered
from tailrace.store.hbase.row_locks import COLUMN
from tailrace.store.hbase.versioned_row import Update, VersionedRow
from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase
TIMES = {"renewal": 0.2, "expiry": 2.0}
CHILD_TIMES = {"RENEWAL": "0.2", "EXPIRY": "2"}

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def parts(cluster: LocalCluster) -> Iterator[HbaseParts]:
    with new_parts(cluster.port, **TIMES) as made:
        yield made


@pytest.fixture
def holder(parts: HbaseParts) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock `runner`."""
    with start_child(parts, "hold", "runner", **CHILD_TIMES) as child:
        assert child.stdout is not None
        assert [child.stdout.readline() for _ in range(2)] == ["waiting\n", "held\n"]
        yield child
        child.kill()


@pytest.fixture
def second(cluster: LocalCluster, parts: HbaseParts) -> Iterator[HbaseParts]:
    """The same store, opened a second time in this process."""
    opened = HbaseParts(cluster.port, parts.name, **TIMES)
    yield opened
    opened.close()


def intercept(parts: HbaseParts, monkeypatch: pytest.MonkeyPatch, instead: Call) -> None:
    """Calls to HBase become `instead(call, name, *arguments)`. `call` is the real one."""
    connections = parts.client.connections
    real = connections.call_once
    monkeypatch.setattr(connections, "call_once", lambda *arguments: instead(real, *arguments))


def pretend_host(parts: HbaseParts, host: str) -> None:
    """Makes the holder of the lock `runner` one of another host: whether it lives cannot be seen."""
    row = VersionedRow(parts.client.table(f"{parts.name}:meta", b"d"), b"lock:runner")

    def decide(values: dict[bytes, bytes]) -> Update:
        note = documents.decode("lock", values[COLUMN], dict)
        return Update({COLUMN: documents.encode({**note, "host": host})})

    row.change([COLUMN], decide)


def test_a_lock_is_free_when_its_process_was_killed(parts: HbaseParts, holder: subprocess.Popen[str]) -> None:
    found = parts.holder("runner")
    assert found is not None
    assert found.pid == holder.pid
    with pytest.raises(EpochsLocked) as error, parts.lock("runner"):
        pass
    assert (error.value.pid, error.value.command) == (holder.pid, "hbase_child.py")
    holder.kill()
    holder.wait()
    assert parts.holder("runner") is None
    with parts.lock("runner"):
        found = parts.holder("runner")
        assert found is not None
        assert found.pid == os.getpid()


def test_the_lock_of_a_killed_process_on_another_host_expires(parts: HbaseParts, holder: subprocess.Popen[str]) -> None:
    pretend_host(parts, "elsewhere")
    holder.kill()
    holder.wait()
    pretend_host(parts, "elsewhere")  # the holder may have renewed its lease in between
    assert parts.holder("runner") is not None
    with parts.lock("runner"):
        found = parts.holder("runner")
        assert found is not None
        assert found.pid == os.getpid()


def test_the_lock_of_a_live_process_on_another_host_does_not_expire(
    parts: HbaseParts, holder: subprocess.Popen[str]
) -> None:
    pretend_host(parts, "elsewhere")
    for patience in (0.0, 2 * TIMES["expiry"]):
        with pytest.raises(EpochsLocked) as error, parts.lock("runner", patience):
            pass
        assert error.value.pid == holder.pid


def test_a_suspended_process_loses_its_lock_and_does_not_take_it_back(
    parts: HbaseParts, holder: subprocess.Popen[str]
) -> None:
    holder.send_signal(signal.SIGSTOP)
    with parts.lock("runner", patience=60.0):
        holder.send_signal(signal.SIGCONT)
        end = time.monotonic() + 4 * TIMES["renewal"]
        while time.monotonic() < end:
            found = parts.holder("runner")
            assert found is not None
            assert found.pid == os.getpid()
    with parts.lock("runner"):
        pass


def test_a_waiting_process_gets_the_lock_when_it_is_released(parts: HbaseParts) -> None:
    with parts.lock("epoch"):
        child = start_child(parts, "hold", "epoch", 60, **CHILD_TIMES)
        assert child.stdout is not None
        assert child.stdout.readline() == "waiting\n"
    with child:
        assert child.stdout.readline() == "held\n"
        child.kill()


def test_a_process_takes_a_lock_again_whose_release_failed(
    parts: HbaseParts, second: HbaseParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(call: Call, name: str, *arguments: Any) -> Any:
        raise Unanswered("HBase is away")

    with parts.lock("runner"):
        with pytest.raises(EpochsLocked), second.lock("runner"):
            pass
        monkeypatch.setattr(parts.client.connections, "patience", 0.1)
        intercept(parts, monkeypatch, fail)
    monkeypatch.undo()
    assert parts.holder("runner") is None
    for each in (second, parts):
        with each.lock("runner"):
            found = each.holder("runner")
            assert found is not None
            assert found.pid == os.getpid()


def test_a_process_takes_a_lock_that_it_got_after_it_had_given_up(
    parts: HbaseParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[Callable[[], Any]] = []

    def delay(call: Call, name: str, *arguments: Any) -> Any:
        if not name.startswith("checkAnd"):
            return call(name, *arguments)
        late.append(lambda: call(name, *arguments))
        raise Unanswered("the answer was lost")

    monkeypatch.setattr(parts.client.connections, "patience", 0.0)
    intercept(parts, monkeypatch, delay)
    with pytest.raises(StoreUnavailable), parts.lock("runner"):
        pass
    monkeypatch.undo()
    assert [take() for take in late] == [True]
    assert parts.holder("runner") is None
    with parts.lock("runner"):
        pass


def test_a_lock_is_not_free_while_its_taker_waits_for_the_answer(
    parts: HbaseParts, second: HbaseParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = []

    def lose_answer(call: Call, name: str, *arguments: Any) -> Any:
        answer = call(name, *arguments)
        if name.startswith("checkAnd") and not lost:
            lost.append(name)
            with pytest.raises(EpochsLocked), second.lock("runner"):
                pass
            raise Unanswered("the answer was lost")
        return answer

    intercept(parts, monkeypatch, lose_answer)
    with parts.lock("runner"), pytest.raises(EpochsLocked), second.lock("runner"):
        pass
    assert lost


def test_time_in_which_a_waiting_process_could_not_look_does_not_count(
    second: HbaseParts, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """HBase is away for longer than a lease. The holder renews it only after the waiting process has looked again."""
    calls = []

    def be_away(call: Call, name: str, *arguments: Any) -> Any:
        calls.append(name)
        if len(calls) != 2:  # the first look, and those after the second
            return call(name, *arguments)
        time.sleep(1.5 * TIMES["expiry"])
        answer = call(name, *arguments)
        holder.send_signal(signal.SIGCONT)
        return answer

    holder.send_signal(signal.SIGSTOP)
    intercept(second, monkeypatch, be_away)
    with pytest.raises(EpochsLocked) as error, second.lock("runner", 2 * TIMES["expiry"]):
        pass
    assert (error.value.pid, len(calls) > 2) == (holder.pid, True)
