"""Images: their stamps as bytes, which of them trimming deletes, and those that a process does not read again."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from foreign import ROWS, attach, foreign_table, logged, shown
from hbase_stores import new_store
from thrift_client import Client, hbase

from tailrace.store.hbase.cell_merging import ABSENT, Stamps
from tailrace.store.hbase.hbase_store import HbaseStore
from tailrace.store.hbase.images import decode_more, decode_stamps, encode_stamps
from tailrace_hbase.local_cluster import LocalCluster


def test_stamps_are_decoded_as_they_were_encoded() -> None:
    timestamps = np.array([[ABSENT, 5, 7], [1, ABSENT, 2**62], [3, 4, 5]])
    more = Stamps(columns={b"f:a": 9}, versions={b"f:b": [1, 2]})
    stamps = encode_stamps(timestamps, {1: more, 2: None})
    decoded, have_more = decode_stamps(stamps, 3)
    assert decoded.tolist() == timestamps.tolist()
    assert have_more.tolist() == [False, True, False]
    assert [decode_more(one) for one in stamps] == [Stamps(), more, Stamps()]


def test_stamps_of_other_layouts() -> None:
    """Images that were written before a column was added; the length alone does not tell."""
    shorter = encode_stamps(np.array([[1, 2]]), {})[0]
    with_more = encode_stamps(np.array([[1, 2]]), {0: Stamps(live={b"f:x": 3})})[0]
    as_long = encode_stamps(np.array([[1]]), {})[0] + with_more[18:].ljust(8, b"\xc0")[:8]
    whole = encode_stamps(np.array([[4, 5, 6]]), {})[0]
    decoded, have_more = decode_stamps([shorter, None, with_more, whole, as_long], 2)
    assert decoded.tolist() == [[1, 2], [ABSENT, ABSENT], [1, 2], [4, 5], [1, ABSENT]]
    assert have_more.tolist() == [False, False, True, False, True]
    assert decode_stamps([], 2)[0].shape == (0, 2)


def versions(client: Client, store: HbaseStore) -> dict[bytes, int]:
    """How many versions each image has."""
    scan = hbase.TScan(startRow=b"", stopRow=b"", maxVersions=100, limit=100, caching=100)
    results = client.getScannerResults(f"{store.namespace}:rows".encode(), scan, 100)
    return {result.row: sum(cell.qualifier == b"v" for cell in result.columnValues) for result in results}


@pytest.mark.hbase
def test_trimming_leaves_one_image_of_each_row_and_none_of_deleted_ones(cluster: LocalCluster, client: Client) -> None:
    with new_store(cluster) as store, foreign_table(client) as name:
        attach(store, name)
        store.catch_up()  # else the first rows may come twice: the table is scanned, and they are in the log
        for number in range(3):
            for row in ROWS[: number + 2]:
                client.put(name, row, {"f:a": struct.pack(">q", number)})
            store.catch_up()
        assert sorted(versions(client, store).values()) == [1, 2, 3, 3]
        client.delete(name, ROWS[0])
        store.catch_up()
        expected = shown(store, store.newest_cut())
        assert len(expected) == 3
        store.trim(store.newest_cut())
        assert list(versions(client, store).values()) == [1, 1, 1]
        assert shown(store, store.newest_cut()) == expected
        store.trim(store.newest_cut())
        assert list(versions(client, store).values()) == [1, 1, 1]


@pytest.mark.hbase
def test_a_process_notices_images_that_another_one_has_written(cluster: LocalCluster, client: Client) -> None:
    with new_store(cluster) as store, foreign_table(client) as name:
        other = HbaseStore(store.ref)
        attach(store, name)
        start = store.newest_cut()
        expected = []
        for number in range(6):
            client.put(name, ROWS[0], {"f:a": struct.pack(">q", number), f"f:{'ab'[number % 2]}": struct.pack(">q", 7)})
            (store if number % 3 else other).catch_up()
            expected = shown(store, store.newest_cut())
            assert len(expected) == 1
            # The rows before and after add up only if each transaction began with the image of the one before.
            assert logged(store, start, store.newest_cut()) == dict.fromkeys(expected, 1)
        other.close()
