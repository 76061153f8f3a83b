"""Definitions of tables and views, and their documents."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tailrace import types
from tailrace.codec.schema import TableDef
from tailrace.errors import Corrupt, Unsupported
from tailrace.plan.nodes import Key, Node, Order, PlanError, from_json, to_json, walk
from tailrace.plan.policy import Refresh
from tailrace.store.documents import Count, Document, Kind, Number
from tailrace.types import Column

if TYPE_CHECKING:  # physical plans need sqlglot, which a process that only reads views never loads
    from tailrace.plan.physical.physical_plan import PhysicalPlan, ViewSink


class TableDocument(Document, frozen=True):
    id: Number
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]


class ViewDocument(Document, frozen=True):
    """A view's definition. `root` is its plan as JSON (`plan/nodes.py`)."""

    name: str
    sql: str
    root: Any
    columns: tuple[Column, ...]
    key: tuple[Count, ...] | None
    place: tuple[Count, ...]
    uses: tuple[str, ...]
    tables: tuple[Number, ...]
    refresh: Refresh
    reason: str
    order: tuple[tuple[Count, bool, bool], ...]
    state: Number
    since: Count


TABLES: Kind[TableDocument] = Kind("table:", TableDocument)
VIEWS: Kind[ViewDocument] = Kind("view:", ViewDocument)


@dataclass(frozen=True)
class ViewDef:
    """A view: its query, its refresh policy, and the order in which it is read.

    `root` is the plan of its query; None if only Spark can run the query, and then `reason` says why.
    `state` is 0 until the catalog assigns a number. The view is readable at epochs from `since` on.
    """

    name: str
    sql: str
    root: Node | None
    columns: tuple[Column, ...]
    key: Key | None
    place: tuple[int, ...]
    uses: tuple[str, ...]
    tables: frozenset[int]
    refresh: Refresh
    reason: str = ""
    order: Order = ()
    state: int = 0
    since: int = 0

    @cached_property
    def key_names(self) -> list[str] | None:
        return None if self.key is None else [self.columns[p].name for p in self.key]

    @cached_property
    def plan(self) -> PhysicalPlan | None:
        """The physical plan that maintains the view; None if every epoch recomputes it."""
        from tailrace.plan.physical.physical_plan import PhysicalPlan

        return None if self.root is None or self.refresh == "full" else PhysicalPlan(self.root, self.key, self.place)

    @cached_property
    def sink(self) -> ViewSink | None:
        """The view as epochs see it; None if every epoch recomputes it."""
        from tailrace.plan.physical.physical_plan import ViewSink

        return None if self.plan is None else ViewSink(self.state, self.plan)

    @property
    def fingerprints(self) -> list[str]:
        """The fingerprints of all states that the view needs besides its own rows."""
        return [] if self.plan is None else self.plan.fingerprints


def table_document(table: TableDef) -> TableDocument:
    return TableDocument(table.id, table.name, table.columns, table.key)


def table_of(document: TableDocument) -> TableDef:
    """Reads a table's document. Raises Corrupt if it is inconsistent."""
    where = f"table {document.name!r}"
    _require_columns(where, document.columns)
    _require(where, bool(document.key) and {*document.key} <= {c.name for c in document.columns}, "invalid key")
    return TableDef(document.id, document.name, document.columns, document.key)


def view_document(view: ViewDef) -> ViewDocument:
    return ViewDocument(
        view.name,
        view.sql,
        to_json(view.root),
        view.columns,
        view.key,
        view.place,
        view.uses,
        tuple(sorted(view.tables)),
        view.refresh,
        view.reason,
        view.order,
        view.state,
        view.since,
    )


def view_of(document: ViewDocument) -> ViewDef:
    """Reads a view's document. Raises Corrupt if it is inconsistent."""
    where = f"view {document.name!r}"
    root = _read_plan(where, document.root)
    _require_columns(where, document.columns)
    column_types = [c.type for c in document.columns]
    _require(where, root is None or [c.type for c in root.columns] == column_types, "inconsistent plan")
    positions = [*(document.key or ()), *document.place, *(p for p, _, _ in document.order)]
    known = all(p < len(column_types) for p in positions)
    _require(where, known, "its key, shard or order columns include one that does not exist")
    return ViewDef(
        document.name,
        document.sql,
        root,
        document.columns,
        document.key,
        document.place,
        document.uses,
        frozenset(document.tables),
        document.refresh,
        document.reason,
        document.order,
        document.state,
        document.since,
    )


def _require_columns(where: str, columns: tuple[Column, ...]) -> None:
    try:
        schema = types.schema(columns)
    except (Unsupported, ValueError, RecursionError) as error:
        raise Corrupt(where=where, reason=f"invalid columns ({error})") from None
    _require(where, len({*schema.names}) == len(columns), "two columns have the same name")


def _require(where: str, condition: bool, reason: str) -> None:
    if not condition:
        raise Corrupt(where=where, reason=reason)


def _read_plan(where: str, document: Any) -> Node | None:
    if document is None:
        return None
    try:
        root = from_json(document)
        for node in walk(root):
            _ = node.columns, node.key  # deriving them fails if a part of the plan is missing
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, RecursionError, PlanError) as error:
        raise Corrupt(where=where, reason=f"inconsistent plan ({type(error).__name__}: {error})") from None
    return root
