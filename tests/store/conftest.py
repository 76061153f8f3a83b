from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from hbase_parts import new_parts
from hbase_stores import new_store
from stores import TABLES, embedded

from tailrace.store.base import Store


@pytest.fixture(params=["lmdb", pytest.param("hbase", marks=pytest.mark.hbase)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store of each kind: the contract tests (`test_contract_*.py`) run on all of them."""
    if request.param == "lmdb":
        opened = embedded(tmp_path / "store")
        yield opened
        opened.close()
    elif request.module.__name__ == "test_contract_tables":
        with new_store(request.getfixturevalue("cluster"), TABLES) as on_hbase:
            yield on_hbase
    else:
        with new_parts(request.getfixturevalue("cluster").port) as parts:
            yield cast(Store, parts)
