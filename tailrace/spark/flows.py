"""Deltas while a job is compiled: each is a fragment of a task program or a Spark DataFrame.

Filters and projections run inside the task if Arrow can evaluate their expressions, else in Spark. A rule with state
always runs in a task. Rows are exchanged between tasks only if they are not yet in the tasks of their shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from tailrace.delta import SHARD, WEIGHED, WEIGHT, Fields
from tailrace.rules.affected import Outputs
from tailrace.rules.arrow import compiled
from tailrace.rules.before import Rule
from tailrace.spark.fragments import Fragment
from tailrace.spark.stages import Stages
from tailrace.task.program import Keep, Merge, Select, Settle, Where
from tailrace.types import is_scalar

REPORT_FIELDS: Fields = (("state", "bigint"), ("rows", "bigint"))  # the output of a sink
Item = tuple[str, str, str]  # an expression, and the name and type of its output column


@dataclass(frozen=True)
class Flow:
    """A delta in a job. `placed_by` are the columns whose hash determines the task of a row; None if unknown."""

    source: Fragment | DataFrame
    fields: Fields
    placed_by: tuple[int, ...] | None


def to_fragment(flow: Flow) -> Fragment:
    return flow.source if isinstance(flow.source, Fragment) else Fragment(flow.source, (), flow.fields)


@dataclass(frozen=True)
class FlowOperators:
    """Applies operators to flows."""

    stages: Stages

    def to_frame(self, flow: Flow) -> DataFrame:
        return flow.source if isinstance(flow.source, DataFrame) else self.stages.to_frame([flow.source])

    def apply_rule(self, rule: Rule, inputs: Sequence[tuple[Flow, Sequence[int]]], fields: Fields) -> Fragment:
        """Applies a rule with state to deltas, each placed in shards by the given columns."""
        non_empty = [flow for flow, _ in inputs if not to_fragment(flow).is_empty]
        placed = [self._place(flow, by, len(non_empty) == 1) for flow, by in inputs]
        names = tuple(tuple(flow.fields[p][0] for p in positions) for flow, positions in inputs)
        schemas = tuple(fragment.schema for fragment in placed)
        operator = Settle if isinstance(rule, Outputs) else Keep
        return Fragment(operator(rule, schemas, names, self.stages.shards), tuple(placed), fields)

    def _place(self, flow: Flow, by: Sequence[int], is_only: bool) -> Fragment:
        """Moves a delta's rows to the tasks of their shards.

        If the rule has several non-empty inputs (not `is_only`), the shuffle is left to `Stages`, which shuffles them
        together. A task computes the shard of a row itself, except if only Spark can hash the columns.
        """
        is_in_place = self.stages.single or (is_only and flow.placed_by == tuple(by)) or to_fragment(flow).is_empty
        names = tuple(flow.fields[p][0] for p in by)
        if all(is_scalar(flow.fields[p][1]) for p in by):
            if is_in_place:
                return to_fragment(flow)
            if isinstance(flow.source, Fragment):
                return self.stages.exchange(flow.source, names, shuffle=is_only)
        rows = self.to_frame(flow).selectExpr("*", self.stages.shard_sql(names))
        if is_only and not is_in_place:
            rows = self.stages.shuffle(rows)
        return Fragment(rows, (), (*flow.fields, (SHARD, "int")))

    def filter(self, flow: Flow, condition: str) -> Flow:
        if isinstance(flow.source, Fragment):
            expression = compiled.compile(condition, dict(flow.fields), "boolean")
            if expression is not None:
                return Flow(Fragment(Where(expression), (flow.source,), flow.fields), flow.fields, flow.placed_by)
        return Flow(self.to_frame(flow).where(condition), flow.fields, flow.placed_by)

    def select(self, flow: Flow, items: Sequence[Item], placed_by: tuple[int, ...] | None) -> Flow:
        """Projects to one column per item, and the weight."""
        fields = (*((name, kind) for _, name, kind in items), WEIGHED)
        if isinstance(flow.source, Fragment):
            expressions = [(name, compiled.compile(text, dict(flow.fields), kind)) for text, name, kind in items]
            supported = tuple((name, e) for name, e in expressions if e is not None)
            if len(supported) == len(items):
                return Flow(Fragment(Select(supported), (flow.source,), fields), fields, placed_by)
        named = [f"{text} AS {name}" for text, name, _ in items]
        return Flow(self.to_frame(flow).selectExpr(*named, WEIGHT), fields, placed_by)

    def union(self, flows: Sequence[Flow]) -> Flow | None:
        if not flows:
            return None
        fields = flows[0].fields
        if all(isinstance(f.source, Fragment) for f in flows) and (
            self.stages.single or not any(to_fragment(f).is_fed for f in flows)
        ):
            return Flow(Fragment(Merge(), tuple(to_fragment(f) for f in flows), fields), fields, None)
        return Flow(self.stages.merge([self.to_frame(f) for f in flows]), fields, None)
