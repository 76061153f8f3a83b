"""Documents on HBase: changes of many processes at once, and changes whose answers get lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from children import start_child
from hbase_child import COUNTER, count
from hbase_parts import HbaseParts, new_parts
from lossy_proxy import LossyProxy

from tailrace.errors import Conflict, Corrupt, NewerFormat, NotAStore, OptionDiffers, StoreError
from tailrace.store.documents import Kind
from tailrace.store.hbase import namespace
from tailrace.store.hbase.meta import Documents
from tailrace.store.hbase.versioned_row import VERSION, Update, VersionedRow
from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase
NUMBERS: Kind[int] = Kind("test_number:", int)
REMEMBERED: Kind[int] = Kind("test_remembered:", int)
OFTEN: Kind[int] = Kind("test_often:", int)
ONCE: Kind[int] = Kind("test_once:", int)
WHILE_NONE: Kind[int] = Kind("test_while_none:", int)
ABSENT: Kind[int] = Kind("test_absent", int)


@pytest.fixture(scope="module")
def parts(cluster: LocalCluster) -> Iterator[HbaseParts]:
    with new_parts(cluster.port) as made:
        yield made


def test_a_counter_of_four_processes_is_exact(parts: HbaseParts) -> None:
    parts.change_documents({COUNTER.name: None})
    children = [start_child(parts, "count", 25) for _ in range(4)]
    for child in children:
        with child:
            assert child.wait() == 0
    assert parts.document(COUNTER) == 100


def test_a_counter_is_exact_though_answers_get_lost(parts: HbaseParts, cluster: LocalCluster) -> None:
    """A third of the requests that change the row are lost, or their answers are."""
    parts.change_documents({COUNTER.name: None})
    proxy = LossyProxy(cluster.port, {b"checkAndMutate", b"checkAndPut"}, share=0.35)
    through = HbaseParts(proxy.port, parts.name)
    count(through, "60")
    through.close()
    proxy.close()
    assert parts.document(COUNTER) == 60
    assert min(proxy.lost.values()) > 0


def test_answers_get_lost_while_others_change_documents(parts: HbaseParts, cluster: LocalCluster) -> None:
    """A process must recognise its own change, even after changes of others."""
    parts.change_documents({COUNTER.name: None})
    proxy = LossyProxy(cluster.port, {b"checkAndMutate"}, share=0.5)
    through = HbaseParts(proxy.port, parts.name)
    with start_child(parts, "count", 40) as child:
        count(through, "20")
        assert child.wait() == 0
    through.close()
    proxy.close()
    assert parts.document(COUNTER) == 60
    assert min(proxy.lost.values()) > 0


def test_a_change_begins_with_what_is_true_now(parts: HbaseParts, cluster: LocalCluster) -> None:
    """A process remembers the documents that it has changed. Another one may have changed them since."""
    other = HbaseParts(cluster.port, parts.name)
    name = REMEMBERED.at("remembered")
    parts.change_documents({name: 1})
    other.change_documents({name: 2}, expected={name: 1})
    with pytest.raises(Conflict):
        parts.change_documents({name: 3}, expected={name: 1})
    parts.change_documents({name: 3}, expected={name: 2})
    other.change_documents({name: None}, expected={name: 3})
    with pytest.raises(Conflict):
        parts.change_documents({name: 4}, expected={name: 3})
    parts.change_documents({name: 5}, expected={name: None})
    other.change_documents({REMEMBERED.at("another"): 1})
    parts.change_documents({name: 6}, expected={name: 5})
    assert other.document(REMEMBERED, "remembered") == 6
    other.close()


def test_kinds_that_are_read_together(parts: HbaseParts) -> None:
    parts.change_documents({COUNTER.name: 7, REMEMBERED.at("x"): 1, REMEMBERED.at("y"): 2, f"{COUNTER.name}_else": 3})
    found = Documents(parts.client.table(f"{parts.name}:meta", b"d"), parts.nodes).together(COUNTER, REMEMBERED, ABSENT)
    assert found[COUNTER.name] == {"": 7}
    assert found[REMEMBERED.name].items() >= {"x": 1, "y": 2}.items()
    assert found[ABSENT.name] == {}


def test_documents_that_are_read_once(parts: HbaseParts, cluster: LocalCluster) -> None:
    """In the block they are those of its beginning, with own changes. After a failed change they are read again."""
    other, own = HbaseParts(cluster.port, parts.name), Documents(parts.client.table(f"{parts.name}:meta", b"d"), 2)
    name, number = ONCE.at("x"), OFTEN.at("x")
    other.change_documents({name: 1, ONCE.at("y"): 1})
    with own.reading_once([ONCE], [WHILE_NONE]):
        other.change_documents({name: 2})
        assert own.documents(ONCE) == {"x": 1, "y": 1}
        own.change_documents({ONCE.at("y"): None, ONCE.at("z"): 3, number: 4})
        assert own.documents(ONCE) == {"x": 1, "z": 3}
        assert (own.document(ONCE, "x"), own.document(ONCE, "y"), own.document(OFTEN, "x")) == (1, None, 4)
        other.change_documents({number: 5})
        assert own.document(OFTEN, "x") == 5  # a kind that is not read once
        with pytest.raises(Conflict):
            own.change_documents({name: 4}, expected={name: 1})
        assert own.document(ONCE, "x") == 2
    assert own.documents(ONCE) == {"x": 2, "z": 3}
    other.close()


def test_documents_that_are_read_once_while_there_are_none(parts: HbaseParts, cluster: LocalCluster) -> None:
    other, own = HbaseParts(cluster.port, parts.name), Documents(parts.client.table(f"{parts.name}:meta", b"d"), 2)
    with own.reading_once([], [WHILE_NONE]):
        assert own.documents(WHILE_NONE) == {}
        own.change_documents({WHILE_NONE.at("x"): 1})
        other.change_documents({WHILE_NONE.at("x"): 2})
        assert own.documents(WHILE_NONE) == {"x": 2}
    with own.reading_once([], [WHILE_NONE]):
        other.change_documents({WHILE_NONE.at("x"): 3})
        assert own.document(WHILE_NONE, "x") == 3
    other.close()


def test_a_document_that_was_removed_can_be_stored_again_at_once(parts: HbaseParts) -> None:
    for value in range(30):
        parts.change_documents({NUMBERS.at("x"): value, NUMBERS.at(value): value})
        assert parts.document(NUMBERS, "x") == value
        parts.change_documents({NUMBERS.at("x"): None})
        assert parts.document(NUMBERS, "x") is None
    assert sorted(parts.documents(NUMBERS).values()) == list(range(30))


def test_a_damaged_document_or_version_is_named(parts: HbaseParts) -> None:
    parts.change_documents({NUMBERS.at("bad"): 1})
    table = parts.client.table(f"{parts.name}:meta", b"d")
    newest = table.get(b"documents", qualifiers=[NUMBERS.at("bad").encode()])
    timestamp = next(iter(newest.values()))[1]
    table.put_many([(b"documents", {NUMBERS.at("bad").encode(): b'"text"'})], timestamp=timestamp + 1)
    with pytest.raises(Corrupt, match="test_number:bad"):
        parts.document(NUMBERS, "bad")
    table.put_many([(b"damaged", {VERSION: b"short"})], timestamp=1)
    with pytest.raises(Corrupt, match="5 bytes"):
        VersionedRow(table, b"damaged").change([], lambda _: Update({b"x": b""}))


def test_settings_are_those_of_the_creation(parts: HbaseParts) -> None:
    client, name = parts.client, parts.name
    assert namespace.create(client, name) == namespace.read_settings(client, name) == namespace.Settings(2, 4)
    for nodes, shards, option in ((3, None, "nodes"), (2, 6, "shards")):
        with pytest.raises(OptionDiffers) as error:
            namespace.create(client, name, nodes, shards)
        assert error.value.option == option
    with pytest.raises(StoreError, match="multiple of nodes"):
        namespace.create(client, "never_made", 2, 3)
    with pytest.raises(NotAStore, match="no store at"):
        namespace.read_settings(client, "never_made")


def test_settings_that_cannot_be_used(parts: HbaseParts) -> None:
    table = parts.client.table(f"{parts.name}:meta", b"d")
    cases = [(b"[]", NotAStore), (b'{"format": 2, "new": 1}', NewerFormat), (b'{"format": 1, "nodes": 1}', NotAStore)]
    for version, (content, error) in enumerate(cases, 100):
        table.put_many([(namespace.ROW, {namespace.COLUMN: content})], timestamp=version)
        with pytest.raises(error):
            namespace.read_settings(parts.client, parts.name)
