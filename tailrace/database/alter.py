"""Executes ALTER TABLE and ALTER VIEW while epochs, builds and writers go on.

Each statement is one change of the catalog: planned while epochs continue, then made under the epoch lock. Rows, logs
and states stay as they are: the layout of a table only grows (`codec/layouts.py`), and plans know columns by position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from tailrace.catalog.catalog import Catalog
from tailrace.catalog.definition import ViewDef
from tailrace.catalog.failed import FAILED, failed_documents, recovered_documents
from tailrace.codec.layouts import MOST_COLUMNS, Layout, StoredColumn
from tailrace.codec.schema import TableDef
from tailrace.database.planned_change import planned
from tailrace.epochs.model import INTENT
from tailrace.errors import BeingBuilt, InUse, NameTaken, SqlError, UnknownName
from tailrace.plan.sql.altering import AddColumns, Alter, DropColumn, Rename, RenameColumn
from tailrace.store.base import Capability, Store
from tailrace.store.locks import EpochLock

if TYPE_CHECKING:
    from tailrace.database.define import Names, ViewDefiner


class Alteration(NamedTuple):
    """A planned statement: what it does, in a few words, and the change of the catalog."""

    done: str
    change: Callable[[], None] = lambda: None


class Alterations:
    """Executes ALTER statements. `definer` plans views; it is asked for only if a view must be planned."""

    def __init__(self, store: Store, catalog: Catalog, lock: EpochLock, definer: Callable[[], ViewDefiner]) -> None:
        self._store, self._catalog, self._lock, self._definer = store, catalog, lock, definer

    def run(self, statement: Alter) -> str:
        """Executes a statement. Returns what it did, in a few words."""
        with planned(self._catalog, self._lock, lambda: self._plan(statement)) as alteration:
            alteration.change()
            return alteration.done

    def _plan(self, statement: Alter) -> Alteration:
        match statement:
            case AddColumns():
                return self._add_columns(statement)
            case DropColumn():
                return self._drop_column(statement)
            case RenameColumn():
                return self._rename_column(statement)
            case Rename("table"):
                return self._rename_table(statement)
            case Rename():
                return self._rename_view(statement)

    def _add_columns(self, statement: AddColumns) -> Alteration:
        table = self._catalog.table(statement.table)
        known = {c.name.lower() for c in table.columns}
        taken = [c.name for c in statement.added.columns if c.name.lower() in known]
        if taken and not statement.if_not_exists:
            raise _column_taken(table, taken[0])
        defaults = statement.added.defaults
        added = tuple(
            StoredColumn(c.name, c.type, defaults.get(c.name)) for c in statement.added.columns if c.name not in taken
        )
        layout = _layout(table)
        if len(layout.columns) + len(added) > MOST_COLUMNS:
            message = f"table {table.name!r} has had {len(layout.columns)} columns; the limit is {MOST_COLUMNS}"
            raise SqlError(message=message)
        if any(column.default is not None for column in added):
            self._store.require(Capability.DEFAULTS)
        if not added:
            return Alteration(f"table {table.name} has these columns already")
        altered = table.with_layout(layout.added(added))
        done = f"added {', '.join(c.name for c in added)} to table {table.name}"
        return Alteration(done, lambda: self._catalog.alter(altered))

    def _drop_column(self, statement: DropColumn) -> Alteration:
        table = self._catalog.table(statement.table)
        name = _column_name(table, statement.column, required=not statement.if_exists)
        if name is None:
            return Alteration(f"table {table.name} has no column {statement.column}")
        self._refuse_key_or_ttl(table, name)
        altered = table.with_layout(_layout(table).changed(_position(table, name), dropped=True))
        users, building = self._users(table, altered, name)
        if building and statement.cascade:
            raise _being_built(building[0], f"and reads column {name!r} of table {table.name!r}")
        if (users or building) and not statement.cascade:
            names = ", ".join(sorted({*(v.name for v in users), *building}))
            advice = "Replace those views by ones without the column (CREATE OR REPLACE), or add CASCADE to drop them"
            raise InUse(name=f"{table.name}.{name}", users=names, advice=advice)
        dropped = {view.name: view for user in users for view in (user, *self._catalog.readers(user.name))}
        for view in dropped:
            self._refuse_builds(view, f"and reads view {view!r}, which this statement would drop")

        def change() -> None:
            self._catalog.alter(altered, dropped=list(dropped.values()))
            self._catalog.clear_leftovers()

        also = f" and views {', '.join(sorted(dropped))}" if dropped else ""
        return Alteration(f"dropped column {name} of table {table.name}{also}", change)

    def _refuse_key_or_ttl(self, table: TableDef, column: str) -> None:
        """Raises `SqlError` for a column that the table cannot do without."""
        kind, advice = None, "create a new table and load the rows into it"
        retention = self._catalog.retention(table)
        if column in table.key:
            kind = "a key column"
        elif retention is not None and retention.column == column:
            kind, advice = "the ttl_column", "create a new table without ttl and load the rows into it"
        if kind is not None:
            raise SqlError(message=f"{column!r} is {kind} of table {table.name!r} and cannot be dropped; {advice}")

    def _users(self, table: TableDef, altered: TableDef, column: str) -> tuple[list[ViewDef], list[str]]:
        """The published views that need a column, and the names of builds of views that need it."""
        published = [v for v in self._catalog.views.values() if table.name in v.uses]
        building = [
            (build.name, view)
            for build in self._catalog.builds.values()
            for view in build.unpublished.views
            if not build.failed and table.name in view.uses
        ]
        if not published and not building:
            return [], []
        from tailrace.database.rewritten import ViewRewriter

        before = self._names()
        after = replace(before, tables={**before.tables, table.name: altered})
        rewriter = ViewRewriter(self._definer(), before, after, "DROP COLUMN")
        users = [view for view in published if rewriter.needs(view, column)]
        return users, [name for name, view in building if rewriter.needs(view, column)]

    def _rename_column(self, statement: RenameColumn) -> Alteration:
        table = self._catalog.table(statement.table)
        old, new = _column_name(table, statement.column), statement.to
        assert old is not None
        done = f"renamed column {old} of table {table.name} to {new}"
        if old == new:
            return Alteration(done)
        if any(c.name.lower() == new.lower() for c in table.columns if c.name != old):
            raise _column_taken(table, new)
        self._refuse_builds(table.name, f"and reads table {table.name!r}, whose column would be renamed")
        altered = table.with_layout(_layout(table).changed(_position(table, old), name=new))
        readers = [v for v in self._catalog.views.values() if table.name in v.uses]
        rewritten = []
        if readers:
            from tailrace.database.rewritten import ViewRewriter

            before = self._names()
            after = replace(before, tables={**before.tables, table.name: altered})
            rewriter = ViewRewriter(self._definer(), before, after, "RENAME COLUMN")
            rewritten = [rewriter.with_column(view, table, old, new) for view in readers]
        retention = self._catalog.retention(table)
        if retention is not None and retention.column == old:
            retention = structs.replace(retention, column=new)
        views = self._with_scans(altered, rewritten)
        return Alteration(done, lambda: self._catalog.alter(altered, views, retention=retention))

    def _rename_table(self, statement: Rename) -> Alteration:
        table = self._catalog.table(statement.name)
        done = f"renamed table {table.name} to {statement.to}"
        if statement.to == table.name:
            return Alteration(done)
        self._refuse_taken(statement.to)
        self._refuse_builds(table.name, f"and reads table {table.name!r}, which would be renamed")
        renamed = replace(table, name=statement.to)
        before = self._names()
        others = {name: t for name, t in before.tables.items() if name != table.name}
        after = replace(before, tables={**others, renamed.name: renamed})
        rewritten = self._follow(before, after, table.name, renamed.name, "RENAME TO")
        views = self._with_scans(renamed, rewritten)
        return Alteration(done, lambda: self._catalog.alter(renamed, views, was=table.name))

    def _rename_view(self, statement: Rename) -> Alteration:
        view = self._catalog.view(statement.name)
        done = f"renamed view {view.name} to {statement.to}"
        if statement.to == view.name:
            return Alteration(done)
        self._refuse_taken(statement.to)
        self._refuse_builds(view.name, "and is connected with this view")
        renamed = replace(view, name=statement.to)
        before = self._names()
        others = {name: v for name, v in before.views.items() if name != view.name}
        after = replace(before, views={**others, renamed.name: renamed})
        rewritten = self._follow(before, after, view.name, renamed.name, "RENAME TO")

        def change() -> None:
            documents = self._naming_documents(view.name, renamed.name)  # epochs change them
            self._catalog.rename_view(view.name, renamed, rewritten, documents)

        return Alteration(done, change)

    def _follow(self, before: Names, after: Names, old: str, new: str, what: str) -> list[ViewDef]:
        """The views that read a table or view, with its new name."""
        readers = [v for v in self._catalog.views.values() if old in v.uses]
        if not readers:
            return []
        from tailrace.database.rewritten import ViewRewriter

        rewriter = ViewRewriter(self._definer(), before, after, what)
        return [rewriter.with_relation(view, old, new) for view in readers]

    def _with_scans(self, table: TableDef, rewritten: Sequence[ViewDef]) -> list[ViewDef]:
        """All views whose plans read a table, with its new names in their plans. Some are rewritten already."""
        by_name = {v.name: v for v in rewritten}
        reading = [by_name.get(v.name, v) for v in self._catalog.views.values() if table.id in v.tables]
        if not reading:
            return []
        from tailrace.database.rewritten import rename_scans

        return [v if v.root is None else replace(v, root=rename_scans(v.root, table)) for v in reading]

    def _naming_documents(self, old: str, new: str) -> dict[str, object]:
        """The documents that name a view, with its new name: those of failed views, and of an epoch that has begun."""
        documents: dict[str, object] = {}
        for name, failed in self._catalog.failed.items():
            if name == old:
                documents |= {**recovered_documents(old), **failed_documents(new, failed)}
            elif failed.because == old:
                documents[FAILED.at(name)] = structs.replace(failed, because=new)
        if (intent := self._store.document(INTENT)) is not None:
            ways, catch_ups, failed_now = (
                {new if name == old else name: value for name, value in part.items()}
                for part in (intent.ways, intent.catch_ups, intent.failed)
            )
            documents[INTENT.name] = structs.replace(intent, ways=ways, catch_ups=catch_ups, failed=failed_now)
        return documents

    def _refuse_taken(self, name: str) -> None:
        kind = "view" if name in self._catalog.views else "table" if name in self._catalog.tables else None
        if kind is not None:
            raise NameTaken(kind=kind, name=name)
        if name in self._catalog.builds:
            raise BeingBuilt(name=name, how="under this name; choose another name, or drop that view")

    def _refuse_builds(self, name: str, how: str) -> None:
        """Raises `BeingBuilt` if a build was planned over a table or view, or replaces the view."""
        for build in self._catalog.builds.values():
            names = {n for view in build.unpublished.views for n in (view.name, *view.uses)}
            if not build.failed and name in names:
                raise _being_built(build.name, how)

    def _names(self) -> Names:
        from tailrace.database.define import Names

        return Names(self._catalog.tables, self._catalog.views, self._store.hashes_keys)


def _layout(table: TableDef) -> Layout:
    return table.layout or Layout.of(table.columns)


def _position(table: TableDef, column: str) -> int:
    return [c.name for c in table.stored].index(column)


def _column_name(table: TableDef, name: str, *, required: bool = True) -> str | None:
    """The table's spelling of a column name. Raises `UnknownName` if the table lacks it and it is `required`."""
    for column in table.columns:
        if column.name.lower() == name.lower():
            return column.name
    if required:
        known = ", ".join(c.name for c in table.columns)
        raise UnknownName(kind=f"column of table {table.name!r}", name=name, hint=f" (known: {known})")
    return None


def _column_taken(table: TableDef, name: str) -> SqlError:
    advice = "Choose another name, or add IF NOT EXISTS to keep it"
    return SqlError(message=f"table {table.name!r} already has a column named {name!r}. {advice}")


def _being_built(name: str, how: str) -> BeingBuilt:
    return BeingBuilt(name=name, how=f"{how}; wait until that build ends, or DROP VIEW {name} to discard it")
