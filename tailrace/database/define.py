"""Turns the SQL of a view into its definition: plans it, takes column names and types from Spark, refuses the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from pyspark.sql import SparkSession
from sqlglot import exp

from tailrace import types
from tailrace.catalog.catalog import views_over
from tailrace.catalog.definition import ViewDef
from tailrace.codec.schema import TableDef
from tailrace.errors import NeverTrue, SqlError, Unsupported
from tailrace.plan.build.one_level import one_level
from tailrace.plan.build.select import Built, build_view
from tailrace.plan.dependencies import smallest_key
from tailrace.plan.nodes import Node, Scan, tables
from tailrace.plan.physical.zones import view_place
from tailrace.plan.rewrite.reuse import reuse
from tailrace.plan.rewrite.rewriter import rewrite
from tailrace.plan.sql import dialect, recomputable
from tailrace.plan.sql.statements import CreateView, parse_query
from tailrace.plan.typing import Types
from tailrace.spark.failures import FAILURES, reason
from tailrace.spark.session import session
from tailrace.spark.type_names import type_name
from tailrace.spark.typer import SparkTyper
from tailrace.types import Column

FULL_REQUESTED = "the view was created with refresh = 'full'"
RECOMPUTED = "WITH (refresh = 'auto') would recompute it in each epoch"


@dataclass(frozen=True)
class Names:
    """The tables and views that a query may read, by name.

    `colocated`: the store places rows on nodes by the hash of their primary key.
    """

    tables: Mapping[str, TableDef]
    views: Mapping[str, ViewDef]
    colocated: bool = True

    def source(self, name: str) -> TableDef | ViewDef:
        return self.views.get(name) or self.tables[name]

    def relation(self, name: str) -> Node | None:
        """The plan of a table or view; None if there is none of this name."""
        if name in self.views:
            view = self.views[name]
            if view.root is None:
                reason = f"that view is always recomputed ({view.reason}), so this view must be, too"
                raise Unsupported(construct=f"reading view {name!r}", reason=reason)
            return view.root
        if name not in self.tables:
            return None
        table = self.tables[name]
        return Scan(name, table.id, table.stored, table.positions, table.slots, self.colocated)

    def known_to(self, view: ViewDef) -> Names:
        """These names, each table with the columns that the SQL of a view sees."""
        return replace(self, tables={name: view.known(table) for name, table in self.tables.items()})

    def widths(self, uses: Iterable[str]) -> dict[int, int]:
        """The number of stored columns of each table among the names that a query uses."""
        read = (self.tables[name] for name in uses if name not in self.views)
        return {table.id: max(table.slots, default=-1) + 1 for table in read}


class PlannedQuery(NamedTuple):
    """What the SQL of a view means: its plan and order, its columns, and the names that it uses."""

    built: Built
    columns: tuple[Column, ...]
    uses: tuple[str, ...]


class ViewDefiner:
    """Defines views. Spark analyzes each query over empty temporary views that have the columns of the real ones."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._session: SparkSession | None = None
        self._registered: dict[str, tuple[Column, ...]] = {}

    def define(self, names: Names, statement: CreateView) -> ViewDef:
        """The definition of a view. A query that deltas cannot maintain is recomputed, if the policy allows that."""
        query, sql = self.for_spark(names, statement.query, statement.query_sql)
        statement = replace(statement, query=query, query_sql=sql)
        try:
            (built, order), columns, uses = self.plan(names, statement.query, statement.query_sql)
            planned_views = [v.plan.logical for v in names.views.values() if v.plan is not None]
            types_of = Types(SparkTyper(self._spark))
            root = reuse(built, planned_views, types_of)
            key = smallest_key(root, types_of)
        except NeverTrue:
            raise  # under every policy
        except SqlError as error:
            if statement.refresh == "incremental":
                raise self._with_alternative(names, statement, error) from None
            return self._define_recomputed(names, statement, error)
        is_full = statement.refresh == "full"
        if is_full:  # Spark makes choices that the plan would make, such as which rows a LIMIT keeps
            _require_deterministic(names, statement, uses)
        place = recomputable.recomputed_place(columns, key) if is_full else view_place(root, key)
        policy = (statement.refresh, FULL_REQUESTED if is_full else "")
        definition = (statement.name, statement.query_sql, root, columns, key, place, uses, tables(root), *policy)
        return ViewDef(*definition, order, widths=names.widths(uses))

    def redefine(self, names: Names, statement: CreateView) -> list[ViewDef]:
        """The new definition of an existing view, then those of all views over it, each after the views it reads.

        The plan of a view contains the plans of the views it reads, so views over the replaced one change, too.
        Raises `SqlError` if one of them does not fit the new definition.
        """
        views = dict(names.views)
        dependants = views_over(views, statement.name)
        new = self.define(names, statement)
        if cycle := {statement.name, *dependants} & set(new.uses):
            through = "" if statement.name in cycle else f", through {min(cycle)!r}"
            construct = f"a view that reads itself ({statement.name!r}{through})"
            raise Unsupported(construct=construct, reason="remove one of the references that form the cycle")
        definitions = [new]
        for name in dependants:
            views.update((v.name, v) for v in definitions)
            old = views[name]
            old_statement = CreateView(name, old.sql, parse_query(old.sql), False, True, old.refresh)
            try:
                definitions.append(self.define(replace(names, views=views).known_to(old), old_statement))
            except SqlError as error:
                message = (
                    f"the new definition of {statement.name!r} does not fit view {name!r}, which reads it."
                    f" The error in the SQL of {name!r}: {error}. Nothing was changed"
                )
                raise SqlError(message=message, view=name) from error
        return definitions

    def plan(self, names: Names, query: exp.Expr, sql: str) -> PlannedQuery:
        """The plan of a query, before it is fitted to the states of other views. Spark names and types the columns."""
        uses: set[str] = set()

        def relation(name: str) -> Node | None:
            node = names.relation(name.lower())
            if node is not None:
                uses.add(name.lower())
            return node

        typer = SparkTyper(self._spark)
        built = build_view(query, relation, typer)
        root = rewrite(built.node, typer)
        columns = self.analyze(names, sql, tuple(uses))
        _require_same_columns(columns, root.columns)
        return PlannedQuery(Built(root, built.order), columns, tuple(sorted(uses)))

    def for_spark(self, names: Names, query: exp.Expr, sql: str) -> tuple[exp.Expr, str]:
        """A query and its text without references of subqueries that Spark does not have."""
        rewritten = one_level(query, names.relation, SparkTyper(self._spark))
        return (query, sql) if rewritten is query else (rewritten, dialect.generate(rewritten))

    def _define_recomputed(self, names: Names, statement: CreateView, error: SqlError) -> ViewDef:
        """The definition of a view that only Spark can run. `error` says why it has no plan."""
        uses = tuple(sorted(recomputable.relations(statement.query, {*names.tables, *names.views})))
        _require_deterministic(names, statement, uses)
        try:
            columns = self.analyze(names, statement.query_sql, uses)
        except SqlError:
            if isinstance(error, Unsupported):
                raise
            raise error from None  # the planner's error has a line and a column, Spark's has not
        recomputable.require_storable(columns)
        if not uses:
            raise Unsupported(construct="a view that reads no table", reason="it would never change")
        sources = [names.source(name) for name in uses]
        table_ids = frozenset().union(*(s.tables if isinstance(s, ViewDef) else {s.id} for s in sources))
        place = recomputable.recomputed_place(columns, None)
        why = str(error) if statement.refresh == "auto" else FULL_REQUESTED
        definition = (statement.name, statement.query_sql, None, columns, None, place, uses, table_ids)
        return ViewDef(*definition, statement.refresh, why, widths=names.widths(uses))

    def _with_alternative(self, names: Names, statement: CreateView, error: SqlError) -> SqlError:
        """The error of a query that deltas cannot maintain; it mentions refresh = 'auto' if that accepts the query."""
        part = "reason" if isinstance(error, Unsupported) else "message"
        if type(error) not in (SqlError, Unsupported):
            return error  # a wrong name or wrong syntax, which no policy accepts
        try:
            self._define_recomputed(names, statement, error)
        except SqlError:
            return error
        return type(error)(**{**error.data, part: f"{error.data[part]}; {RECOMPUTED}"})

    def analyze(self, names: Names, sql: str, uses: tuple[str, ...]) -> tuple[Column, ...]:
        """A query's columns as Spark names and types them."""
        try:
            schema = self._session_with(names, uses).sql(sql).schema
        except FAILURES as error:
            raise SqlError(message=reason(error)) from None
        return tuple(Column(f.name, type_name(f.dataType)) for f in schema)

    def _session_with(self, names: Names, uses: tuple[str, ...]) -> SparkSession:
        """A session in which these relations are registered, and no dropped ones."""
        none_dropped = all(name in names.tables or name in names.views for name in self._registered)
        if self._session is None or not none_dropped:
            self._session, self._registered = session(self._spark), {}
        for name in uses:
            columns = tuple(names.source(name).columns)
            if self._registered.get(name) != columns:
                nulls = (f"CAST(NULL AS {c.type}) AS {types.quoted(c.name)}" for c in columns)
                self._session.range(0).selectExpr(*nulls).createOrReplaceTempView(types.quoted(name))
                self._registered[name] = columns
        return self._session


