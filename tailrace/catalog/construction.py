"""Views that are being built, chunk by chunk, one epoch each.

    build:<name>     what is built, with which states, by whom; or why it failed
    loaded:<name>    how far it has come: bounds of the part of the tables, rows, and failures since then

The bounds move in the same transaction that commits the epoch of their chunk, so a chunk is taken in exactly
once, whoever runs the epoch: a build that its process left is continued by the next one. A failure that may pass is
noted and the chunk tried again; so many in a row and the build is given up, for other views wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tailrace.plan.nodes import Node
from tailrace.plan.physical.arrangements import arrangements
from tailrace.plan.physical.sizing import ViewSink
from tailrace.store.base import Store
from tailrace.store.parts import EVERYTHING, Bounds, bounds_from_json, bounds_to_json
from tailrace.store.processes import lives, me

PREFIX = "build:"
AT_ONCE = 200_000  # rows of tables up to which a view is built in one go
CHUNK = 1_000_000  # rows of tables that one epoch of a build takes in: fewer cost more in all, more take more memory
CHUNK_BYTES = 256 << 20  # and the most that these rows take in the store

TRIES = 3  # failures in a row, without a chunk that came in, after which a build is given up


class Load(NamedTuple):
    """A chunk: the build it belongs to, the bounds after it, and the rows it brings."""

    build: str
    coming: Bounds
    rows: int

    def to_json(self) -> Any:
        return [self.build, bounds_to_json(self.coming), self.rows]

    @classmethod
    def from_json(cls, value: Any) -> Load:
        build, coming, rows = value
        return cls(build, bounds_from_json(coming), rows)


class Progress(NamedTuple):
    """How far a build has come: bounds, rows, and what failed since the last chunk came in."""

    loaded: Bounds
    rows: int
    failures: tuple[str, ...]


@dataclass(frozen=True)
class Build:
    """Views half built: their plans and private states, the tables in the order they are taken in, and how far."""

    name: str
    views: tuple[ViewSink, ...]
    states: Mapping[str, int]
    tables: tuple[int, ...]
    loaded: Bounds
    rows: int
    total: int

    @property
    def begun(self) -> bool:
        return bool(self.loaded)

    @property
    def complete(self) -> bool:
        return all(set(self.loaded.get(table, ("",))) == {EVERYTHING} for table in self.tables)

    def holds(self, table: int) -> bool:
        """Whether some of a table has come in, so that its log matters."""
        return any(self.loaded.get(table, ()))


def in_chunks(root: Node) -> bool:
    """Whether a plan may be fed chunk by chunk.

    Not with operators that compute whole groups again: each chunk would do so for most groups, and what they
    answered in between may differ in the last bits from what a shared state holds.
    """
    return all(a.kind != "outputs" for _, kept in arrangements(root) for a in kept)


def progress(store: Store, name: str) -> Progress:
    found = store.document(f"loaded:{name}") or {"bounds": {}, "rows": 0}
    return Progress(bounds_from_json(found["bounds"]), found["rows"], tuple(found.get("failures", ())))


def current(store: Store, listed: Sequence[Build]) -> list[Build]:
    """Builds as far as they are now, without those that were given up."""
    found = []
    for build in listed:
        document = store.document(f"{PREFIX}{build.name}")
        if document is not None and not document["failed"]:
            at = progress(store, build.name)
            found.append(replace(build, loaded=at.loaded, rows=at.rows))
    return found


def moved(build: Build, load: Load) -> dict[str, Any]:
    """The document that moves a build's bounds past a chunk, and lets go of failures before it."""
    return {f"loaded:{build.name}": {"bounds": bounds_to_json(load.coming), "rows": build.rows + load.rows}}


def stumbled(store: Store, name: str, reason: str) -> bool:
    """Note a failure that may pass; whether it was one too many and the build is given up."""
    at = progress(store, name)
    failures = [*at.failures, reason]
    if len(failures) >= TRIES:
        failed(store, name, f"{reason} (as the last of {len(failures)} failures in a row)")
        return True
    document = {"bounds": bounds_to_json(at.loaded), "rows": at.rows, "failures": failures}
    store.change_documents({f"loaded:{name}": document})
    return False


def failed(store: Store, name: str, reason: str) -> None:
    """Give a build up: its states become leftovers, and it stays visible with the reason."""
    found = store.document(f"{PREFIX}{name}")
    states = [*(v["state"] for v in found["views"]), *found["states"].values()]
    store.change_documents(
        {
            f"{PREFIX}{name}": {**found, "failed": reason, "owner": None, "states": {}},
            f"loaded:{name}": None,
            "dropping": [*(store.document("dropping") or []), *([state, 0] for state in states)],
        }
    )


def owner() -> dict[str, Any]:
    return me()


def owned(found: Mapping[str, Any]) -> bool:
    """Whether the process that builds is alive, as far as can be told."""
    by = found["owner"]
    return by is not None and lives(by)


def order(tables: Sequence[int], rows: Mapping[int, int]) -> tuple[int, ...]:
    """Small tables first: what is joined to the large ones is there when these come."""
    return tuple(sorted(tables, key=lambda t: (rows[t], t)))
