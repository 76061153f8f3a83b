"""Tables that other clients of HBase write: images and log are what a plain scan of HBase shows."""

from __future__ import annotations

import random
import struct
import threading
import time

import pytest
from foreign import ROWS, SPAN, TABLE, ForeignClient, attach, foreign_table, logged, shown
from hbase_stores import new_store
from thrift_client import Client

from tailrace.errors import BadCell
from tailrace.store.base import Past
from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase


@pytest.mark.parametrize("versions", [1, 3])
@pytest.mark.parametrize("base", ["past", "future"])
def test_random_changes(cluster: LocalCluster, client: Client, versions: int, base: str) -> None:
    """All kinds of deletions, partial puts, timestamps in any order; the table has rows before it is attached.

    With timestamps in the past, deletions from before may hide what is put later. With those in the future none do.
    """
    start = 1 if base == "past" else int(time.time() * 1000) + 86_400_000
    with new_store(cluster) as store, foreign_table(client, versions, (ROWS[2],)) as name:
        foreign = ForeignClient(client, name, random.Random(f"{versions} {base}"), start)
        for _ in range(30):
            foreign.write()
        if base == "future":
            client.put(name, ROWS[0], {"f:b": b"last"}, start + SPAN)
            foreign.base += SPAN + 1
        attach(store, name)
        empty = store.newest_cut()
        states = []
        for _ in range(12):
            store.catch_up()
            cut, expected = store.newest_cut(), foreign.rows()
            assert shown(store, cut) == expected
            assert logged(store, empty, cut) == dict.fromkeys(expected, 1)
            assert store.count(TABLE) == len(expected)
            states.append((cut, expected))
            for _ in range(15):
                foreign.write()
        assert [shown(store, cut) for cut, _ in states] == [expected for _, expected in states]
        keys = [TABLE.keys.encode_one(struct.unpack(">i", row)) for row in ROWS]
        for cut, expected in states:
            rows = store.get(TABLE, keys, Past(cut))
            assert sorted(tuple(TABLE.rows.decode_one(row).values()) for row in rows.values()) == expected
        store.trim(states[6][0])
        assert [shown(store, cut) for cut, _ in states[6:]] == [expected for _, expected in states[6:]]
        for _ in range(4):  # images of deleted rows are gone, and HBase still hides what is put below their deletions
            store.catch_up()
            assert shown(store, store.newest_cut()) == foreign.rows()
            store.trim(store.newest_cut())
            for _ in range(15):
                foreign.write()


def test_a_bad_cell_fails_reads_until_it_is_repaired(cluster: LocalCluster, client: Client) -> None:
    good, bad = struct.pack(">q", 5), b"abc"
    with new_store(cluster) as store, foreign_table(client) as name:
        attach(store, name)
        client.put(name, ROWS[0], {"f:a": good})
        store.catch_up()
        first = store.newest_cut()
        client.put(name, ROWS[1], {"f:a": bad, "f:b": b"x"})
        client.put(name, ROWS[0], {"f:b": b"y"})
        store.catch_up()
        second = store.newest_cut()
        with pytest.raises(BadCell, match=f"f:a of row .* in the HBase table {name} cannot be read: it is no BIGINT"):
            shown(store, second)
        with pytest.raises(BadCell):
            logged(store, first, second)
        assert shown(store, first) == [(-1, 5, None, None)]
        client.put(name, ROWS[1], {"f:b": b"z"})  # repairs another column
        store.catch_up()
        with pytest.raises(BadCell):
            logged(store, first, store.newest_cut())
        client.put(name, ROWS[1], {"f:a": good})
        client.put(name, b"no key", {"f:a": good})
        store.catch_up()
        third = store.newest_cut()
        with pytest.raises(BadCell, match=":key of row"):
            shown(store, third)
        client.delete(name, b"no key")
        store.catch_up()
        last = store.newest_cut()
        assert shown(store, last) == [(-1, 5, "y", None), (0, 5, "z", None)]
        assert logged(store, first, last) == {
            (-1, 5, None, None): -1,
            (-1, 5, "y", None): 1,
            (0, 5, "z", None): 1,
        }


@pytest.mark.soak
def test_regions_that_are_split_moved_and_merged(cluster: LocalCluster, client: Client) -> None:
    with new_store(cluster) as store, foreign_table(client) as name:
        attach(store, name)
        empty = store.newest_cut()
        foreign = ForeignClient(client, name, random.Random(3), 1)
        stopped = threading.Event()

        def write() -> None:
            own = Client(cluster.port)
            writer = ForeignClient(own, name, random.Random(4), 1)
            while not stopped.is_set():
                writer.write()
            own.close()

        thread = threading.Thread(target=write)
        thread.start()
        try:
            cluster.admin("split", name, "".join(f"\\x{byte:02x}" for byte in ROWS[2]))
            store.catch_up()
            for other in client.regions(name):
                away = next(a for a in map(cluster.address, ("rs1", "rs2")) if a != other.server)
                cluster.admin("move", other.encoded_name, away)
                store.advance()
            store.catch_up()
            first, second = client.regions(name)
            cluster.admin("merge", first.encoded_name, second.encoded_name)
            store.catch_up()
        finally:
            stopped.set()
            thread.join()
        store.catch_up()
        cut, expected = store.newest_cut(), foreign.rows()
        assert len(client.regions(name)) == 1
        assert shown(store, cut) == expected
        assert logged(store, empty, cut) == dict.fromkeys(expected, 1)
