"""From plan nodes to one DataFrame per job, which applies the deltas of all views when Spark runs it.

A delta on its way is a fragment, that is, operators of a task (`program.py`), or a Spark frame. Linear operators
go on in the task where their expressions can be evaluated there, else in Spark. An operator with state is always in
a task. Rows go to other tasks only where the placement changes; a small epoch has one task for all that needs no
Spark in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tailrace import types
from tailrace.codec.schema import TableDef
from tailrace.delta import SHARD, WEIGHED, WEIGHT, Fields, column, delta_fields
from tailrace.plan.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
    Key,
    Node,
    OneRow,
    Project,
    Scan,
    TopK,
    UnionAll,
    Window,
    column_of,
    walk,
)
from tailrace.plan.physical import arrangements
from tailrace.plan.physical.arrangements import Arrangement
from tailrace.plan.physical.physical_plan import ViewSink
from tailrace.plan.physical.slots import Slots, plan_slots
from tailrace.plan.physical.zones import placement
from tailrace.rules.affected import LIVE, Affected, Outputs
from tailrace.rules.aggregate import Accumulate
from tailrace.rules.arranged import Arranged
from tailrace.rules.arrow import compiled
from tailrace.rules.before import Rule
from tailrace.rules.extremes import Values
from tailrace.rules.join import Arrange, JoinRule, Lookup
from tailrace.rules.sink import Sink
from tailrace.rules.topk import First
from tailrace.spark import windowing
from tailrace.spark.fragments import Fragment
from tailrace.spark.stages import Stages
from tailrace.task.fanout import FanOut, Selection, group_selections
from tailrace.task.program import Keep, Merge, Read, ReadTotals, Seed, Select, Settle, Where
from tailrace.task.totals import Total, Totals
from tailrace.types import is_scalar

# For each side: whether rows with a NULL join key never show in the result
DROPS_NULLS = {
    "inner": (True, True),
    "semi": (True, True),
    "left": (False, True),
    "anti": (False, True),
    "right": (True, False),
    "full": (False, False),
}

REPORTED: Fields = (("state", "bigint"), ("rows", "bigint"))  # what a sink gives
Item = tuple[str, str, str]  # an expression, the name and the type of its column


@dataclass(frozen=True)
class Flow:
    """A delta on its way, and the positions whose hash says in which task its rows are (None: anywhere)."""

    at: Fragment | DataFrame
    fields: Fields
    by: tuple[int, ...] | None


class Compiler:
    """Compiles the views of one store.

    `touched` are the ids of tables with changes, None for all of them. `blank`: views are built, from nothing.
    `reusable` says whether the frames may be run for other epochs too: one with a shuffle may not, because
    Spark would answer it from the files of the epoch before.
    """

    def __init__(
        self,
        stages: Stages,
        tables: Mapping[int, TableDef],
        states: Mapping[str, int],
        touched: frozenset[int] | None,
        *,
        blank: bool,
    ) -> None:
        self._stages, self._tables = stages, tables
        self._states, self._touched, self._blank = states, touched, blank
        self._limit = stages.store.key_limit
        self._deltas: dict[tuple[str, bool], Flow | None] = {}
        self._kept_aside: dict[int, Fragment] = {}  # arrangements that no view's rows go through, by state
        self.reusable = stages.single

    def sinks(self, views: Sequence[ViewSink]) -> DataFrame | None:
        """One frame that applies the deltas of all views; None when nothing can have changed.

        Views whose tasks read all they need themselves share one program, and so all they have in common.
        """
        changed = [v for v in views if self._touched is None or v.plan.tables & self._touched]
        shared = group_selections(changed, anywhere=self._stages.single)
        apart = {selection.view.state for selections in shared for selection in selections}
        found = [self._fanned_out(selections) for selections in shared]
        found += [f for v in changed if v.state not in apart and (f := self._sink(v)) is not None]
        found += self._kept_aside.values()
        alone = [f for f in found if not f.is_fed]
        frames = [self._stages.run([f]) for f in found if f.is_fed]
        if alone:
            frames.append(self._stages.run(alone))
        return reduce(DataFrame.union, frames) if frames else None

    def _sink(self, view: ViewSink) -> Fragment | None:
        delta = self.delta(view.plan.root)
        if delta is None:
            return None
        rule = Sink(view.state, view.plan.columns, view.plan.key, self._limit)
        return self._kept(rule, [(delta, view.plan.place)], REPORTED)

    def _fanned_out(self, selections: Sequence[Selection]) -> Fragment:
        one = selections[0]
        delta = self.delta(one.scan)
        assert delta is not None
        plan, items = one.view.plan, tuple(column(p) for p in one.items)
        views = tuple((s.view.state, s.conditions) for s in selections)
        fan_out = FanOut(Sink(0, plan.columns, plan.key, self._limit), items, plan.place, views, self._stages.shards)
        return Fragment(fan_out, (self._fragment(delta),), REPORTED)

    def delta(self, node: Node, *, net: bool = True) -> Flow | None:
        """The node's delta over the epoch's range; None if none of its tables changed.

        Without `net` rows that cancel out may stay in it: for one that is only going to be summed.
        """
        asked = node.fingerprint, net or isinstance(node, arrangements.Stateful)  # one with state stands once
        if asked not in self._deltas:
            self._deltas[asked] = self._delta(node, net)
        return self._deltas[asked]

    def _delta(self, node: Node, net: bool) -> Flow | None:
        match node:
            case Scan():
                return self._scan(node, net)
            case Filter():
                delta = self.delta(node.input, net=net)
                return delta and self._where(delta, node.condition)
            case Project():
                delta = self.delta(node.input, net=net)
                return delta and self._project(node, delta)
            case OneRow():
                return self._one_row()
            case Generate():
                delta = self.delta(node.input, net=net)
                return delta and self._generate(node, delta)
            case UnionAll():
                return self._union([d for b in node.branches if (d := self.delta(b, net=net)) is not None])
            case Join():
                return self._join(node)
            case Aggregate():
                return self._affected(node) if arrangements.is_generic(node) else self._aggregate(node)
            case Window():
                return self._window(node)
            case TopK():
                return self._top(node)
        raise NotImplementedError(type(node).__name__)

    # where a delta is

    def _frame(self, flow: Flow) -> DataFrame:
        return flow.at if isinstance(flow.at, DataFrame) else self._stages.run([flow.at])

    @staticmethod
    def _fragment(flow: Flow) -> Fragment:
        return flow.at if isinstance(flow.at, Fragment) else Fragment(flow.at, (), flow.fields)

    def _kept(self, rule: Rule, inputs: Sequence[tuple[Flow, Sequence[int]]], fields: Fields) -> Fragment:
        """A rule on deltas, each placed by some of its columns."""
        moving = [flow for flow, _ in inputs if not self._fragment(flow).is_empty]
        placed = [self._placed(flow, by, len(moving) == 1) for flow, by in inputs]
        by = tuple(tuple(flow.fields[p][0] for p in positions) for flow, positions in inputs)
        schemas = tuple(p.schema for p in placed)
        operator = Settle if isinstance(rule, Outputs) else Keep
        return Fragment(operator(rule, schemas, by, self._stages.shards), tuple(placed), fields)

    def _placed(self, flow: Flow, by: Sequence[int], only: bool) -> Fragment:
        """The delta in the tasks of its shards.

        A task finds the shard of a row itself, unless its columns are such that only Spark can hash them.
        """
        there = self._stages.single or (only and flow.by == tuple(by)) or self._fragment(flow).is_empty
        names = tuple(flow.fields[p][0] for p in by)
        if all(is_scalar(flow.fields[p][1]) for p in by):
            if there:
                return self._fragment(flow)
            if isinstance(flow.at, Fragment):
                return self._stages.sent(flow.at, names, shuffled=only)
        rows = self._frame(flow).selectExpr("*", self._stages.shard(names))
        if only and not there:
            rows = self._stages.shuffle(rows)
        return Fragment(rows, (), (*flow.fields, (SHARD, "int")))

    # linear operators

    def _where(self, flow: Flow, condition: str) -> Flow:
        if isinstance(flow.at, Fragment):
            found = compiled.compile(condition, dict(flow.fields), "boolean")
            if found is not None:
                return Flow(Fragment(Where(found), (flow.at,), flow.fields), flow.fields, flow.by)
        return Flow(self._frame(flow).where(condition), flow.fields, flow.by)

    def _select(self, flow: Flow, items: Sequence[Item], by: tuple[int, ...] | None) -> Flow:
        """One column per item, and the weight."""
        fields = (*((name, kind) for _, name, kind in items), WEIGHED)
        if isinstance(flow.at, Fragment):
            found = [(name, compiled.compile(text, dict(flow.fields), kind)) for text, name, kind in items]
            picked = tuple((name, e) for name, e in found if e is not None)
            if len(picked) == len(items):
                return Flow(Fragment(Select(picked), (flow.at,), fields), fields, by)
        named = [f"{text} AS {name}" for text, name, _ in items]
        return Flow(self._frame(flow).selectExpr(*named, WEIGHT), fields, by)

    def _union(self, flows: Sequence[Flow]) -> Flow | None:
        if not flows:
            return None
        if all(isinstance(f.at, Fragment) for f in flows) and (
            self._stages.single or not any(self._fragment(f).is_fed for f in flows)
        ):
            merged = Fragment(Merge(), tuple(self._fragment(f) for f in flows), flows[0].fields)
            return Flow(merged, flows[0].fields, None)
        return Flow(self._stages.merge([self._frame(f) for f in flows]), flows[0].fields, None)

    def _scan(self, node: Scan, net: bool) -> Flow | None:
        if self._touched is not None and node.table_id not in self._touched:
            return None
        fields = delta_fields(node.columns)
        read = Read(self._tables[node.table_id], node.positions, net)
        return Flow(Fragment(read, (), fields), fields, placement(node))

    def _project(self, node: Project, delta: Flow) -> Flow:
        moved = {column_of(e): i for i, e in reversed(list(enumerate(node.expressions)))}
        by = None
        if delta.by is not None and all(p in moved for p in delta.by):
            by = tuple(moved[p] for p in delta.by)
        named = zip(node.expressions, node.columns, strict=True)
        return self._select(delta, [(e, column(i), c.type) for i, (e, c) in enumerate(named)], by)

    def _one_row(self) -> Flow | None:
        """The row is there from the beginning, and nothing ever happens to it."""
        if not self._blank:
            return None
        return Flow(self._stages.spark.range(0, 1, 1, 1).selectExpr(f"1L AS {WEIGHT}"), (WEIGHED,), None)

    def _generate(self, node: Generate, delta: Flow) -> Flow:
        """ΔG(A) = G(ΔA): what is made of a row has the row's weight, and is where the row is."""
        width = len(node.input.columns)
        made = ", ".join(column(width + i) for i in range(len(node.output)))
        kept = [column(i) for i in range(width)]
        rows = self._frame(delta).selectExpr(*kept, f"{node.generator} AS ({made})", WEIGHT)
        return Flow(rows, delta_fields(node.columns), delta.by)

    # operators with state

    def _arranged(self, arrangement: Arrangement, node: Node, by: Key) -> Arranged:
        """The state that holds the rows of a node, sorted by some columns."""
        return Arranged(self._states[arrangement.fingerprint], node.columns, node.key, by, self._limit)

    def _join(self, node: Join) -> Flow | None:
        sides = (node.left, node.right)
        deltas = [self.delta(side) for side in sides]
        if all(d is None for d in deltas):
            return None
        inputs = []
        for number, on in enumerate((node.left_on, node.right_on)):
            flow = deltas[number] or self._nothing(sides[number])
            if DROPS_NULLS[node.kind][number]:
                there = [f"{column(p)} IS NOT NULL" for p, safe in zip(on, node.null_safe, strict=True) if not safe]
                flow = self._where(flow, " AND ".join(there)) if there and deltas[number] is not None else flow
            inputs.append((flow, on))
        left, right = arrangements.join_arrangements(node)
        rule = JoinRule(
            node.kind,
            self._arranged(left, node.left, node.left_on),
            self._arranged(right, node.right, node.right_on),
            node.null_safe,
        )
        fields = delta_fields(node.columns)
        for number, other in ((0, 1), (1, 0)):
            if deltas[other] is None and self._stays(node, sides[number], inputs[number][0]):
                return self._looked_up(rule, number, *inputs[number], fields)
        return Flow(self._kept(rule, inputs, fields), fields, placement(node))

    def _stays(self, node: Join, side: Node, flow: Flow) -> bool:
        """Whether the changes of one side, if the other has none, are joined where they are.

        They are read twice then, for the join and for the arrangement, so it must be cheap to have them.
        """
        if self._stages.single or node.kind != "inner" or not isinstance(flow.at, Fragment) or flow.at.is_fed:
            return False
        on = node.left_on if side is node.left else node.right_on
        simple = not any(isinstance(n, arrangements.Stateful) for n in walk(side))
        return simple and bool(on) and all(is_scalar(side.columns[p].type) for p in on)

    def _looked_up(self, rule: JoinRule, number: int, flow: Flow, on: Sequence[int], fields: Fields) -> Flow:
        arranged = (rule.left, rule.right)[number]
        if arranged.state not in self._kept_aside:
            self._kept_aside[arranged.state] = self._kept(Arrange(arranged), [(flow, on)], REPORTED)
        changed, names = self._fragment(flow), tuple(flow.fields[p][0] for p in on)
        lookup = Lookup(rule, "left" if number else "right")
        joined = Fragment(Keep(lookup, (changed.schema,), (names,), self._stages.shards), (changed,), fields)
        before = len(rule.left.columns) if number else 0
        return Flow(joined, fields, None if flow.by is None else tuple(before + p for p in flow.by))

    @staticmethod
    def _nothing(node: Node) -> Flow:
        """The delta of a relation none of whose tables changed."""
        fields = delta_fields(node.columns)
        return Flow(Fragment(Merge(), (), fields), fields, None)

    def _aggregate(self, node: Aggregate) -> Flow | None:
        slots, answers = plan_slots(node)
        contributions = self._contributions(node, slots)
        if contributions is None:
            return None
        columns = node.input.columns
        accumulators, by_column = arrangements.aggregate_arrangements(node)
        rule = Accumulate(
            self._states[accumulators.fingerprint],
            tuple(columns[p] for p in node.groups),
            tuple(c.type for c in slots.sums),
            len(slots.floats),
            len(slots.spreads),
            tuple(
                Values(self._states[by_column[p].fingerprint], columns[p].type, p in slots.ends, self._limit)
                for p in slots.values
            ),
            self._limit,
        )
        groups = tuple(range(len(node.groups)))
        shown = tuple((f.name, types.name(f.type)) for f in rule.output)
        kept = Flow(self._kept(rule, [(contributions, groups)], shown), shown, groups)
        copied = [(column(i), column(i), columns[p].type) for i, p in enumerate(node.groups)]
        answered = [
            (a, column(len(groups) + i), c.type) for i, (a, c) in enumerate(zip(answers, node.calls, strict=True))
        ]
        return self._select(kept, copied + answered, placement(node))

    def _contributions(self, node: Aggregate, slots: Slots) -> Flow | None:
        """What the delta's rows add to their groups.

        A large delta of numbers is summed before it travels: by the reader of the log, or by Spark, whose shuffle
        places groups just as shards are placed.
        """
        raw = bool(slots.floats or slots.spreads or slots.values)
        if not raw and (totals := self._log_totals(node, slots)) is not None:
            return totals
        delta = self.delta(node.input, net=raw)
        if delta is None:
            return None
        items = [(column(p), column(i), node.input.columns[p].type) for i, p in enumerate(node.groups)]
        items += [(c.sql, f"s{i}", c.type) for i, c in enumerate(slots.sums)]
        items += [(f"CAST({column(p)} AS DOUBLE)", f"f{i}", "double") for i, p in enumerate(slots.floats)]
        items += [(f"CAST({column(p)} AS DOUBLE)", f"m{i}", "double") for i, p in enumerate(slots.spreads)]
        items += [(column(p), f"x{i}", node.input.columns[p].type) for i, p in enumerate(slots.values)]
        seeded = self._seeded(node, delta)
        by = tuple(range(len(node.groups))) if seeded.by == node.groups else None
        flow = self._select(seeded, items, by)
        return flow if raw or self._stages.single else self._summed(node, slots, flow)

    def _summed(self, node: Aggregate, slots: Slots, flow: Flow) -> Flow:
        names = [column(i) for i in range(len(node.groups))]
        sums = [F.expr(f"coalesce(sum(s{i}), 0)").cast(c.type).alias(f"s{i}") for i, c in enumerate(slots.sums)]
        totals = self._frame(flow).groupBy(*names).agg(*sums, F.expr(f"coalesce(sum({WEIGHT}), 0L)").alias(WEIGHT))
        return Flow(totals, flow.fields, tuple(range(len(names))))

    def _log_totals(self, node: Aggregate, slots: Slots) -> Flow | None:
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
        totals = Totals(tuple(moved[g] for g in node.groups), sums)
        fields: Fields = (
            *((column(i), node.input.columns[p].type) for i, p in enumerate(node.groups)),
            *((f"s{i}", t.type) for i, t in enumerate(sums)),
            WEIGHED,
        )
        read = ReadTotals(self._tables[scan.table_id], scan.positions, totals)
        return Flow(Fragment(read, (), fields), fields, None)

    def _affected(self, node: Aggregate) -> Flow | None:
        delta = self.delta(node.input)
        self.reusable = False  # Spark may shuffle to aggregate, as it does for several DISTINCT
        if delta is None:
            return None
        rows, outputs = arrangements.generic_arrangements(node)
        arranged = self._arranged(rows, node.input, node.groups)
        seeded = self._seeded(node, delta)
        fields = (*delta_fields(node.input.columns)[:-1], (LIVE, "boolean"), WEIGHED)
        frame = self._stages.run([self._kept(Affected(arranged), [(seeded, node.groups)], fields)])
        if node.input.key is None:
            frame = frame.withColumn("_copy", F.expr(f"explode(sequence(1L, {WEIGHT}))"))
        calls = [F.expr(f"{c.sql} FILTER (WHERE {LIVE})").alias(f"a{i}") for i, c in enumerate(node.calls)]
        grouped = [column(p) for p in node.groups]
        came = F.count(F.lit(1)).alias("_came")
        frame = frame.groupBy(*grouped).agg(F.expr(f"coalesce(bool_or({LIVE}), false)").alias(LIVE), came, *calls)
        frame = frame.where("_came > 0")  # without groups Spark answers for a group that nothing came of too
        names = [column(i) for i in range(len(node.groups))]
        groups = [f"{p} AS {n}" for p, n in zip(grouped, names, strict=True)]
        answers = [f"CAST(a{i} AS {c.type}) AS {column(len(names) + i)}" for i, c in enumerate(node.calls)]
        answered = delta_fields(node.columns)
        fields = (*answered[:-1], (LIVE, "boolean"))
        by = tuple(range(len(names)))
        flow = Flow(frame.selectExpr(*groups, *answers, LIVE), fields, by)
        kept = self._arranged(outputs, node, by)
        rule = Outputs(kept, always=not node.groups)
        return Flow(self._kept(rule, [(flow, by)], answered), answered, placement(node))

    def _window(self, node: Window) -> Flow | None:
        delta = self.delta(node.input)
        if delta is None:
            return None
        rows, outputs = arrangements.window_arrangements(node)
        arranged = self._arranged(rows, node.input, node.partition)
        fields = (*delta_fields(node.input.columns)[:-1], (LIVE, "boolean"), WEIGHED)
        touched = self._stages.run([self._kept(Affected(arranged), [(delta, node.partition)], fields)])
        answered = delta_fields(node.columns)
        flow = Flow(windowing.over(node, touched), (*answered[:-1], (LIVE, "boolean")), node.partition)
        rule = Outputs(self._arranged(outputs, node, node.partition))
        return Flow(self._kept(rule, [(flow, node.partition)], answered), answered, placement(node))

    def _top(self, node: TopK) -> Flow | None:
        delta = self.delta(node.input)
        if delta is None:
            return None
        rule = First.of(node, self._states[arrangements.top_arrangement(node).fingerprint], self._limit)
        fields = delta_fields(node.columns)
        return Flow(self._kept(rule, [(delta, node.partition)], fields), fields, placement(node))

    def _seeded(self, node: Aggregate, flow: Flow) -> Flow:
        """A new view without GROUP BY has its one row even if the table is empty: a row of weight 0 brings it."""
        if node.groups or not self._blank:
            return flow
        seed = Fragment(Seed(self._fragment(flow).schema), (), flow.fields)
        merged = self._union([flow, Flow(seed, flow.fields, None)])
        assert merged is not None
        return merged


def _plain_scan(node: Node) -> tuple[Scan, list[int]] | None:
    """The scan under a projection that only picks columns, and which column each output is."""
    if isinstance(node, Scan):
        return node, list(range(len(node.positions)))
    if isinstance(node, Project) and isinstance(node.input, Scan):
        picked = [column_of(e) for e in node.expressions]
        if all(p is not None for p in picked):
            return node.input, [p for p in picked if p is not None]
    return None
