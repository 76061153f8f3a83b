"""The shapes of a store's documents, by name: what whoever reads them may rely on.

A name that ends in a colon stands for all documents whose names begin so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from tailrace.errors import Corrupt
from tailrace.store import shapes
from tailrace.store.shapes import Small

_Cut = tuple[int, list[int]]
_TableId = Annotated[str, re.compile(r"[0-9]{1,10}").fullmatch]
_Bound = Annotated[str, re.compile(r"\*|([0-9a-f]{2}){0,511}").fullmatch]  # of `store/parts.py`
_Bounds = dict[_TableId, list[_Bound]]
_Column = tuple[str, str]


class _Owner(TypedDict):
    pid: int
    host: str
    started: NotRequired[int | None]


class _Committed(TypedDict):
    epoch: int
    cut: _Cut
    at: float


class _Intent(TypedDict):
    epoch: int
    end: _Cut
    ways: dict[str, tuple[Literal["recomputed", "deltas"], str]]
    load: tuple[str, _Bounds, int] | None
    again: NotRequired[list[Small]]


class _Pin(_Owner):
    epoch: int
    cut: _Cut
    at: float


class _Catalog(TypedDict):
    version: int
    next: Small


class _Table(TypedDict):
    id: Small
    name: str
    columns: list[_Column]
    key: list[str]


class _View(TypedDict):
    name: str
    sql: str
    root: Any  # a plan, which `plan/nodes.py` reads
    columns: list[_Column]
    key: list[int] | None
    place: list[int]
    uses: list[str]
    tables: list[Small]
    refresh: Literal["incremental", "auto", "full"]
    reason: str
    order: list[tuple[int, bool, bool]]
    state: Small
    since: int


class _Build(TypedDict):
    views: Annotated[list[_View], bool]  # one at least
    states: dict[str, Small]
    tables: list[Small]
    total: int
    replaces: bool
    owner: _Owner | None
    failed: str | None


class _Loaded(TypedDict):
    bounds: _Bounds
    rows: int
    failures: NotRequired[list[str]]


class _Way(TypedDict):
    taken: str
    reason: str


class _Record(TypedDict):
    epoch: int
    cut: NotRequired[_Cut]
    at: float
    operations: int
    seconds: float
    refreshed: dict[str, _Way]


SHAPES: dict[str, Any] = {
    "committed": _Committed,
    "intent": _Intent,
    "pin:": _Pin,
    "catalog": _Catalog,
    "table:": _Table,
    "view:": _View,
    "state:": Small,
    "building": list[Small],
    "dropping": list[tuple[Small, int]],
    "build:": _Build,
    "loaded:": _Loaded,
    "epoch:": _Record,
    "count:": int,
    "emptying": list[Small],
    "max_lag": int,
}


def read(name: str, text: bytes, nodes: int) -> Any:
    """The document under a name; `Corrupt` if it is no JSON, or has another shape than a store of so many nodes."""
    kind, colon, _ = name.partition(":")
    where = f"document {name!r}"
    found = shapes.parsed(where, text, SHAPES.get(kind + colon, Any))
    if kind in _BY_NODE and any(len(listed) != nodes for listed in _BY_NODE[kind](found)):
        raise Corrupt(where=where, reason=f"it is not of a store with {nodes} nodes")
    return found


# what has one item for each node
_BY_NODE: dict[str, Callable[[Any], list[Any]]] = {
    "committed": lambda found: [found["cut"][1]],
    "epoch": lambda found: [found["cut"][1]] if "cut" in found else [],
    "pin": lambda found: [found["cut"][1]],
    "intent": lambda found: [found["end"][1], *(found["load"][1].values() if found["load"] else ())],
    "loaded": lambda found: [*found["bounds"].values()],
}
