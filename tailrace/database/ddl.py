"""Running SQL statements against a store."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

import pyarrow as pa

from tailrace import types
from tailrace.catalog.catalog import Catalog
from tailrace.catalog.definition import ViewDef
from tailrace.catalog.pinned import pinned_relations
from tailrace.database.progress import Say, Step
from tailrace.errors import BeingBuilt, BuildFailed, NameTaken, SqlError, UnknownName
from tailrace.plan.sql.statements import CreateTable, CreateView, Describe, Drop, Query, Show, Statement, parse
from tailrace.store.base import Store
from tailrace.store.locks import EpochLock

if TYPE_CHECKING:
    from tailrace.database.creation import Builder
    from tailrace.database.database import Database
    from tailrace.database.define import Analyst, Names


TOGETHER = 200  # views that are built in one job


class Runner:
    """Carries out statements; nothing is changed by one that fails.

    Views over small tables that are created one after another are built together.
    """

    def __init__(
        self,
        db: Database,
        store: Store,
        catalog: Catalog,
        lock: EpochLock,
        builder: Callable[[], Builder],
        progress: Say | None = None,
    ) -> None:
        self._db, self._store, self._catalog, self._lock, self._make_builder = db, store, catalog, lock, builder
        self._say = progress or (lambda _: None)

    @cached_property
    def _builder(self) -> Builder:
        return self._make_builder()

    @cached_property
    def _analyst(self) -> Analyst:
        from tailrace.database.define import Analyst

        return Analyst(self._db.spark)

    def run(self, text: str) -> pa.Table | None:
        result, left = None, parse(text)
        while left:
            done = self._create_views(list(takewhile(_is_plain, left[:TOGETHER])))
            if not done:
                done = 1
                try:
                    result = self._run(left[0])
                except RecursionError:
                    raise SqlError(message="the statement is nested too deeply; nothing was changed") from None
            left = left[done:]
        return result

    def _run(self, statement: Statement) -> pa.Table | None:
        match statement:
            case Query(sql):
                return self.query(sql)
            case Show("tables"):
                return self._names(sorted(self._catalog.tables))
            case Show():
                return self._names(sorted(self._catalog.views))
            case Describe(name):
                return self._describe(name)
            case CreateTable():
                self._create_table(statement)
            case CreateView():
                self._create_view(statement)
            case Drop():
                self._drop(statement)
        return None

    @staticmethod
    def _names(names: list[str]) -> pa.Table:
        return pa.table({"name": pa.array(names, pa.string())})

    def _describe(self, name: str) -> pa.Table:
        key: list[str]
        if name in self._catalog.views:
            view = self._catalog.views[name]
            columns, key = view.columns, view.key_names or []
        else:
            table = self._catalog.tables.get(name)
            if table is None:
                raise UnknownName(kind="table or view", name=name)
            columns, key = table.columns, list(table.key)
        return pa.table(
            {
                "column": pa.array([c.name for c in columns], pa.string()),
                "type": pa.array([c.type for c in columns], pa.string()),
                "key": pa.array([c.name in key for c in columns], pa.bool_()),
            }
        )

    # tables

    def _create_table(self, wanted: CreateTable) -> None:
        with self._lock.held():
            if self._taken(wanted.name, wanted.if_not_exists):
                return
            if wanted.name in self._catalog.builds:
                raise BeingBuilt(name=wanted.name, how="as a view; choose another name, or drop that")
            for column in wanted.columns:
                types.arrow(column.type)
            self._catalog.add_table(wanted.name, wanted.columns, wanted.key)

    def _taken(self, name: str, tolerated: bool) -> bool:
        kind = "view" if name in self._catalog.views else "table" if name in self._catalog.tables else None
        if kind and not tolerated:
            raise NameTaken(kind=kind, name=name)
        return kind is not None

    def _drop(self, wanted: Drop) -> None:
        known = self._catalog.views if wanted.kind == "view" else self._catalog.tables
        coming = wanted.kind == "view" and wanted.name in self._catalog.builds
        if wanted.name not in known and not coming and wanted.if_exists:
            return
        for making in self._catalog.builds.values():
            if wanted.name != making.name and wanted.name in {v.name for v in making.unpublished.views}:
                raise BeingBuilt(name=wanted.name, how=f"again, with {making.name!r}; wait for it, or drop that")
        if coming:
            self._builder.forget(wanted.name)
            if wanted.name not in known:
                return
        with self._lock.held():
            if wanted.kind == "table":
                self._catalog.drop_table(wanted.name)
            else:
                self._catalog.drop_view(wanted.name)
            self._catalog.clear_leftovers()

    # views

    def _create_view(self, wanted: CreateView) -> None:
        if self._view_taken(wanted):
            return
        number = self._taken_over(wanted)
        if number is None:
            self._say(Step("planning"))
            version = self._catalog.version
            views = self._defined(wanted)
            with self._lock.held():
                if self._view_taken(wanted):
                    return
                if self._catalog.version != version:  # what it reads may have been dropped meanwhile
                    views = self._defined(wanted)
                self._refuse_while_building(views)
                number = self._builder.start(views, self._replaces(wanted), self._say)
                if number is None:
                    return
        self._builder.finish(wanted.name, number, self._say)

    def _create_views(self, wanted: Sequence[Statement]) -> int:
        """Create the first of these views in one go, as many as can be; their number.

        One that fails is left to be met by itself when those before it are there.
        """
        version = self._catalog.version
        views: dict[str, ViewDef] = {}
        for statement in wanted if len(wanted) > 1 else ():
            assert isinstance(statement, CreateView)
            name, names = statement.name, self._names_of(ChainMap(views, self._catalog.views))
            if name in names.views or name in names.tables:
                break
            try:
                views[name] = self._analyst.define(names, statement)
            except (SqlError, RecursionError):
                break
        made = list(views.values())
        if len(made) < 2 or not self._builder.few(made):
            return 0
        with self._lock.held():
            if self._catalog.version != version or self._catalog.builds:
                return 0
            try:
                self._builder.start(made, False, self._say)
            except BuildFailed:
                return 0
        return len(made)

    def _view_taken(self, wanted: CreateView) -> bool:
        if self._replaces(wanted):
            if wanted.if_not_exists:
                raise SqlError(message="say OR REPLACE or IF NOT EXISTS, not both")
            return False
        return self._taken(wanted.name, wanted.if_not_exists)

    def _replaces(self, wanted: CreateView) -> bool:
        return wanted.or_replace and wanted.name in self._catalog.views

    def _refuse_while_building(self, views: list[ViewDef]) -> None:
        """Views that are being built were planned over others as these are: neither may change the other's."""
        names = {v.name for v in views}
        for making in self._catalog.builds.values():
            theirs = {v.name for v in making.unpublished.views}
            used = {u for v in views for u in v.uses} & theirs | {
                u for v in making.unpublished.views for u in v.uses
            } & names
            if not making.failed and (used or theirs & names):
                raise BeingBuilt(name=making.name, how="and one of them reads the other; wait for it, or drop it")

    def _taken_over(self, wanted: CreateView) -> int | None:
        """The build of the same view that was left, with which the statement goes on, if there is one."""
        making = self._catalog.builds.get(wanted.name)
        if making is None:
            return None
        if making.failed:
            self._builder.forget(wanted.name)
            return None
        if self._builder.busy(making):
            raise BeingBuilt(name=wanted.name, how=f"by process {making.pid}; wait for it or stop it", pid=making.pid)
        begun = making.unpublished.views[0]
        if (begun.sql, begun.refresh, making.replaces) != (wanted.query_sql, wanted.refresh, self._replaces(wanted)):
            how = f"with another definition; refresh to finish it, or DROP VIEW {wanted.name}"
            raise BeingBuilt(name=wanted.name, how=how)
        self._builder.take_over(wanted.name)
        return making.number

    def _defined(self, wanted: CreateView) -> list[ViewDef]:
        names = self._names_of(self._catalog.views)
        if self._replaces(wanted):
            return self._analyst.redefine(names, wanted)
        return [self._analyst.define(names, wanted)]

    def _names_of(self, views: Mapping[str, ViewDef]) -> Names:
        from tailrace.database.define import Names

        return Names(self._catalog.tables, views, self._store.hashes_keys)

    # queries

    def query(self, text: str) -> pa.Table:
        with pinned_relations(self._store, self._catalog) as (pin, relations):
            from tailrace.database.query import answer

            return answer(self._db.spark, self._store, relations, text, pin)


def _is_plain(statement: Statement) -> bool:
    return isinstance(statement, CreateView) and not statement.or_replace and not statement.if_not_exists
