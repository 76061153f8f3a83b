"""Views whose SQL must follow when a table, view or column is renamed, and views that need a column.

A changed text is accepted only if its plan is the same as before: the same fingerprint, order and output columns. So
states and rows of the view stay valid. A view without a plan has no such proof. Its text is changed only where the
change cannot matter: a table that gets an alias with its old name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tailrace.catalog.definition import ViewDef
from tailrace.codec.layouts import Layout
from tailrace.codec.schema import TableDef
from tailrace.database.define import Names, PlannedQuery, ViewDefiner
from tailrace.delta import column
from tailrace.errors import SqlError, Unsupported
from tailrace.plan.build.edits import add_aliases, rename_column, rename_relation
from tailrace.plan.build.followed import FollowedName
from tailrace.plan.joining import renamed as with_names
from tailrace.plan.nodes import Node, Project, Scan, map_inputs
from tailrace.plan.sql.frozen import mentions
from tailrace.plan.sql.statements import parse_query
from tailrace.types import Column


class ViewRewriter:
    """Rewrites views from the names `before` a change to those `after` it. `what` is the change, for errors."""

    def __init__(self, definer: ViewDefiner, before: Names, after: Names, what: str) -> None:
        self._definer, self._before, self._after, self._what = definer, before, after, what

    def with_relation(self, view: ViewDef, old: str, new: str) -> ViewDef:
        """A view that reads a table or view by its new name."""
        try:
            sql = rename_relation(view.sql, parse_query(view.sql), old, new)
            uses = tuple(sorted(new if name == old else name for name in view.uses))
            if view.root is None:
                same = self._analyzed(self._after, view, sql, uses) == view.columns
            else:
                same = self._is_same(view, self._plan(self._before, view, view.sql), sql)
        except SqlError as error:
            raise self._refusal(view, str(error)) from error
        if not same:
            raise self._refusal(view, "its plan would change")
        return replace(view, sql=sql, uses=uses)

    def with_column(self, view: ViewDef, table: TableDef, old: str, new: str) -> ViewDef:
        """A view that reads a column of `table` (before the change) by its new name, and keeps its own column names."""
        if view.root is None:
            if mentions(parse_query(view.sql), [old, new]):
                raise self._refusal(view, "it has no plan, so nothing proves that another text means the same")
            return view
        try:
            sql = self._text_with_column(view, table, old, new)
            same = self._is_same(view, self._plan(self._before, view, view.sql), sql)
        except SqlError as error:
            raise self._refusal(view, str(error)) from error
        if not same:
            raise self._refusal(view, "its plan would change")
        return replace(view, sql=sql)

    def needs(self, view: ViewDef, column: str) -> bool:
        """Whether a view means something else, or nothing, without a column that `after` lacks."""
        if view.root is None:
            return mentions(parse_query(view.sql), [column])
        before = self._plan(self._before, view, view.sql)
        try:
            return not self._is_same(view, before, view.sql)
        except SqlError:
            return True

    def _text_with_column(self, view: ViewDef, table: TableDef, old: str, new: str) -> str:
        followed, query = FollowedName(old), parse_query(view.sql)
        columns = tuple(c._replace(name=followed) if c.name == old else c for c in table.columns)
        key = tuple(followed if k == old else k for k in table.key)
        traced = replace(table, columns=columns, key=key, layout=_followed_layout(table, old, followed))
        names = replace(self._before, tables={**self._before.tables, table.name: traced})
        self._definer.plan(names.known_to(view), query, view.sql)
        sql = rename_column(view.sql, query, followed, new)
        shown = self._analyzed(self._after, view, sql, view.uses)
        if shown == view.columns:
            return sql
        aliases = [c.name if c.name != s.name else None for c, s in zip(view.columns, shown, strict=True)]
        return add_aliases(sql, aliases)

    def _plan(self, names: Names, view: ViewDef, sql: str) -> PlannedQuery:
        return self._definer.plan(names.known_to(view), parse_query(sql), sql)

    def _analyzed(self, names: Names, view: ViewDef, sql: str, uses: Sequence[str]) -> tuple[Column, ...]:
        return self._definer.analyze(names.known_to(view), sql, tuple(uses))

    def _is_same(self, view: ViewDef, before: PlannedQuery, sql: str) -> bool:
        """Whether a text over the names after the change has the plan that the view's text had before."""
        after = self._plan(self._after, view, sql)
        return (
            _unnamed(after.built.node).fingerprint == _unnamed(before.built.node).fingerprint
            and after.built.order == before.built.order
            and after.columns == before.columns == view.columns
        )

    def _refusal(self, view: ViewDef, reason: str) -> Unsupported:
        advice = "replace or drop that view first; nothing was changed"
        return Unsupported(construct=f"{self._what} under view {view.name!r}", reason=f"{reason}; {advice}")


def _followed_layout(table: TableDef, old: str, followed: FollowedName) -> Layout | None:
    if table.layout is None:
        return None
    columns = tuple(replace(c, name=followed) if c.name == old and not c.dropped else c for c in table.layout.columns)
    return replace(table.layout, columns=columns)


def _unnamed(root: Node) -> Node:
    """A plan without a last projection that only names its columns."""
    if isinstance(root, Project) and root.expressions == tuple(column(i) for i in range(len(root.input.columns))):
        return root.input
    return root


def rename_scans(root: Node, table: TableDef) -> Node:
    """A plan that reads a table by its current names, and has the same columns as before."""

    def renamed(node: Node) -> Node:
        if isinstance(node, Scan) and node.table_id == table.id:
            return replace(node, table=table.name, table_columns=table.stored[: len(node.table_columns)])
        return map_inputs(node, renamed)

    current, names = renamed(root), [c.name for c in root.columns]
    return current if [c.name for c in current.columns] == names else with_names(current, names)
