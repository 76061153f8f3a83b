"""The contract of a store: locks, terms and conditional changes: a replaced holder can neither apply nor commit."""

from __future__ import annotations

import pytest

from tailrace.errors import Conflict, EpochsLocked, Fenced
from tailrace.store.base import Store, Write
from tailrace.store.documents import Kind
from tailrace.store.locks import TERM, EpochLock, Term

COUNTER: Kind[int] = Kind("test_counter", int)


def replace_holder(store: Store) -> None:
    """Another process takes the epoch lock."""
    newest = store.document(TERM)
    assert newest is not None
    store.change_documents({TERM.name: Term(newest.number + 1, 1, "elsewhere", burnt=newest.burnt)})


def test_a_lock_has_one_holder_and_names_it(store: Store) -> None:
    assert store.holder("runner") is None
    with store.lock("runner"):
        holder = store.holder("runner")
        assert holder is not None
        with pytest.raises(EpochsLocked) as error, store.lock("runner"):
            pass
        assert error.value.pid == holder.pid
    with store.lock("runner"):
        pass


def test_a_process_keeps_its_term_until_another_one_takes_the_lock(store: Store) -> None:
    lock = EpochLock(store)
    with lock.held():
        first = lock.term
    with lock.held():
        assert lock.term == first
    replace_holder(store)
    with lock.held():
        assert lock.term == first + 2


def test_the_number_of_a_rolled_back_epoch_stays_burnt(store: Store) -> None:
    lock = EpochLock(store)
    with lock.held():
        term = lock.term
        lock.fence(burnt=5)
        lock.fence(burnt=3)
        assert (lock.term, lock.burnt) == (term + 2, 5)
    replace_holder(store)
    with lock.held():
        assert lock.burnt == 5


def test_documents_of_a_lost_term_do_not_change(store: Store) -> None:
    lock = EpochLock(store)
    with lock.held():
        store.change_documents({COUNTER.name: 1}, term=lock.term)
        replace_holder(store)
        with pytest.raises(Fenced) as error:
            store.change_documents({COUNTER.name: 2}, term=lock.term)
        assert error.value.newest == error.value.term + 1
    assert store.document(COUNTER) == 1


def test_shards_refuse_writes_of_a_fenced_term(store: Store) -> None:
    shard = store.shard(0)
    shard.apply(1, [Write.of(7, [b"k"], [b"one"], [None])], 0, term=1)
    store.fence(2)
    for index in range(store.shards):
        with pytest.raises(Fenced):
            store.shard(index).apply(2, [Write.of(7, [b"k"], [b"two"], [b"one"])], 0, term=1)
    with shard.at(2) as snapshot:
        assert snapshot.get_many(7, [b"k"]) == {b"k": b"one"}
    store.fence(1)  # fencing an older term changes nothing
    with pytest.raises(Fenced):
        shard.apply(2, [Write.of(7, [b"k"], [b"two"], [b"one"])], 0, term=1)
    assert shard.apply(2, [Write.of(7, [b"k"], [b"two"], [b"one"])], 0, term=2)


def test_a_document_changes_only_if_it_is_what_the_caller_saw(store: Store) -> None:
    store.change_documents({COUNTER.name: 1}, expected={COUNTER.name: None})
    with pytest.raises(Conflict) as error:
        store.change_documents({COUNTER.name: 2, TERM.name: Term(9, 1, "here")}, expected={COUNTER.name: None})
    assert error.value.document == COUNTER.name
    assert (store.document(COUNTER), store.document(TERM)) == (1, None)
    store.change_documents({COUNTER.name: None}, expected={COUNTER.name: 1})
    assert store.document(COUNTER) is None
