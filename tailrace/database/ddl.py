"""Executes SQL statements: creates, alters, drops and describes tables and views, and runs queries."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

import pyarrow as pa

from tailrace import types
from tailrace.catalog.catalog import Catalog, known_names
from tailrace.catalog.definition import ViewDef
from tailrace.catalog.pinned import pinned_relations
from tailrace.database.alter import Alterations
from tailrace.database.progress import OnStep, Step, ignore_step
from tailrace.database.show_create import show_create
from tailrace.errors import BeingBuilt, BuildFailed, NameTaken, SqlError, UnknownName
from tailrace.plan.sql.altering import AddColumns, DropColumn, Rename, RenameColumn, ShowCreate
from tailrace.plan.sql.statements import CreateTable, CreateView, Describe, Drop, Query, Show, Statement, parse
from tailrace.store.base import Store
from tailrace.store.locks import EpochLock

if TYPE_CHECKING:
    from tailrace.database.database import Database
    from tailrace.database.define import Names, ViewDefiner
    from tailrace.database.view_builder import Builder

TOGETHER = 200  # maximum number of views that are built in one job


class StatementRunner:
    """Executes the statements of a text in order. A statement that fails changes nothing.

    Consecutive CREATE VIEW statements over small tables are built in one job.
    """

    def __init__(
        self,
        db: Database,
        store: Store,
        catalog: Catalog,
        lock: EpochLock,
        builder: Callable[[], Builder],
        progress: OnStep | None = None,
    ) -> None:
        self._db, self._store, self._catalog, self._lock, self._make_builder = db, store, catalog, lock, builder
        self._on_step = progress or ignore_step

    @cached_property
    def _builder(self) -> Builder:
        return self._make_builder()

    @cached_property
    def _definer(self) -> ViewDefiner:
        from tailrace.database.define import ViewDefiner

        return ViewDefiner(self._db.spark)

    def run(self, text: str) -> pa.Table | None:
        """Returns the rows of the last statement, if it has any."""
        result, remaining = None, parse(text)
        while remaining:
            done = self._create_together(list(takewhile(_is_plain_create_view, remaining[:TOGETHER])))
            if not done:
                done = 1
                try:
                    result = self._run(remaining[0])
                except RecursionError:
                    raise SqlError(message="the statement is nested too deeply; nothing was changed") from None
            remaining = remaining[done:]
        return result

    def _run(self, statement: Statement) -> pa.Table | None:
        match statement:
            case Query(sql):
                return self.query(sql)
            case Show("tables"):
                return self._name_column(sorted(self._catalog.tables))
            case Show():
                return self._name_column(sorted(self._catalog.views))
            case Describe(name):
                return self._describe(name)
            case CreateTable():
                self._create_table(statement)
            case CreateView():
                self._create_view(statement)
            case Drop():
                self._drop(statement)
            case AddColumns() | DropColumn() | RenameColumn() | Rename():
                Alterations(self._store, self._catalog, self._lock, lambda: self._definer).run(statement)
            case ShowCreate():
                return show_create(self._catalog.relations, statement)
        return None

    @staticmethod
    def _name_column(names: list[str]) -> pa.Table:
        return pa.table({"name": pa.array(names, pa.string())})

    def _describe(self, name: str) -> pa.Table:
        key: list[str]
        if name in self._catalog.views:
            view = self._catalog.views[name]
            columns, key = view.columns, view.key_names or []
        else:
            table = self._catalog.tables.get(name)
            if table is None:
                hint = known_names([*self._catalog.tables, *self._catalog.views])
                raise UnknownName(kind="table or view", name=name, hint=hint)
            columns, key = table.columns, list(table.key)
        return pa.table(
            {
                "column": pa.array([c.name for c in columns], pa.string()),
                "type": pa.array([c.type for c in columns], pa.string()),
                "key": pa.array([c.name in key for c in columns], pa.bool_()),
            }
        )

    # tables

    def _create_table(self, statement: CreateTable) -> None:
        with self._lock.held():
            if self._exists(statement.name, statement.if_not_exists):
                return
            if statement.name in self._catalog.builds:
                how = "under this name; choose another name for the table, or drop the view"
                raise BeingBuilt(name=statement.name, how=how)
            for column in statement.columns:
                types.arrow(column.type)
            self._catalog.add_table(statement.name, statement.columns, statement.key, statement.defaults)

    def _exists(self, name: str, if_not_exists: bool) -> bool:
        """Whether a table or view has this name. Raises `NameTaken` unless the statement says IF NOT EXISTS."""
        kind = "view" if name in self._catalog.views else "table" if name in self._catalog.tables else None
        if kind and not if_not_exists:
            raise NameTaken(kind=kind, name=name)
        return kind is not None

    def _drop(self, statement: Drop) -> None:
        known = self._catalog.views if statement.kind == "view" else self._catalog.tables
        in_build = statement.kind == "view" and statement.name in self._catalog.builds
        if statement.name not in known and not in_build and statement.if_exists:
            return
        for making in self._catalog.builds.values():
            if statement.name != making.name and statement.name in {v.name for v in making.unpublished.views}:
                how = f"again, because view {making.name!r} is being replaced; wait until that build ends"
                raise BeingBuilt(name=statement.name, how=how)
        if in_build:
            self._builder.discard(statement.name)
            if statement.name not in known:
                return
        with self._lock.held():
            if statement.cascade:
                self._refuse_cascade_into_builds(statement.name)
            if statement.kind == "table":
                self._catalog.drop_table(statement.name, cascade=statement.cascade)
            else:
                self._catalog.drop_view(statement.name, cascade=statement.cascade)
            self._catalog.clear_leftovers()

    def _refuse_cascade_into_builds(self, name: str) -> None:
        """Raises `BeingBuilt` if a build reads the table or view, or a view that would be dropped with it."""
        dropped = {name, *(v.name for v in self._catalog.readers(name))}
        for making in self._catalog.builds.values():
            if not making.failed and any(dropped & {v.name, *v.uses} for v in making.unpublished.views):
                how = (
                    f"and reads what this statement would drop; wait until that build ends, or DROP VIEW {making.name}"
                )
                raise BeingBuilt(name=making.name, how=how)

    # views

    def _create_view(self, statement: CreateView) -> None:
        if self._view_exists(statement):
            return
        number = self._resume_build(statement)
        if number is None:
            self._on_step(Step("planning"))
            version = self._catalog.version
            views = self._define(statement)
            with self._lock.held():
                if self._view_exists(statement):
                    return
                if self._catalog.version != version:  # tables and views may have changed since the planning
                    views = self._define(statement)
                self._refuse_while_building(views)
                number = self._builder.start(views, self._replaces(statement), self._on_step)
                if number is None:
                    return
        self._builder.finish(statement.name, number, self._on_step)

    def _create_together(self, statements: Sequence[Statement]) -> int:
        """Create as many leading views as possible in one job. Returns how many were created: 0, or at least 2.

        After an error the caller runs the statements one by one, so that each reports its own error.
        """
        version = self._catalog.version
        views: dict[str, ViewDef] = {}
        for statement in statements if len(statements) > 1 else ():
            assert isinstance(statement, CreateView)
            name, names = statement.name, self._names_with(ChainMap(views, self._catalog.views))
            if name in names.views or name in names.tables:
                break
            try:
                views[name] = self._definer.define(names, statement)
            except (SqlError, RecursionError):
                break
        definitions = list(views.values())
        if len(definitions) < 2 or not self._builder.is_small(definitions):
            return 0
        with self._lock.held():
            if self._catalog.version != version or self._catalog.builds:
                return 0
            try:
                self._builder.start(definitions, False, self._on_step)
            except BuildFailed:
                return 0
        return len(definitions)

    def _view_exists(self, statement: CreateView) -> bool:
        if self._replaces(statement):
            if statement.if_not_exists:
                raise SqlError(message="OR REPLACE and IF NOT EXISTS exclude each other; use one of them")
            return False
        return self._exists(statement.name, statement.if_not_exists)

    def _replaces(self, statement: CreateView) -> bool:
        return statement.or_replace and statement.name in self._catalog.views

    def _refuse_while_building(self, views: list[ViewDef]) -> None:
        """Raises `BeingBuilt` if a running build reads one of these views, or the other way round.

        A build was planned over the views that existed when it began. Replacing one of them would invalidate it.
        """
        names = {v.name for v in views}
        used = {u for v in views for u in v.uses}
        for making in self._catalog.builds.values():
            build_names = {v.name for v in making.unpublished.views}
            build_uses = {u for v in making.unpublished.views for u in v.uses}
            if not making.failed and (used & build_names or build_uses & names or build_names & names):
                wait = "wait until that build ends"
                if not making.replaces:  # dropping a view that is being replaced would drop the published one
                    wait += f", or DROP VIEW {making.name} to discard it"
                how = f"and is connected with view {views[0].name!r}; {wait}"
                raise BeingBuilt(name=making.name, how=how)

    def _resume_build(self, statement: CreateView) -> int | None:
        """Takes over an interrupted build of the same view. Returns its number; None if no build can be resumed."""
        making = self._catalog.builds.get(statement.name)
        if making is None:
            return None
        if making.failed:
            self._builder.discard(statement.name)
            return None
        if self._builder.is_running(making):
            how = f"by process {making.pid}; wait for that process or stop it"
            raise BeingBuilt(name=statement.name, how=how, pid=making.pid)
        view = making.unpublished.views[0]
        requested = (statement.query_sql, statement.refresh, self._replaces(statement))
        if (view.sql, view.refresh, making.replaces) != requested:
            finish = f"run refresh to finish that build, or DROP VIEW {statement.name} to discard it"
            if making.replaces:  # DROP VIEW would drop the published view
                finish = "run refresh to finish that build first"
            raise BeingBuilt(name=statement.name, how=f"with another definition; {finish}")
        self._builder.take_over(statement.name)
        return making.number

    def _define(self, statement: CreateView) -> list[ViewDef]:
        names = self._names_with(self._catalog.views)
        if self._replaces(statement):
            return self._definer.redefine(names, statement)
        return [self._definer.define(names, statement)]

    def _names_with(self, views: Mapping[str, ViewDef]) -> Names:
        from tailrace.database.define import Names

        return Names(self._catalog.tables, views, self._store.hashes_keys)

    # queries

    def query(self, text: str) -> pa.Table:
        with pinned_relations(self._store, self._catalog) as (pin, relations):
            from tailrace.database.query import answer_query

            return answer_query(self._db.spark, self._store, relations, text, pin)


def _is_plain_create_view(statement: Statement) -> bool:
    return isinstance(statement, CreateView) and not statement.or_replace and not statement.if_not_exists
