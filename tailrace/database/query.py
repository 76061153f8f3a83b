"""Answers SELECT statements over tables and views with Spark, at one cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from tailrace.catalog.catalog import Relations
from tailrace.plan.build.one_level import one_level
from tailrace.plan.nodes import Node, Scan
from tailrace.plan.sql import dialect
from tailrace.plan.sql.quantified import rewrite_quantified
from tailrace.plan.sql.statements import is_table_statement, only_query
from tailrace.spark.failures import translated
from tailrace.spark.frames import table_rows, view_frame
from tailrace.spark.session import session
from tailrace.spark.typer import SparkTyper
from tailrace.store.base import Cut, Store
from tailrace.types import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SelectQuery:
    """A query that only reads. `names` are those in FROM: of tables, views, CTEs, or of nothing."""

    text: str
    trees: list[exp.Expr]
    names: set[str]

    @classmethod
    def parse(cls, text: str) -> SelectQuery:
        """Parses the text. Refuses what is not a query, and replaces ANY, SOME and ALL, which Spark does not have."""
        written = only_query(dialect.parse(text))
        trees = [rewrite_quantified(tree) for tree in written]
        if any(tree is not old for tree, old in zip(trees, written, strict=True)):
            text = "; ".join(map(dialect.generate, trees))
        names = {table.name.lower() for tree in trees for table in tree.find_all(exp.Table)}
        return cls(text, trees, names | {tree.alias.lower() for tree in trees if is_table_statement(tree)})

    def for_spark(self, spark: SparkSession, relations: Relations) -> str:
        """The text without references of subqueries over several levels, which Spark does not have."""

        def relation(name: str) -> Node | None:
            source = relations.views.get(name) or relations.tables.get(name)
            if source is None:
                return None
            columns = tuple(source.columns)
            return Scan(name, 0, columns, (), tuple(range(len(columns))))

        trees = [one_level(tree, relation, SparkTyper(spark)) for tree in self.trees]
        if all(tree is old for tree, old in zip(trees, self.trees, strict=True)):
            return self.text
        return "; ".join(map(dialect.generate, trees))


def answer_query(
    spark: SparkSession, store: Store, relations: Relations, query: SelectQuery, epoch: int, cut: Cut
) -> pa.Table:
    """The result of a query: tables at the cut, views at the epoch."""
    with translated(lambda: spark):
        text = query.for_spark(spark, relations)
        fresh_session = session(spark)
        for name in query.names:
            if name in relations.views:
                rows = view_frame(fresh_session, store, relations.views[name], epoch)
            elif name in relations.tables:
                rows = table_rows(fresh_session, store, relations.tables[name], cut)
            else:
                continue  # the name of a CTE, or an unknown name, which Spark reports
            rows.createOrReplaceTempView(quoted(name))
        return fresh_session.sql(text).toArrow()
