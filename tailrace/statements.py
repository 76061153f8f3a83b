"""Running SQL statements against a store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import PySparkException
from sqlglot import exp

from tailrace import types
from tailrace.definitions import define
from tailrace.errors import NameTaken, SqlError, UnknownName, Unsupported
from tailrace.maintain.epochs import Epochs, Maintained
from tailrace.maintain.lock import PATIENCE, held
from tailrace.maintain.typer import reason
from tailrace.maintained import chosen, maintained
from tailrace.plan import dialect
from tailrace.plan.statements import CreateTable, CreateView, Describe, Drop, Query, Show, Statement, parse
from tailrace.source.frames import table_rows
from tailrace.source.session import session
from tailrace.store.base import Store
from tailrace.store.pins import pinned
from tailrace.views.catalog import Catalog
from tailrace.views.frames import view_frame

if TYPE_CHECKING:
    from tailrace.database import Database


class Runner:
    """Carries out statements; nothing is changed by one that fails."""

    def __init__(
        self,
        db: Database,
        store: Store,
        catalog: Catalog,
        epochs: Epochs,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self._db, self._store, self._catalog, self._epochs = db, store, catalog, epochs
        self._say = progress or (lambda _: None)

    def run(self, text: str) -> pa.Table | None:
        result = None
        for statement in parse(text):
            result = self._run(statement)
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
        with self._changing():
            if self._taken(wanted.name, wanted.if_not_exists):
                return
            for column in wanted.columns:
                types.arrow(column.type)
            self._catalog.add_table(wanted.name, wanted.columns, wanted.key)

    def _taken(self, name: str, tolerated: bool) -> bool:
        kind = "view" if name in self._catalog.views else "table" if name in self._catalog.tables else None
        if kind and not tolerated:
            raise NameTaken(kind=kind, name=name)
        return kind is not None

    def _changing(self) -> contextlib.AbstractContextManager[None]:
        """Catalog changes wait for the epoch under way, in whichever process it is."""
        return held(self._store.path, "epoch", patience=PATIENCE)

    def _drop(self, wanted: Drop) -> None:
        known = self._catalog.views if wanted.kind == "view" else self._catalog.tables
        if wanted.name not in known and wanted.if_exists:
            return
        with self._changing():
            if wanted.kind == "table":
                table = self._catalog.drop_table(wanted.name)
                self._store.drop_rows(table)
            else:
                self._catalog.drop_view(wanted.name)
                self._clear_leftovers()

    def _clear_leftovers(self) -> None:
        """Remove what views that are no more, or never came to be, left in the shards."""
        for state in (leftovers := self._catalog.leftovers()):
            for shard in range(self._store.shards):
                self._store.shard(shard).drop(state)
        if leftovers:
            self._catalog.clear_leftovers()

    # views

    def _create_view(self, wanted: CreateView) -> None:
        if wanted.or_replace:
            raise Unsupported(construct="CREATE OR REPLACE", reason="drop the view and create it again")
        if self._taken(wanted.name, wanted.if_not_exists):
            return
        self._say("planning")
        version = self._catalog.version
        view = define(self._db.spark, self._catalog, wanted)
        with self._changing():
            if self._taken(wanted.name, wanted.if_not_exists):
                return
            if self._catalog.version != version:  # what it reads may have been dropped meanwhile
                view = define(self._db.spark, self._catalog, wanted)
            self._clear_leftovers()
            self._say("refreshing the views there are")
            self._epochs.refresh(maintained(self._catalog))
            draft = self._catalog.draft_view(view)
            self._say("building")
            known = maintained(self._catalog)
            shared = frozenset(known.states.values())
            everything = Maintained(known.tables, [], {**known.states, **draft.fresh})
            self._epochs.build(everything, chosen(self._catalog, draft.view), shared)
            self._catalog.add_view(draft)

    # queries

    def query(self, text: str) -> pa.Table:
        spark = session(self._db.spark)
        with pinned(self._store) as pin:
            for name in self._mentioned(text):
                if name in self._catalog.views:
                    view = self._catalog.views[name]
                    found = view_frame(spark, self._store.path, self._store.shards, view, pin.epoch)
                else:
                    table = self._catalog.tables[name]
                    found = table_rows(spark, self._store.path, self._store.nodes, table, pin.cut)
                found.createOrReplaceTempView(f"`{name}`")
            try:
                return spark.sql(text).toArrow()
            except PySparkException as error:
                raise SqlError(message=reason(error)) from None

    def _mentioned(self, text: str) -> set[str]:
        tree = dialect.parse(text)
        names = {t.name.lower() for part in tree for t in part.find_all(exp.Table)}
        return {n for n in names if n in self._catalog.views or n in self._catalog.tables}
