"""Executes SQL statements: creates, alters, drops and describes tables and views, and runs queries."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import structs

from tailrace import types
from tailrace.catalog.catalog import Catalog, known_names
from tailrace.catalog.definition import ViewDef
from tailrace.catalog.failed import FailedView, unbuilt, view_failed
from tailrace.catalog.pinned import pinned_relations
from tailrace.catalog.retention import Retention
from tailrace.database.alter import Alterations
from tailrace.database.freshness import Freshness, measure_freshness
from tailrace.database.outcome import Outcome
from tailrace.database.planned_change import planned
from tailrace.database.progress import OnStep, Step, ignore_step
from tailrace.database.show_create import show_create
from tailrace.errors import BeingBuilt, BuildFailed, NameTaken, SqlError, UnknownName, ViewFailed
from tailrace.plan.sql.altering import AddColumns, DropColumn, Rename, RenameColumn, ShowCreate
from tailrace.plan.sql.statements import (
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Located,
    Query,
    Show,
    Statement,
    parse_located,
)
from tailrace.store.base import Store
from tailrace.store.locks import EpochLock

if TYPE_CHECKING:
    from tailrace.database.database import Database
    from tailrace.database.define import Names, ViewDefiner
    from tailrace.database.view_builder import Builder

TOGETHER = 200  # maximum number of views that are built in one job


class StatementRunner:
    """Executes the statements of a text in order. A statement that fails changes nothing.

    Consecutive CREATE VIEW statements over small tables are built in one job. With `fresh`, queries of views catch up
    with the tables first.
    """

    def __init__(
        self,
        db: Database,
        store: Store,
        catalog: Catalog,
        lock: EpochLock,
        builder: Callable[[], Builder],
        progress: OnStep | None = None,
        fresh: bool = False,
    ) -> None:
        self._db, self._store, self._catalog, self._lock, self._make_builder = db, store, catalog, lock, builder
        self._on_step, self._fresh = progress or ignore_step, fresh

    @cached_property
    def _builder(self) -> Builder:
        return self._make_builder()

    @cached_property
    def _definer(self) -> ViewDefiner:
        from tailrace.database.define import ViewDefiner

        return ViewDefiner(self._db.spark)

    def run(self, text: str) -> Iterator[Outcome]:
        """Runs statement after statement; yields the outcome of each. All but queries are parsed before the first."""
        remaining, together = parse_located(text), TOGETHER
        while remaining:
            plain = [located.statement for located in takewhile(_is_plain_create_view, remaining[:together])]
            try:
                done = self._create_together(plain)
            except BuildFailed:  # one of them cannot be built: fewer together, down to the one that cannot
                together = len(plain) // 2
                continue
            for located in remaining[:done]:
                yield _outcome(located, message=f"created view {located.statement.name}")  # type: ignore[union-attr]
            if not done:
                done = 1
                yield self._run_located(remaining[0])
            remaining = remaining[done:]

    def _run_located(self, located: Located) -> Outcome:
        """Runs one statement. Its error has the place of the statement, unless it has a more exact one."""
        try:
            return self._run(located)
        except RecursionError:
            message = "the statement is nested too deeply; nothing was changed"
            raise SqlError(message=message, line=located.line, column=located.column) from None
        except SqlError as error:
            if error.data.get("line"):
                raise
            raise type(error)(**error.data, line=located.line, column=located.column) from error

    def _run(self, located: Located) -> Outcome:
        match located.statement:
            case Query(sql):
                padding = "\n" * (located.line - 1) + " " * (located.column - 1)  # errors have places in the whole text
                rows, freshness = self.query(padding + sql)
                return _outcome(located, rows=rows, freshness=freshness)
            case Show("tables"):
                return _outcome(located, rows=self._name_column(sorted(self._catalog.tables)))
            case Show():
                return _outcome(located, rows=self._name_column(sorted(self._catalog.views)))
            case Describe(name):
                return _outcome(located, rows=self._describe(name))
            case ShowCreate() as statement:
                return _outcome(located, rows=show_create(self._catalog, statement))
            case CreateTable() as statement:
                return _outcome(located, message=self._create_table(statement))
            case CreateView() as statement:
                return _outcome(located, message=self._create_view(statement))
            case Drop() as statement:
                return _outcome(located, message=self._drop(statement))
            case AddColumns() | DropColumn() | RenameColumn() | Rename() as statement:
                alterations = Alterations(self._store, self._catalog, self._lock, lambda: self._definer)
                return _outcome(located, message=alterations.run(statement))

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

    def _create_table(self, statement: CreateTable) -> str:
        """Returns what was done, as `_create_view` and `_drop` do."""
        with self._lock.held():
            if self._exists(statement.name, statement.if_not_exists):
                return f"{statement.name} exists already"
            if statement.name in self._catalog.builds:
                how = "under this name; choose another name for the table, or drop the view"
                raise BeingBuilt(name=statement.name, how=how)
            for column in statement.columns:
                types.arrow(column.type)
            ttl = statement.ttl
            retention = None if ttl is None else Retention(ttl.column, ttl.micros)
            self._catalog.add_table(
                statement.name, statement.columns, statement.key, statement.defaults, retention, statement.place
            )
        return f"created table {statement.name}"

    def _exists(self, name: str, if_not_exists: bool) -> bool:
        """Whether a table or view has this name. Raises `NameTaken` unless the statement says IF NOT EXISTS."""
        kind = "view" if name in self._catalog.views else "table" if name in self._catalog.tables else None
        if kind and not if_not_exists:
            raise NameTaken(kind=kind, name=name)
        return kind is not None

    def _drop(self, statement: Drop) -> str:
        known = self._catalog.views if statement.kind == "view" else self._catalog.tables
        in_build = statement.kind == "view" and statement.name in self._catalog.builds
        if statement.name not in known and not in_build and statement.if_exists:
            return f"no {statement.kind} named {statement.name}"
        for making in self._catalog.builds.values():
            if statement.name != making.name and statement.name in {v.name for v in making.unpublished.views}:
                how = f"again, because view {making.name!r} is being replaced; wait until that build ends"
                raise BeingBuilt(name=statement.name, how=how)
        if in_build:
            self._builder.discard(statement.name)
            if statement.name not in known:
                return f"discarded the build of view {statement.name}"
        with self._lock.held():
            if statement.cascade:
                self._refuse_cascade_into_builds(statement.name)
            if statement.kind == "table":
                self._catalog.drop_table(statement.name, cascade=statement.cascade)
            else:
                self._catalog.drop_view(statement.name, cascade=statement.cascade)
            self._catalog.clear_leftovers()
        return f"dropped {statement.kind} {statement.name}"

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

    def _create_view(self, statement: CreateView) -> str:
        if self._view_exists(statement):
            return f"{statement.name} exists already"
        done = f"{'replaced' if self._replaces(statement) else 'created'} view {statement.name}"
        number = self._resume_build(statement)
        if number is None:
            self._on_step(Step("planning"))
            with planned(self._catalog, self._lock, lambda: self._define(statement)) as views:
                if self._view_exists(statement):
                    return f"{statement.name} exists already"
                self._refuse_over_failed(views)
                self._refuse_while_building(views)
                number = self._builder.start(views, self._replaces(statement), self._on_step)
                if number is None:
                    return done
        self._builder.finish(statement.name, number, self._on_step)
        return done

    def create_failed(self, text: str, error: BuildFailed | ViewFailed) -> None:
        """Creates a view without rows, as one that has failed. It is built when the cause of the error is gone.

        If it reads a failed view, it fails because of that view.
        """
        (statement,) = (located.statement for located in parse_located(text))
        assert isinstance(statement, CreateView)
        with self._lock.held():
            view = self._definer.define(self._names_with(self._catalog.views), statement)
            failed = self._catalog.failed
            root = next((failed[name].because or name for name in view.uses if name in failed), "")
            why = unbuilt(self._store, error.reason)
            if root:  # the reason is searched for once, for the view that it reads
                why = structs.replace(failed[root], because=root, built=False, held=False, diagnosed=True)
            self._catalog.publish_failed(view, why)

    def _create_together(self, statements: Sequence[Statement]) -> int:
        """Create as many leading views as possible in one job. Returns how many were created: 0, or at least 2.

        Raises `BuildFailed` if one of them cannot be built; then none is created. After any other error the caller runs
        the statements one by one, so that each reports its own error.
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
                self._refuse_over_failed([views[name]])
            except (SqlError, ViewFailed, RecursionError):
                break
        definitions = list(views.values())
        if len(definitions) < 2 or not self._builder.is_small(definitions):
            return 0
        self._builder.warm_up()
        with self._lock.held():
            if self._catalog.version != version or self._catalog.builds:
                return 0
            self._builder.start(definitions, False, self._on_step)
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
        """Plans a view, and the views over it if it is replaced. Also starts what their build needs."""
        names = self._names_with(self._catalog.views)
        if self._replaces(statement):
            views = self._definer.redefine(names, statement)
        else:
            views = [self._definer.define(names, statement)]
        self._builder.warm_up()
        return views

    def _refuse_over_failed(self, views: Sequence[ViewDef]) -> None:
        """Raises `ViewFailed` if new views would read a failed one: they would not have the rows that it shows."""
        failed, new = self._catalog.failed, {v.name for v in views}
        for name in (used for view in views for used in view.uses):
            if name in failed and name not in new:
                raise view_failed(name, failed[name])

    def _names_with(self, views: Mapping[str, ViewDef]) -> Names:
        from tailrace.database.define import Names

        return Names(self._catalog.tables, views, self._store.hashes_keys)

    # queries

    def query(self, text: str) -> tuple[pa.Table, Freshness | None]:
        """The rows of a query, and, if it reads views, the state of the views that it read.

        All tables and views are read at one cut: the committed one if there are views, else the newest. A view that has
        failed shows an earlier one; with `fresh`, it raises `ViewFailed`.
        """
        from tailrace.database.query import SelectQuery, answer_query

        query = SelectQuery.parse(text)
        names = query.names
        if self._fresh and names & self._catalog.views.keys():
            self._db.catch_up()
        elif names.isdisjoint(self._catalog.views):
            self._store.catch_up()
        with pinned_relations(self._store, self._catalog) as (pin, relations):
            newest = self._store.newest_cut()
            reads_views = bool(names & relations.views.keys())
            failed = {name: f for name, f in self._catalog.failed.items() if name in names}
            self._refuse_stale(failed)
            freshness = measure_freshness(self._store, pin, newest, failed) if reads_views else None
            cut = pin.cut if reads_views else newest
            return answer_query(self._db.spark, self._store, relations, query, pin.epoch, cut), freshness

    def _refuse_stale(self, failed: Mapping[str, FailedView]) -> None:
        """Raises `ViewFailed` if a query reads a failed view, and must have fresh rows or would get none."""
        for name, view in failed.items():
            if self._fresh or not view.built:
                raise view_failed(name, view)


def _is_plain_create_view(located: Located) -> bool:
    statement = located.statement
    return isinstance(statement, CreateView) and not statement.or_replace and not statement.if_not_exists


def _outcome(
    located: Located, message: str = "", rows: pa.Table | None = None, freshness: Freshness | None = None
) -> Outcome:
    return Outcome(_title(located.statement), located.line, located.column, message, rows, freshness)


def _title(statement: Statement) -> str:
    """The first words of a statement."""
    match statement:
        case Query():
            return "query"
        case Show(what):
            return f"SHOW {what.upper()}"
        case Describe(name):
            return f"DESCRIBE {name}"
        case CreateTable(name):
            return f"CREATE TABLE {name}"
        case CreateView(name):
            return f"CREATE MATERIALIZED VIEW {name}"
        case Drop(kind, name):
            return f"DROP {kind.upper()} {name}"
        case ShowCreate(kind, name):
            return f"SHOW CREATE {kind.upper()} {name}"
        case AddColumns(name) | DropColumn(name) | RenameColumn(name):
            return f"ALTER TABLE {name}"
        case Rename(kind, name):
            return f"ALTER {kind.upper()} {name}"
