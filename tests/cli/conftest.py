from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from shopping import LINES, ORDERS, Tailrace


@pytest.fixture
def shop(tmp_path: Path) -> Tailrace:
    """A store with two empty tables."""
    store = Tailrace(tmp_path / "shop")
    store("init")
    store("sql", f"{ORDERS}; {LINES}")
    return store


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    def make(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return make
