"""From the text of a view to its definition: planned, typed by Spark, and refused where that must be."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace import types
from tailrace.errors import SqlError, Unsupported
from tailrace.maintain.typer import SparkTyper, reason
from tailrace.plan import recomputable
from tailrace.plan.build import build
from tailrace.plan.nodes import Node, Scan, walk
from tailrace.plan.rewrites import rewrite
from tailrace.plan.statements import CreateView
from tailrace.plan.zones import view_place
from tailrace.source.session import session
from tailrace.store.base import TableDef
from tailrace.types import Column
from tailrace.views.catalog import Catalog, ViewDef

ASKED = "refresh = 'full' was asked for"


def define(spark: SparkSession, catalog: Catalog, wanted: CreateView) -> ViewDef:
    """The definition of a view. What cannot be maintained by deltas is recomputed, if the policy lets it."""
    try:
        root, columns, uses = _planned(spark, catalog, wanted)
    except SqlError as error:
        if wanted.refresh == "incremental":
            raise
        return _recomputed(spark, catalog, wanted, error)
    tables = frozenset(n.table_id for n in walk(root) if isinstance(n, Scan))
    full = wanted.refresh == "full"
    place = recomputable.recomputed_place(columns, root.key) if full else view_place(root)
    said = ASKED if full else ""
    return ViewDef(wanted.name, wanted.query_sql, root, columns, root.key, place, uses, tables, wanted.refresh, said)


def _planned(
    spark: SparkSession, catalog: Catalog, wanted: CreateView
) -> tuple[Node, tuple[Column, ...], tuple[str, ...]]:
    uses: set[str] = set()

    def relation(name: str) -> Node | None:
        name = name.lower()
        found: Node | None
        if name in catalog.views:
            found = catalog.views[name].root
            if found is None:
                said = f"it can only be recomputed ({catalog.views[name].reason}); so must this: say refresh = 'full'"
                raise Unsupported(construct=f"reading view {name!r}", reason=said)
        elif name in catalog.tables:
            table = catalog.tables[name]
            found = Scan(name, table.id, table.columns, table.positions, tuple(range(len(table.columns))))
        else:
            return None
        uses.add(name)
        return found

    typer = SparkTyper(spark)
    root = rewrite(build(wanted.query, relation, typer), typer)
    columns = _analysed(spark, catalog, wanted.query_sql, tuple(uses))
    kinds, planned = [c.type for c in columns], [c.type for c in root.columns]
    if kinds != planned:
        raise Unsupported(construct="this query", reason=f"Spark types it {kinds}, the plan {planned}")
    for kind in kinds:
        types.arrow(kind)
    return root, columns, tuple(sorted(uses))


def _recomputed(spark: SparkSession, catalog: Catalog, wanted: CreateView, error: SqlError) -> ViewDef:
    """The definition of a view that only Spark can run; `error` is why there is no plan."""
    uses = tuple(sorted(recomputable.relations(wanted.query, {*catalog.tables, *catalog.views})))
    sources = [_source(catalog, name) for name in uses]
    recomputable.require_deterministic(wanted.query, {c.name.lower() for s in sources for c in s.columns})
    try:
        columns = _analysed(spark, catalog, wanted.query_sql, uses)
    except SqlError:
        if isinstance(error, Unsupported):
            raise
        raise error from None  # it says where
    recomputable.require_storable(columns)
    if not uses:
        raise Unsupported(construct="a view of no table", reason="it would never change")
    tables = frozenset().union(*(s.tables if isinstance(s, ViewDef) else {s.id} for s in sources))
    place = recomputable.recomputed_place(columns, None)
    said = str(error) if wanted.refresh == "auto" else ASKED
    return ViewDef(wanted.name, wanted.query_sql, None, columns, None, place, uses, tables, wanted.refresh, said)


def _source(catalog: Catalog, name: str) -> TableDef | ViewDef:
    return catalog.views.get(name) or catalog.tables[name]


def _analysed(spark: SparkSession, catalog: Catalog, sql: str, uses: tuple[str, ...]) -> tuple[Column, ...]:
    """The view's columns as Spark names and types them."""
    fresh = session(spark)
    for name in uses:
        nulls = (f"CAST(NULL AS {c.type}) AS `{c.name}`" for c in _source(catalog, name).columns)
        fresh.range(0).selectExpr(*nulls).createOrReplaceTempView(f"`{name}`")
    try:
        schema = fresh.sql(sql).schema
    except PySparkException as error:
        raise SqlError(message=reason(error)) from None
    return tuple(Column(f.name, f.dataType.simpleString()) for f in schema)
