"""References: a path or URL becomes the URL that tasks open, once per process."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

import tailrace as tr
from tailrace.errors import NotAStore
from tailrace.store.processes import this_machine
from tailrace.store.store_ref import StoreRef


def test_a_plain_path_is_an_embedded_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert StoreRef.of("shop") == StoreRef(f"lmdb:{tmp_path}/shop") == StoreRef.of(f"lmdb:{tmp_path}/shop")
    assert StoreRef.of(tmp_path / "shop").location == f"{tmp_path}/shop"


def test_a_database_is_opened_by_its_url(tmp_path: Path) -> None:
    with tr.open(f"lmdb:{tmp_path}/shop", create=True, map_size=1 << 24) as db:
        assert db.path == f"{tmp_path}/shop"


def test_an_unknown_scheme_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotAStore, match="unknown scheme redis:"):
        tr.open("redis://localhost:6379/shop")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["hbase:shop", "hbase://localhost/shop", "hbase://localhost:9090", "hbase://h:x/shop"])
def test_a_url_of_hbase_has_a_host_a_port_and_a_namespace(url: str) -> None:
    with pytest.raises(NotAStore, match="write hbase://host:port/namespace"):
        tr.open(url)


def test_a_store_is_opened_once_per_process(tmp_path: Path) -> None:
    with tr.open(tmp_path / "shop", create=True, map_size=1 << 24) as db:
        ref = StoreRef.of(db.path)
        again = pickle.loads(pickle.dumps(ref))
        assert again.attach() is ref.attach()
        assert ref.attach().ref == replace(ref, machine=this_machine())


def test_a_new_store_at_the_same_path_is_opened_again(tmp_path: Path) -> None:
    tr.open(tmp_path / "shop", create=True, map_size=1 << 24).close()
    ref = StoreRef.of(tmp_path / "shop")
    first = ref.attach()
    (tmp_path / "shop").rename(tmp_path / "old")
    tr.open(tmp_path / "shop", create=True, map_size=1 << 24).close()
    assert ref.attach() is not first