def _require_same_columns(spark_columns: tuple[Column, ...], plan_columns: tuple[Column, ...]) -> None:
    """Raises `Unsupported` if Spark's analysis and the plan disagree: then the plan would maintain another query."""
    spark_types, plan_types = [c.type for c in spark_columns], [c.type for c in plan_columns]
    if spark_types != plan_types:
        both = f"Spark: {', '.join(spark_types)}; Tailrace: {', '.join(plan_types)}"
        reason = f"Spark and Tailrace disagree on its column types ({both}); add CASTs"
        raise Unsupported(construct="this query", reason=reason)
    spark_names, plan_names = [c.name.lower() for c in spark_columns], [c.name.lower() for c in plan_columns]
    if spark_names != plan_names and sorted(spark_names) == sorted(plan_names):
        both = f"Spark: {', '.join(spark_names)}; Tailrace: {', '.join(plan_names)}"
        reason = f"Spark and Tailrace disagree on its column names ({both}); add aliases"
        raise Unsupported(construct="this query", reason=reason)
    for text in spark_types:
        types.arrow(text)  # raises if the store cannot hold it


def _require_deterministic(names: Names, statement: CreateView, uses: tuple[str, ...]) -> None:
    columns = {c.name.lower() for name in uses for c in names.source(name).columns}
    recomputable.require_deterministic(statement.query, columns)
