"""Shards on HBase: whoever stops or dies at any step of an epoch, the content of the epoch is that of one attempt."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from children import run_child
from hbase_parts import HbaseParts, new_parts

from tailrace import faults
from tailrace.errors import Corrupt, Fenced, SnapshotGone
from tailrace.store.base import Shard, Write
from tailrace.store.hbase.admin import Admin
from tailrace.store.hbase.client import Deletion
from tailrace.store.hbase.connections import idl
from tailrace.store.hbase.hbase_shard import HbaseShard
from tailrace.store.hbase.shard_content import ShardContent
from tailrace.store.hbase.trimming import EPOCHS
from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase
STEPS = ["shard.commit", "shard.decided", "shard.written", "shard.committed"]
_numbers = count(100)


@pytest.fixture(scope="module")
def parts(cluster: LocalCluster) -> Iterator[HbaseParts]:
    with new_parts(cluster.port, grace=0.0) as made:
        yield made


@pytest.fixture
def number() -> int:
    """The number of a shard that no other test uses."""
    return next(_numbers)


@pytest.fixture
def shard(parts: HbaseParts, number: int) -> HbaseShard:
    return parts.shard(number)


def entries(shard: Shard, epoch: int, state: int = 7) -> dict[bytes, bytes]:
    with shard.at(epoch) as snapshot:
        return {key: value for run in snapshot.scan(state) for key, value in run}


def write(value: bytes, *keys: bytes, old: bytes | None = None, state: int = 7) -> Write:
    return Write.of(state, keys, [value] * len(keys), [old] * len(keys))


class Stopped:
    """An `apply` in a thread that waits at a step until it may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step: str, apply: Callable[[], bool]) -> None:
        self._reached, self._go_on = threading.Event(), threading.Event()
        self.error: Exception | None = None
        self._apply = apply
        self._thread = threading.Thread(target=self._run)

        def point(name: str) -> None:
            if name == step and threading.current_thread() is self._thread:
                self._reached.set()
                assert self._go_on.wait(60)

        monkeypatch.setattr(faults, "point", point)
        self._thread.start()
        assert self._reached.wait(60)

    def _run(self) -> None:
        try:
            self._apply()
        except Exception as error:
            self.error = error

    def go_on(self) -> None:
        self._go_on.set()
        self._thread.join()


