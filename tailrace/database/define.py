"""From the text of a view to its definition: planned, typed by Spark, and refused where that must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from tailrace import types
from tailrace.catalog.definition import ViewDef
from tailrace.codec.schema import TableDef
from tailrace.errors import SqlError, Unsupported
from tailrace.plan.build.select import Built, build_view
from tailrace.plan.nodes import Node, Scan, tables
from tailrace.plan.physical.zones import view_place
from tailrace.plan.rewrite.reuse import reuse
from tailrace.plan.rewrite.rewriter import rewrite
from tailrace.plan.sql import recomputable
from tailrace.plan.sql.statements import CreateView, parse_query
from tailrace.plan.typing import Types
from tailrace.spark.failures import FAILURES, reason
from tailrace.spark.session import session
from tailrace.spark.typer import SparkTyper
from tailrace.types import Column

ASKED = "refresh = 'full' was asked for"


@dataclass(frozen=True)
class Names:
    """The tables and views that the names in a query stand for.

    `colocated`: the store places rows on nodes by the hash of their primary key.
    """

    tables: Mapping[str, TableDef]
    views: Mapping[str, ViewDef]
    colocated: bool = True

    def source(self, name: str) -> TableDef | ViewDef:
        return self.views.get(name) or self.tables[name]


class Analyst:
    """Spark's own reading of queries, over empty relations that stand for tables and views."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._session: SparkSession | None = None
        self._known: dict[str, tuple[Column, ...]] = {}

    def columns(self, names: Names, sql: str, uses: tuple[str, ...]) -> tuple[Column, ...]:
        """A query's columns as Spark names and types them."""
        try:
            schema = self._over(names, uses).sql(sql).schema
        except FAILURES as error:
            raise SqlError(message=reason(error)) from None
        return tuple(Column(f.name, f.dataType.simpleString()) for f in schema)

    def _over(self, names: Names, uses: tuple[str, ...]) -> SparkSession:
        """The session with these relations in it, and with none that is no more."""
        there = all(name in names.tables or name in names.views for name in self._known)
        if self._session is None or not there:
            self._session, self._known = session(self.spark), {}
        for name in uses:
            columns = tuple(names.source(name).columns)
            if self._known.get(name) != columns:
                nulls = (f"CAST(NULL AS {c.type}) AS {types.quoted(c.name)}" for c in columns)
                self._session.range(0).selectExpr(*nulls).createOrReplaceTempView(types.quoted(name))
                self._known[name] = columns
        return self._session


def define(analyst: Analyst, names: Names, wanted: CreateView) -> ViewDef:
    """The definition of a view. What cannot be maintained by deltas is recomputed, if the policy lets it."""
    try:
        (root, order), columns, uses = _planned(analyst, names, wanted)
    except SqlError as error:
        if wanted.refresh == "incremental":
            raise
        return _recomputed(analyst, names, wanted, error)
    full = wanted.refresh == "full"
    if full:  # Spark decides then what the plan would decide itself, as which rows a LIMIT keeps
        _require_deterministic(names, wanted, uses)
    place = recomputable.recomputed_place(columns, root.key) if full else view_place(root)
    said = ASKED if full else ""
    kept = (wanted.refresh, said, order)
    return ViewDef(wanted.name, wanted.query_sql, root, columns, root.key, place, uses, tables(root), *kept)


def _planned(analyst: Analyst, names: Names, wanted: CreateView) -> tuple[Built, tuple[Column, ...], tuple[str, ...]]:
    uses: set[str] = set()

    def relation(name: str) -> Node | None:
        name = name.lower()
        found: Node | None
        if name in names.views:
            found = names.views[name].root
            if found is None:
                said = f"it can only be recomputed ({names.views[name].reason}); so must this: say refresh = 'full'"
                raise Unsupported(construct=f"reading view {name!r}", reason=said)
        elif name in names.tables:
            table = names.tables[name]
            everything = tuple(range(len(table.columns)))
            found = Scan(name, table.id, table.columns, table.positions, everything, names.colocated)
        else:
            return None
        uses.add(name)
        return found

    typer = SparkTyper(analyst.spark)
    built = build_view(wanted.query, relation, typer)
    planned_views = [v.plan.logical for v in names.views.values() if v.plan is not None]
    root = reuse(rewrite(built.node, typer), planned_views, Types(typer))
    columns = analyst.columns(names, wanted.query_sql, tuple(uses))
    kinds, planned = [c.type for c in columns], [c.type for c in root.columns]
    if kinds != planned:
        raise Unsupported(construct="this query", reason=f"Spark types it {kinds}, the plan {planned}")
    called, named = [c.name.lower() for c in columns], [c.name.lower() for c in root.columns]
    if called != named and sorted(called) == sorted(named):
        raise Unsupported(construct="this query", reason=f"Spark gives the columns {called}, the plan {named}")
    for kind in kinds:
        types.arrow(kind)
    return Built(root, built.order), columns, tuple(sorted(uses))


def _require_deterministic(names: Names, wanted: CreateView, uses: tuple[str, ...]) -> None:
    columns = {c.name.lower() for name in uses for c in names.source(name).columns}
    recomputable.require_deterministic(wanted.query, columns)


def _recomputed(analyst: Analyst, names: Names, wanted: CreateView, error: SqlError) -> ViewDef:
    """The definition of a view that only Spark can run; `error` is why there is no plan."""
    uses = tuple(sorted(recomputable.relations(wanted.query, {*names.tables, *names.views})))
    _require_deterministic(names, wanted, uses)
    try:
        columns = analyst.columns(names, wanted.query_sql, uses)
    except SqlError:
        if isinstance(error, Unsupported):
            raise
        raise error from None  # it says where
    recomputable.require_storable(columns)
    if not uses:
        raise Unsupported(construct="a view of no table", reason="it would never change")
    sources = [names.source(name) for name in uses]
    tables = frozenset().union(*(s.tables if isinstance(s, ViewDef) else {s.id} for s in sources))
    place = recomputable.recomputed_place(columns, None)
    said = str(error) if wanted.refresh == "auto" else ASKED
    return ViewDef(wanted.name, wanted.query_sql, None, columns, None, place, uses, tables, wanted.refresh, said)


def redefine(analyst: Analyst, names: Names, wanted: CreateView) -> list[ViewDef]:
    """The definition of a view that takes the place of one there is, and of all views over it, in that order.

    A view over a view is planned as if the text stood there, so those over it change with it; one that does not fit
    the new definition is an error.
    """
    known = dict(names.views)
    over = _over(known, wanted.name)
    new = define(analyst, names, wanted)
    if circle := {wanted.name, *over} & set(new.uses):
        raise Unsupported(construct=f"reading {min(circle)!r}", reason=f"it is {wanted.name!r} or reads it")
    found = [new]
    for name in over:
        known.update((v.name, v) for v in found)
        old = known[name]
        again = CreateView(name, old.sql, parse_query(old.sql), False, True, old.refresh)
        try:
            found.append(define(analyst, replace(names, views=known), again))
        except SqlError as error:
            message = f"view {name!r} reads {wanted.name!r} and does not fit its new definition: {error}"
            raise SqlError(message=f"{message}; nothing was changed", view=name) from error
    return found


def _over(views: Mapping[str, ViewDef], name: str) -> list[str]:
    """The views over a view, directly or not, each after those it reads."""
    found: list[str] = []

    def visit(below: str) -> None:
        for view in views.values():
            if below in view.uses:
                if view.name in found:
                    found.remove(view.name)
                found.append(view.name)
                visit(view.name)

    visit(name)
    return found
