"""Opening a store: only `create=True` creates one, and an option that differs from what the store has is an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tailrace as tr
from tailrace.errors import NewerFormat, NotAStore, OptionDiffers, StoreError

SETTINGS = {"nodes": 2, "shards": 6, "durable": False, "map_size": 1 << 26}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with these settings and one row."""
    with tr.open(tmp_path / "shop", create=True, **SETTINGS) as db:  # type: ignore[arg-type]
        db.sql("CREATE TABLE a (id INT PRIMARY KEY)")
        db.table("a").put({"id": 1})
    return tmp_path / "shop"


def stored(path: Path) -> Any:
    return json.loads((path / "store.json").read_text())


def test_a_mistyped_path_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(NotAStore) as error:
        tr.open(tmp_path / "shpo")
    assert str(error.value).startswith(f"no store at {tmp_path / 'shpo'}")
    assert f"tailrace init {tmp_path / 'shpo'}" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_directory_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match=r"has no store\.json"):
        tr.open(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_defaults_of_a_new_store(tmp_path: Path) -> None:
    for options, expected in [({}, (2, 4, True)), ({"nodes": 3}, (3, 6, True)), ({"durable": False}, (2, 4, False))]:
        path = tmp_path / "-".join(options) / "shop"
        tr.open(path, create=True, map_size=1 << 24, **options).close()  # type: ignore[arg-type]
        assert tuple(stored(path)[name] for name in ("nodes", "shards", "durable")) == expected


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("options", [{}, SETTINGS, *({name: value} for name, value in SETTINGS.items())])
def test_a_store_opens_with_equal_or_no_options(path: Path, create: bool, options: dict[str, Any]) -> None:
    before = stored(path)
    with tr.open(path, create=create, **options) as db:
        assert db.table("a").get(1) == {"id": 1}
    assert stored(path) == before


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize(
    ("option", "value"), [("nodes", 1), ("nodes", 3), ("shards", 4), ("durable", True), ("map_size", 1 << 25)]
)
def test_an_option_that_differs_is_named(path: Path, create: bool, option: str, value: int) -> None:
    before = stored(path)
    with pytest.raises(OptionDiffers) as error:
        tr.open(path, create=create, **{option: value})  # type: ignore[arg-type]
    assert (error.value.option, error.value.found, error.value.given) == (option, SETTINGS[option], value)
    assert f"has {option} = {SETTINGS[option]}, but {option} = {value} was asked for" in str(error.value)
    assert stored(path) == before


def test_map_size_is_raised(path: Path) -> None:
    with tr.open(path, map_size=1 << 27) as db:
        assert db.table("a").get(1) == {"id": 1}
    assert stored(path) == {**stored(path), **SETTINGS, "map_size": 1 << 27}
    with pytest.raises(StoreError, match="64 TiB"):
        tr.open(path, map_size=1 << 47)


def test_a_store_of_a_newer_version_is_refused_and_not_changed(path: Path) -> None:
    content = {**stored(path), "format": stored(path)["format"] + 1, "something": "new"}
    (path / "store.json").write_text(json.dumps(content))
    for create in (False, True):
        with pytest.raises(NewerFormat) as error:
            tr.open(path, create=create, map_size=1 << 30)
        assert "newer version" in str(error.value)
        assert "Upgrade Tailrace" in str(error.value)
    assert stored(path) == content