def test_a_task_that_is_fenced_before_its_decision_writes_nothing(
    parts: HbaseParts, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, shard = HbaseShard(parts.client, parts.name, number), parts.shard(number)
    stopped = Stopped(monkeypatch, "shard.commit", lambda: task.apply(1, [write(b"task", b"a", b"b")], 0, term=1))
    shard.fence(2)
    stopped.go_on()
    assert isinstance(stopped.error, Fenced)
    assert (stopped.error.term, stopped.error.newest) == (1, 2)
    assert entries(shard, 1) == {}
    assert shard.apply(1, [write(b"new", b"a")], 0, term=2)
    assert entries(shard, 1) == {b"a": b"new"}


@pytest.mark.parametrize("step", ["shard.decided", "shard.written"])
def test_the_next_holder_completes_what_a_fenced_task_decided(
    parts: HbaseParts, number: int, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    task, shard = HbaseShard(parts.client, parts.name, number), parts.shard(number)
    stopped = Stopped(monkeypatch, step, lambda: task.apply(1, [write(b"task", b"a", b"b")], 0, term=1))
    shard.fence(2)
    assert not shard.apply(1, [write(b"other", b"b", b"c")], 0, term=2)
    assert entries(shard, 1) == {b"a": b"task", b"b": b"task"}
    assert shard.apply(2, [write(b"two", b"a", old=b"task")], 0, term=2)
    stopped.go_on()
    assert isinstance(stopped.error, Fenced)
    assert entries(shard, 1) == {b"a": b"task", b"b": b"task"}
    assert entries(shard, 2) == {b"a": b"two", b"b": b"task"}


@pytest.mark.parametrize("step", ["shard.decided", "shard.written"])
@pytest.mark.parametrize("again", [2, 3])
def test_what_a_fenced_task_writes_after_a_rollback_is_not_seen(
    parts: HbaseParts, number: int, monkeypatch: pytest.MonkeyPatch, step: str, again: int
) -> None:
    """The epoch after the rollback has the same number or a greater one."""
    task, shard = HbaseShard(parts.client, parts.name, number), parts.shard(number)
    shard.apply(1, [write(b"one", b"a", b"b")], 0, term=1)
    stopped = Stopped(monkeypatch, step, lambda: task.apply(2, [write(b"task", b"b", b"c")], 1, term=1))
    shard.fence(2)
    assert shard.roll_back(1) == []
    assert entries(shard, 9) == {b"a": b"one", b"b": b"one"}
    assert shard.apply(again, [write(b"new", b"a", old=b"one")], 1, term=2)
    stopped.go_on()
    assert isinstance(stopped.error, Fenced)
    assert entries(shard, 1) == {b"a": b"one", b"b": b"one"}
    assert entries(shard, again) == entries(shard, 9) == {b"a": b"new", b"b": b"one"}


def test_two_attempts_at_once_write_what_the_first_one_decided(
    parts: HbaseParts, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, fast = HbaseShard(parts.client, parts.name, number), parts.shard(number)
    results: list[bool] = []

    def apply() -> bool:
        results.append(slow.apply(1, [write(b"slow", b"a"), write(b"slow", b"a", state=8)], 0, term=1))
        return results[0]

    stopped = Stopped(monkeypatch, "shard.commit", apply)
    assert fast.apply(1, [write(b"fast", b"b")], 0, term=1)
    stopped.go_on()
    assert (stopped.error, results) == (None, [True])
    assert entries(fast, 1) == {b"b": b"fast"}
    assert entries(fast, 1, state=8) == {b"a": b"slow"}


@pytest.mark.parametrize("step", STEPS)
def test_an_attempt_that_was_killed_at_any_step_is_repeated(
    parts: HbaseParts, number: int, tmp_path: Path, step: str
) -> None:
    """The second attempt has other results. It uses those of the first one if they were decided."""
    (tmp_path / step).write_text("kill@1")
    assert run_child(parts, "apply", number, 5, "first", 3, TAILRACE_FAULTS=str(tmp_path)) == -signal.SIGKILL
    shard, is_decided = parts.shard(number), step != "shard.commit"
    with shard.at(4) as snapshot:  # whoever looks completes what was decided
        assert snapshot.applied(8) == (5 if is_decided else None)
    second = [write(b"second", b"000", b"x"), write(b"second", b"000", b"x", state=8)]
    assert shard.apply(5, second, 0, term=3) != is_decided
    expected = {b"%03d" % i: b"first" for i in range(50)} if is_decided else {b"000": b"second", b"x": b"second"}
    for state in (7, 8):
        assert entries(shard, 5, state) == expected
        assert entries(shard, 4, state) == {}
    with shard.at(4) as snapshot:
        assert (snapshot.applied(7), snapshot.applied(8)) == (5, 5)
        assert snapshot.changed(7, 5) == sorted(expected)


def test_an_epoch_that_was_left_open_is_completed_before_a_later_one(
    parts: HbaseParts, number: int, tmp_path: Path
) -> None:
    (tmp_path / "shard.decided").write_text("kill@1")
    shard = parts.shard(number)
    shard.apply(4, [write(b"four", b"x"), write(b"four", b"000", state=8)], 0, term=1)  # it knows the marks from here
    assert run_child(parts, "apply", number, 5, "first", 1, TAILRACE_FAULTS=str(tmp_path)) == -signal.SIGKILL
    assert shard.apply(6, [write(b"six", b"000", old=b"first")], 0, term=1)
    assert entries(shard, 5) == {**{b"%03d" % i: b"first" for i in range(50)}, b"x": b"four"}
    assert entries(shard, 6) == {**entries(shard, 5), b"000": b"six"}


def test_a_rollback_takes_back_some_states_or_all(shard: HbaseShard) -> None:
    for epoch, value, old in ((1, b"1", None), (2, b"2", b"1"), (4, b"4", b"2")):
        writes = [write(value, b"a", b"%d" % epoch, old=old, state=state) for state in (7, 8)]
        shard.apply(epoch, writes, 0, term=1)
    shard.fence(2)
    assert shard.roll_back(2, [7, 99]) == []
    assert entries(shard, 9, 7) == {b"a": b"2", b"1": b"1", b"2": b"2"}
    assert entries(shard, 9, 8) == {b"a": b"4", b"1": b"1", b"2": b"2", b"4": b"4"}
    with shard.at(2) as snapshot:
        assert (snapshot.applied(7), snapshot.applied(8)) == (2, 4)
        assert (snapshot.changed(7, 4), snapshot.changed(8, 4)) == ([], [b"4", b"a"])
    assert shard.roll_back(1) == []
    assert entries(shard, 9, 7) == entries(shard, 9, 8) == {b"a": b"1", b"1": b"1"}
    assert shard.roll_back(1) == []
    for attempt in range(3):  # the same epoch again and again
        value = b"again %d" % attempt
        assert shard.apply(2, [write(value, b"a", b"z", old=b"1")], 0, term=2)
        assert entries(shard, 2) == {b"a": value, b"z": value, b"1": b"1"}
        assert shard.roll_back(1) == []
    assert entries(shard, 2) == {b"a": b"1", b"1": b"1"}


def test_a_rollback_names_states_whose_record_is_damaged_or_gone(
    parts: HbaseParts, shard: HbaseShard, number: int
) -> None:
    shard.apply(1, [write(b"1", b"a"), write(b"1", b"a", state=8)], 0)
    shard.apply(2, [write(b"2", b"a", old=b"1")], 0)
    shard.apply(3, [write(b"3", b"a", old=b"1", state=8)], 0)
    content = ShardContent(parts.client, parts.name, number)
    damaged = next(d for d in content.read_decisions() if d.epoch == 2)
    content.staging.drop(*damaged[:3])
    with shard.at(1) as snapshot, pytest.raises(Corrupt):
        snapshot.changed(7, 2)
    assert shard.roll_back(1) == [7]
    assert entries(shard, 3, 8) == {b"a": b"1"}


def test_a_dropped_state_leaves_nothing(parts: HbaseParts, shard: HbaseShard, number: int) -> None:
    keys = [b"%04d" % i for i in range(3_000)]
    shard.apply(1, [Write.of(7, keys, keys, [None] * len(keys)), write(b"kept", b"a", state=8)], 0)
    shard.drop(7)
    content = ShardContent(parts.client, parts.name, number)
    assert [row for page in content.entries.scan(number.to_bytes(2), (number + 1).to_bytes(2)) for row, _ in page] == [
        number.to_bytes(2) + (8).to_bytes(4) + b"a"
    ]
    with shard.at(1) as snapshot:
        assert (snapshot.applied(7), snapshot.applied(8)) == (None, 1)


def stored_cells(parts: HbaseParts, number: int, family: bytes) -> int:
    """How many cells a shard has in a family, with all versions."""
    types = idl()
    rows = {"startRow": number.to_bytes(2), "stopRow": (number + 1).to_bytes(2)}
    scan = types.TScan(**rows, columns=[types.TColumn(family)], maxVersions=1_000)
    results = parts.client.connections.call("getScannerResults", f"{parts.name}:state".encode(), scan, 10_000)
    return sum(len(result.columnValues) for result in results)


@pytest.mark.parametrize("seed", range(2))
def test_trimming_keeps_what_pins_need(parts: HbaseParts, shard: HbaseShard, number: int, seed: int) -> None:
    """A pin moves forward now and then. All epochs from it on stay readable, and old versions do not pile up.

    Two processes apply the epochs by turns.
    """
    rng, other = random.Random(seed), HbaseShard(parts.client, parts.name, number, grace=0.0)
    models: list[dict[bytes, bytes]] = [{}]
    pin = written = 0
    for epoch in range(1, 4 * EPOCHS):
        model, keys = dict(models[-1]), sorted({b"%d" % rng.randrange(12) for _ in range(4)})
        values = [None if rng.random() < 0.3 else b"%d" % epoch for _ in keys]
        olds = [model.get(key) for key in keys]
        for key, value in zip(keys, values, strict=True):
            model.pop(key, None)
            if value is not None:
                model[key] = value
        models.append(model)
        written += len(keys)
        if rng.random() < 0.1:
            pin = rng.randrange(pin, epoch)
        rng.choice([shard, shard, other]).apply(epoch, [Write.of(7, keys, values, olds)], pin)
        if epoch % EPOCHS == 0 or epoch == 4 * EPOCHS - 1:
            for read in range(pin, epoch + 1):
                assert entries(shard, read) == models[read], f"epoch {read} at {epoch}, pinned {pin}"
            with shard.at(pin) as snapshot:
                assert {key for e in range(pin + 1, epoch + 1) for key in snapshot.changed(7, e)} <= {
                    b"%d" % i for i in range(12)
                }
            if pin:
                with pytest.raises(SnapshotGone):
                    entries(shard, pin - 1)
    last = len(models) - 1
    shard.apply(last + 1, [], last)
    content = ShardContent(parts.client, parts.name, number)
    assert content.read_decisions() == []
    assert entries(shard, last) == models[last]
    assert stored_cells(parts, number, b"s") == len(models[last]) < written / 4
    assert stored_cells(parts, number, b"m") == 3  # the row of marks: its version, the oldest epoch, one state


def test_a_put_below_a_deletion_stays_hidden(parts: HbaseParts, number: int) -> None:
    """HBase itself, on which rollbacks rely: a deletion of one version also hides a later put of that version."""
    table, row = parts.client.table(f"{parts.name}:state", b"s"), number.to_bytes(2) + b"row"
    table.put_many([(row, {b"v": b"old"})], timestamp=5)
    table.delete_many([Deletion(row, 6, [b"v"], "version")])
    table.put_many([(row, {b"v": b"late"})], timestamp=6)
    assert table.get(row) == {b"v": (b"old", 5)}
    table.put_many([(row, {b"v": b"next"})], timestamp=7)
    assert table.get(row) == {b"v": (b"next", 7)}


@pytest.mark.soak
def test_regions_move_and_split_while_epochs_are_applied(cluster: LocalCluster, parts: HbaseParts, number: int) -> None:
    """Calls wait until a region is back. No epoch gets lost, and none is applied twice."""
    shard, table, keys = parts.shard(number), f"{parts.name}:state", [b"%03d" % i for i in range(300)]
    stop, failed, done = threading.Event(), list[Exception](), [0]

    def apply() -> None:
        try:
            while not stop.is_set():
                epoch, value = done[0] + 1, b"%d" % (done[0] + 1)
                old = None if epoch == 1 else b"%d" % done[0]
                assert shard.apply(epoch, [write(value, *keys, old=old)], max(0, epoch - 3))
                done[0] = epoch
                assert entries(shard, epoch) == dict.fromkeys(keys, value)
                assert entries(shard, epoch - 1) == ({} if old is None else dict.fromkeys(keys, old))
        except Exception as error:
            failed.append(error)

    def await_epoch(epoch: int) -> None:
        end = time.monotonic() + 120
        while done[0] < epoch and not failed:
            assert time.monotonic() < end, f"epoch {done[0]} instead of {epoch}"
            time.sleep(0.05)

    applier = threading.Thread(target=apply)
    applier.start()
    try:
        await_epoch(2)
        middle = number.to_bytes(2) + (7).to_bytes(4) + keys[150]
        cluster.admin("split", table, "".join(f"\\x{byte:02X}" for byte in middle))
        for region in Admin(parts.client).regions(table)[-3:]:
            cluster.admin("move", region.name)
        cluster.admin("flush", table)
        await_epoch(done[0] + 2)
    finally:
        stop.set()
        applier.join()
    assert failed == []
    assert middle in {region.start for region in Admin(parts.client).regions(table)}
