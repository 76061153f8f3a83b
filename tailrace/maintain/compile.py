"""From plan nodes to one DataFrame per view, which applies the view's delta when Spark runs it.

Linear operators are Spark's own on the delta. A stateful operator is one stage: its input deltas,
placed on shards by its key, go through `mapInArrow` once. Rows are shuffled only where the placement
changes; a small epoch has one partition per branch and no shuffle at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tailrace.delta import WEIGHT, column
from tailrace.maintain import windows
from tailrace.maintain.accumulators import Accumulate
from tailrace.maintain.affected import LIVE, Affected, Outputs
from tailrace.maintain.arranged import Arranged
from tailrace.maintain.extremes import Values
from tailrace.maintain.joins import SIDE, JoinRule, side_column
from tailrace.maintain.sinks import REPORT_DDL, Sink
from tailrace.maintain.slots import Slots, plan_slots
from tailrace.maintain.stages import Stages
from tailrace.maintain.topk import First
from tailrace.plan import arrangements
from tailrace.plan.nodes import Aggregate, Filter, Join, Node, Project, Scan, TopK, UnionAll, Window, column_of
from tailrace.plan.zones import placement
from tailrace.source.frames import table_delta, table_totals
from tailrace.source.totals import Total, Totals
from tailrace.store.base import TableDef

# For each side: whether rows with a NULL join key never show in the result
DROPS_NULLS = {
    "inner": (True, True),
    "semi": (True, True),
    "left": (False, True),
    "anti": (False, True),
    "right": (True, False),
    "full": (False, False),
}


@dataclass(frozen=True)
class Placed:
    """A delta, and the positions whose hash says in which partition its rows are (None: anywhere)."""

    frame: DataFrame
    by: tuple[int, ...] | None


@dataclass(frozen=True)
class ViewSink:
    """A view to apply a delta to."""

    state: int
    root: Node
    place: tuple[int, ...]


class Compiler:
    """Compiles the views of one store.

    `touched` are the ids of tables with changes, None for all of them. `blank`: views are built, from nothing.
    `reusable` says whether the frames may be run for other epochs too: one with a shuffle may not, because
    Spark would answer it from the files of the epoch before.
    """

    def __init__(
        self,
        spark: SparkSession,
        stages: Stages,
        nodes: int,
        tables: Mapping[int, TableDef],
        states: Mapping[str, int],
        touched: frozenset[int] | None,
        *,
        blank: bool,
    ) -> None:
        self._spark, self._stages, self._nodes, self._tables = spark, stages, nodes, tables
        self._states, self._touched, self._blank = states, touched, blank
        self._deltas: dict[str, Placed | None] = {}
        self.reusable = stages.single

    def sinks(self, views: Sequence[ViewSink]) -> DataFrame | None:
        """One frame that applies the deltas of all views; None when nothing can have changed."""
        frames = [f for view in views if (f := self._sink(view)) is not None]
        return reduce(DataFrame.union, frames) if frames else None

    def _sink(self, view: ViewSink) -> DataFrame | None:
        delta = self.delta(view.root)
        if delta is None:
            return None
        placed = self._stages.place(delta.frame, [column(p) for p in view.place], delta.by == view.place)
        return self._stages.run(placed, Sink(view.state, view.root.columns, view.root.key), REPORT_DDL)

    def delta(self, node: Node) -> Placed | None:
        """The node's delta over the epoch's range; None if none of its tables changed."""
        if node.fingerprint not in self._deltas:
            self._deltas[node.fingerprint] = self._delta(node)
        return self._deltas[node.fingerprint]

    def _delta(self, node: Node) -> Placed | None:
        match node:
            case Scan():
                return self._scan(node, net=True)
            case Filter():
                delta = self.delta(node.input)
                return delta and Placed(delta.frame.where(node.condition), delta.by)
            case Project():
                return self._project(node, self.delta(node.input))
            case UnionAll():
                deltas = [d for b in node.branches if (d := self.delta(b)) is not None]
                frames = [d.frame for d in deltas]
                return Placed(self._stages.merge(frames), None) if deltas else None
            case Join():
                return self._join(node)
            case Aggregate():
                return self._aggregate(node)
            case Window() | TopK():
                return self._partitioned(node)
        raise NotImplementedError(type(node).__name__)

    # linear operators

    def _scan(self, node: Scan, *, net: bool) -> Placed | None:
        if self._touched is not None and node.table_id not in self._touched:
            return None
        frame = table_delta(
            self._spark,
            self._stages.store,
            self._nodes,
            self._tables[node.table_id],
            node.positions,
            self._stages.handed,
            spread=not self._stages.single,
            net=net,
        )
        names = [column(i) for i in range(len(node.positions))]
        return Placed(frame.selectExpr(*names, f"CAST({WEIGHT} AS BIGINT) AS {WEIGHT}"), placement(node))

    def _project(self, node: Project, delta: Placed | None) -> Placed | None:
        if delta is None:
            return None
        named = [f"{e} AS {column(i)}" for i, e in enumerate(node.expressions)]
        moved = {column_of(e): i for i, e in reversed(list(enumerate(node.expressions)))}
        by = None
        if delta.by is not None and all(p in moved for p in delta.by):
            by = tuple(moved[p] for p in delta.by)
        return Placed(delta.frame.selectExpr(*named, WEIGHT), by)

    def _summable(self, node: Node) -> Placed | None:
        """A delta that is only going to be summed: rows that cancel out may stay in it."""
        match node:
            case Scan():
                return self._scan(node, net=False)
            case Filter():
                delta = self._summable(node.input)
                return delta and Placed(delta.frame.where(node.condition), delta.by)
            case Project():
                return self._project(node, self._summable(node.input))
        return self.delta(node)

    # stateful operators

    def _join(self, node: Join) -> Placed | None:
        sides = (node.left, node.right)
        deltas = [self.delta(side) for side in sides]
        on = (node.left_on, node.right_on)
        columns = [c for side in sides for c in side.columns]
        frames = []
        for number, delta in enumerate(deltas):
            if delta is None:
                continue
            start = 0 if number == 0 else len(node.left.columns)
            own = range(start, start + len(sides[number].columns))
            names = [side_column(0, i) for i in range(len(node.left.columns))]
            names += [side_column(1, i) for i in range(len(node.right.columns))]
            row = [
                f"{column(i - start)} AS {names[i]}" if i in own else f"CAST(NULL AS {columns[i].type}) AS {names[i]}"
                for i in range(len(columns))
            ]
            frame = delta.frame
            if DROPS_NULLS[node.kind][number]:
                for position, safe in zip(on[number], node.null_safe, strict=True):
                    frame = frame if safe else frame.where(f"{column(position)} IS NOT NULL")
            shard = self._stages.shard([column(p) for p in on[number]])
            frames.append(frame.selectExpr(*row, f"CAST({number} AS TINYINT) AS {SIDE}", WEIGHT, shard))
        if not frames:
            return None
        left_key, right_key = arrangements.join_arrangements(node)
        rule = JoinRule(
            node.kind,
            Arranged(self._states[left_key.fingerprint], node.left.columns, node.left.key, node.left_on),
            Arranged(self._states[right_key.fingerprint], node.right.columns, node.right.key, node.right_on),
            node.null_safe,
        )
        placed = self._stages.shuffle(self._stages.merge(frames))
        return Placed(self._stages.run(placed, rule), placement(node))

    def _aggregate(self, node: Aggregate) -> Placed | None:
        if arrangements.is_generic(node):
            return self._affected(node)
        slots, answers = plan_slots(node)
        contributions = self._raw(node, slots) if slots.floats or slots.values else self._summed(node, slots)
        if contributions is None:
            return None
        columns, names = node.input.columns, [column(i) for i in range(len(node.groups))]
        accumulators, by_column = arrangements.aggregate_arrangements(node)
        rule = Accumulate(
            self._states[accumulators.fingerprint],
            tuple(columns[p] for p in node.groups),
            tuple(c.type for c in slots.sums),
            len(slots.floats),
            tuple(
                Values(self._states[by_column[p].fingerprint], columns[p].type, p in slots.ends) for p in slots.values
            ),
        )
        answered = [f"{a} AS {column(len(names) + i)}" for i, a in enumerate(answers)]
        return Placed(self._stages.run(contributions, rule).selectExpr(*names, *answered, WEIGHT), placement(node))

    def _raw(self, node: Aggregate, slots: Slots) -> DataFrame | None:
        """Every row's contributions, placed by group: for numbers that cannot be summed before they get there."""
        delta = self.delta(node.input)
        if delta is None:
            return None
        floats = [f"CAST({column(p)} AS DOUBLE) AS f{i}" for i, p in enumerate(slots.floats)]
        values = [f"{column(p)} AS x{i}" for i, p in enumerate(slots.values)]
        frame = self._contributed(node, slots, self._seeded(node, delta.frame), floats + values)
        names = [column(i) for i in range(len(node.groups))]
        return self._stages.place(frame, names, bool(names) and delta.by == node.groups)

    def _summed(self, node: Aggregate, slots: Slots) -> DataFrame | None:
        """One row per group: Spark's own aggregation, whose shuffle places groups just as shards are placed."""
        frame = self._log_totals(node, slots)
        if frame is None:
            delta = self._summable(node.input)
            if delta is None:
                return None
            frame = self._contributed(node, slots, self._seeded(node, delta.frame), [])
        names = [column(i) for i in range(len(node.groups))]
        sums = [F.expr(f"coalesce(sum(s{i}), 0)").cast(c.type).alias(f"s{i}") for i, c in enumerate(slots.sums)]
        totals = frame.groupBy(*names).agg(F.expr(f"coalesce(sum({WEIGHT}), 0L)").alias(WEIGHT), *sums)
        return totals.selectExpr("*", self._stages.shard(names))

    @staticmethod
    def _contributed(node: Aggregate, slots: Slots, frame: DataFrame, more: list[str]) -> DataFrame:
        groups = [f"{column(p)} AS {column(i)}" for i, p in enumerate(node.groups)]
        sums = [f"{c.sql} AS s{i}" for i, c in enumerate(slots.sums)]
        return frame.selectExpr(*groups, *sums, *more, WEIGHT)

    def _log_totals(self, node: Aggregate, slots: Slots) -> DataFrame | None:
        """Sums taken by the reader of the log, when the aggregate is of plain columns of a table that changed."""
        found = _plain_scan(node.input)
        if found is None or not all(c.plain for c in slots.sums) or self._blank:
            return None
        scan, moved = found
        if self._touched is not None and scan.table_id not in self._touched:
            return None
        sums = tuple(
            Total(c.plain[0], tuple(moved[a] for a in c.plain[1]), c.type) for c in slots.sums if c.plain is not None
        )
        return table_totals(
            self._spark,
            self._stages.store,
            self._nodes,
            self._tables[scan.table_id],
            scan.positions,
            self._stages.handed,
            Totals(tuple(moved[g] for g in node.groups), sums),
            spread=not self._stages.single,
        )

    def _affected(self, node: Aggregate) -> Placed | None:
        delta = self.delta(node.input)
        self.reusable = False  # Spark may shuffle to aggregate, as it does for several DISTINCT
        if delta is None:
            return None
        rows, outputs = arrangements.generic_arrangements(node)
        arranged = Arranged(self._states[rows.fingerprint], node.input.columns, node.input.key, node.groups)
        grouped = [column(p) for p in node.groups]
        placed = self._stages.place(self._seeded(node, delta.frame), grouped, bool(grouped) and delta.by == node.groups)
        frame = self._stages.run(placed, Affected(arranged))
        if node.input.key is None:
            frame = frame.withColumn("_copy", F.expr(f"explode(sequence(1L, {WEIGHT}))"))
        calls = [F.expr(f"{c.sql} FILTER (WHERE {LIVE})").alias(f"a{i}") for i, c in enumerate(node.calls)]
        frame = frame.groupBy(*grouped).agg(F.expr(f"coalesce(bool_or({LIVE}), false)").alias(LIVE), *calls)
        names = [column(i) for i in range(len(node.groups))]
        groups = [f"{p} AS {n}" for p, n in zip(grouped, names, strict=True)]
        answers = [f"CAST(a{i} AS {c.type}) AS {column(len(names) + i)}" for i, c in enumerate(node.calls)]
        frame = frame.selectExpr(*groups, *answers, LIVE).selectExpr("*", self._stages.shard(names))
        answered = tuple(range(len(names)))
        rule = Outputs(
            Arranged(self._states[outputs.fingerprint], node.columns, node.key, answered), always=not node.groups
        )
        return Placed(self._stages.run(frame, rule), placement(node))

    def _partitioned(self, node: Window | TopK) -> Placed | None:
        delta = self.delta(node.input)
        if delta is None:
            return None
        there = bool(node.partition) and delta.by == node.partition
        placed = self._stages.place(delta.frame, [column(p) for p in node.partition], there)
        if isinstance(node, Window):
            return Placed(windows.maintained(node, placed, self._stages, self._states), placement(node))
        rule = First.of(node, self._states[arrangements.top_arrangement(node).fingerprint])
        return Placed(self._stages.run(placed, rule), placement(node))

    def _seeded(self, node: Aggregate, frame: DataFrame) -> DataFrame:
        """A new view without GROUP BY has its one row even if the table is empty: a row of weight 0 brings it."""
        if node.groups or not self._blank:
            return frame
        nulls = [f"CAST(NULL AS {c.type}) AS {column(i)}" for i, c in enumerate(node.input.columns)]
        return self._stages.merge([frame, self._spark.range(1).selectExpr(*nulls, f"0L AS {WEIGHT}")])


def _plain_scan(node: Node) -> tuple[Scan, list[int]] | None:
    """The scan under a projection that only picks columns, and which column each output is."""
    if isinstance(node, Scan):
        return node, list(range(len(node.positions)))
    if isinstance(node, Project) and isinstance(node.input, Scan):
        picked = [column_of(e) for e in node.expressions]
        if all(p is not None for p in picked):
            return node.input, [p for p in picked if p is not None]
    return None
