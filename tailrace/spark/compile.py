"""Compiles the plans of all views into one DataFrame. Running it applies the deltas of one epoch.

Each plan node becomes a flow (`spark/flows.py`): a fragment of a task program (`task/program.py`) or a Spark frame.
In a small epoch all views whose operators need no Spark run in a single task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tailrace import types
from tailrace.codec.schema import TableDef
from tailrace.delta import WEIGHED, WEIGHT, Fields, column, delta_fields
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
    TemporalFilter,
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
from tailrace.plan.physical.zones import border_place, placement
from tailrace.rules.affected import LIVE, Affected, Outputs
from tailrace.rules.aggregate import Accumulate
from tailrace.rules.arranged import Arranged
from tailrace.rules.borders import AT, Crossed
from tailrace.rules.extremes import Values
from tailrace.rules.join import Arrange, JoinRule, Lookup
from tailrace.rules.sink import Sink
from tailrace.rules.topk import First
from tailrace.spark import windowing
from tailrace.spark.flows import REPORT_FIELDS, Flow, FlowOperators, to_fragment
from tailrace.spark.fragments import Fragment
from tailrace.spark.stages import Stages
from tailrace.task.fanout import FanOut, Selection, group_selections
from tailrace.task.program import Keep, Merge, Read, ReadTotals, Seed
from tailrace.task.timed import ReadCrossed, Stamp
from tailrace.task.totals import Total, Totals
from tailrace.types import is_scalar

# Join kind to (left, right): whether the result never contains that side's rows with a NULL join key.
DROPS_NULLS = {
    "inner": (True, True),
    "semi": (True, True),
    "left": (False, True),
    "anti": (False, True),
    "right": (True, False),
    "full": (False, False),
}


class Compiler:
    """Compiles the views of one store.

    `touched` are the ids of the tables with changes; None means all tables. `due` are the states of temporal filters
    with rows whose border is in the epoch. `blank` means that the views are computed from empty states. `netted`: rows
    that cancel out never reach an expression. `reusable` says whether the frame may run again for later epochs. A frame
    with a shuffle may not: Spark would reuse the shuffle files of the first run. `fed` are the views (their states) for
    which Spark computes something itself.
    """

    def __init__(
        self,
        stages: Stages,
        tables: Mapping[int, TableDef],
        states: Mapping[str, int],
        touched: frozenset[int] | None,
        due: frozenset[int] = frozenset(),
        *,
        blank: bool,
        netted: bool = False,
    ) -> None:
        self._stages, self._flows, self._tables = stages, FlowOperators(stages), tables
        self._states, self._touched, self._due = states, touched, due
        self._blank, self._netted = blank, netted
        self._limit = stages.store.key_limit
        self._deltas: dict[tuple[str, bool], Flow | None] = {}
        self._arrangement_sinks: dict[int, Fragment] = {}  # by state; updates that `_look_up` keeps out of the join
        self.reusable = stages.single
        self.fed: frozenset[int] = frozenset()

    def compile_views(self, views: Sequence[ViewSink]) -> DataFrame | None:
        """The frame that applies the deltas of all views; None if no table of a view has changed and none is due.

        Fragments that read only the store share one program, so each common operator runs once.
        """
        changed = [v for v in views if is_touched(v, self._states, self._touched, self._due)]
        selection_groups = group_selections(changed, anywhere=self._stages.single)
        grouped = {selection.view.state for selections in selection_groups for selection in selections}
        sinks = [self._fan_out(selections) for selections in selection_groups]
        alone = {v.state: sink for v in changed if v.state not in grouped and (sink := self._sink(v)) is not None}
        self.fed = frozenset(state for state, sink in alone.items() if sink.is_fed)
        sinks += alone.values()
        sinks += self._arrangement_sinks.values()
        frames = [self._stages.to_frame([sink]) for sink in sinks if sink.is_fed]
        if store_only := [sink for sink in sinks if not sink.is_fed]:
            frames.append(self._stages.to_frame(store_only))
        return reduce(DataFrame.union, frames) if frames else None

    def _sink(self, view: ViewSink) -> Fragment | None:
        delta = self.delta(view.plan.root)
        if delta is None:
            return None
        rule = Sink(view.state, view.plan.columns, view.plan.key, self._limit)
        return self._flows.apply_rule(rule, [(delta, view.plan.place)], REPORT_FIELDS)

    def _fan_out(self, selections: Sequence[Selection]) -> Fragment:
        """One operator that applies a table's delta to all views that differ only in their conditions."""
        first = selections[0]
        delta = self.delta(first.scan)
        assert delta is not None
        plan, items = first.view.plan, tuple(column(p) for p in first.items)
        views = tuple((s.view.state, s.conditions) for s in selections)
        fan_out = FanOut(Sink(0, plan.columns, plan.key, self._limit), items, plan.place, views, self._stages.shards)
        return Fragment(fan_out, (to_fragment(delta),), REPORT_FIELDS)

    def delta(self, node: Node, *, net: bool = True) -> Flow | None:
        """The node's delta in the epoch; None if none of its tables changed and none of its rows is due.

        Without `net` the delta may contain rows that cancel out. That is enough if it is only summed.
        """
        net = net or self._netted
        # A stateful operator must be compiled once only: it ignores `net`.
        cache_key = node.fingerprint, net or isinstance(node, arrangements.Stateful)
        if cache_key not in self._deltas:
            self._deltas[cache_key] = self._compile_node(node, net)
        return self._deltas[cache_key]

    def _compile_node(self, node: Node, net: bool) -> Flow | None:
        match node:
            case Scan():
                return self._scan(node, net)
            case Filter():
                delta = self.delta(node.input, net=net)
                return delta and self._flows.filter(delta, node.condition)
            case Project():
                delta = self.delta(node.input, net=net)
                return delta and self._project(node, delta)
            case OneRow():
                return self._one_row()
            case Generate():
                delta = self.delta(node.input, net=net)
                return delta and self._generate(node, delta)
            case UnionAll():
                return self._flows.union([d for b in node.branches if (d := self.delta(b, net=net)) is not None])
            case Join():
                return self._join(node)
            case Aggregate():
                return self._generic_aggregate(node) if arrangements.is_generic(node) else self._aggregate(node)
            case Window():
                return self._window(node)
            case TopK():
                return self._top(node)
            case TemporalFilter():
                return self._temporal(node)
        raise NotImplementedError(type(node).__name__)

    # linear operators

    def _scan(self, node: Scan, net: bool) -> Flow | None:
        if self._touched is not None and node.table_id not in self._touched:
            return None
        fields = delta_fields(node.columns)
        read = Read(self._tables[node.table_id], node.positions, net)
        return Flow(Fragment(read, (), fields), fields, placement(node))

    def _project(self, node: Project, delta: Flow) -> Flow:
        new_positions = {column_of(e): i for i, e in reversed(list(enumerate(node.expressions)))}
        placed_by = None
        if delta.placed_by is not None and all(p in new_positions for p in delta.placed_by):
            placed_by = tuple(new_positions[p] for p in delta.placed_by)
        named = zip(node.expressions, node.columns, strict=True)
        return self._flows.select(delta, [(e, column(i), c.type) for i, (e, c) in enumerate(named)], placed_by)

    def _one_row(self) -> Flow | None:
        """A constant row: inserted when a view is built, never changed afterwards."""
        if not self._blank:
            return None
        return Flow(self._stages.spark.range(0, 1, 1, 1).selectExpr(f"1L AS {WEIGHT}"), (WEIGHED,), None)

    def _generate(self, node: Generate, delta: Flow) -> Flow:
        """ΔG(A) = G(ΔA): generated rows have the weight and the task of their input row."""
        width = len(node.input.columns)
        generated = ", ".join(column(width + i) for i in range(len(node.output)))
        copied = [column(i) for i in range(width)]
        rows = self._flows.to_frame(delta).selectExpr(*copied, f"{node.generator} AS ({generated})", WEIGHT)
        return Flow(rows, delta_fields(node.columns), delta.placed_by)

    # operators with state

    def _arranged(self, arrangement: Arrangement, node: Node, by: Key) -> Arranged:
        """The state that holds a node's rows, sorted by the columns `by`."""
        return Arranged(self._states[arrangement.fingerprint], node.columns, node.key, by, self._limit)

    def _join(self, node: Join) -> Flow | None:
        sides = (node.left, node.right)
        deltas = [self.delta(side) for side in sides]
        if all(d is None for d in deltas):
            return None
        inputs = []
        for number, on in enumerate((node.left_on, node.right_on)):
            delta = deltas[number]
            flow = delta or self._empty_delta(sides[number])
            if DROPS_NULLS[node.kind][number] and delta is not None:
                not_null = [f"{column(p)} IS NOT NULL" for p, safe in zip(on, node.null_safe, strict=True) if not safe]
                flow = self._flows.filter(flow, " AND ".join(not_null)) if not_null else flow
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
            if deltas[other] is None and self._can_look_up(node, sides[number], inputs[number][0]):
                return self._look_up(rule, number, *inputs[number], fields)
        return Flow(self._flows.apply_rule(rule, inputs, fields), fields, placement(node))

    def _can_look_up(self, node: Join, side: Node, flow: Flow) -> bool:
        """Whether `side`, if only it changed, is joined by lookups from the tasks that read its delta.

        Its delta is then computed twice, for the join and for its arrangement, so it must be stateless.
        """
        if self._stages.single or node.kind != "inner" or not isinstance(flow.source, Fragment) or flow.source.is_fed:
            return False
        on = node.left_on if side is node.left else node.right_on
        is_stateless = not any(isinstance(n, arrangements.Stateful) for n in walk(side))
        return is_stateless and bool(on) and all(is_scalar(side.columns[p].type) for p in on)

    def _look_up(self, rule: JoinRule, number: int, flow: Flow, on: Sequence[int], fields: Fields) -> Flow:
        """ΔA⋈B_old without moving ΔA: each task reads B from the shards of its join keys.

        Side `number` (0 left, 1 right) is the one that changed. Only the update of its arrangement is exchanged.
        """
        arranged = (rule.left, rule.right)[number]
        if arranged.state not in self._arrangement_sinks:
            update = self._flows.apply_rule(Arrange(arranged), [(flow, on)], REPORT_FIELDS)
            self._arrangement_sinks[arranged.state] = update
        delta, names = to_fragment(flow), tuple(flow.fields[p][0] for p in on)
        lookup = Lookup(rule, "left" if number else "right")
        joined = Fragment(Keep(lookup, (delta.schema,), (names,), self._stages.shards), (delta,), fields)
        offset = len(rule.left.columns) if number else 0
        return Flow(joined, fields, None if flow.placed_by is None else tuple(offset + p for p in flow.placed_by))

    @staticmethod
    def _empty_delta(node: Node) -> Flow:
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
        fields = tuple((f.name, types.name(f.type)) for f in rule.output)
        accumulated = Flow(self._flows.apply_rule(rule, [(contributions, groups)], fields), fields, groups)
        group_items = [(column(i), column(i), columns[p].type) for i, p in enumerate(node.groups)]
        answer_items = [
            (a, column(len(groups) + i), c.type) for i, (a, c) in enumerate(zip(answers, node.calls, strict=True))
        ]
        return self._flows.select(accumulated, group_items + answer_items, placement(node))

    def _contributions(self, node: Aggregate, slots: Slots) -> Flow | None:
        """What the delta's rows add to the accumulators of their groups.

        Plain sums are computed per group before rows are exchanged: by the log reader, or (in a large epoch) by
        Spark, whose groupBy places groups in the same tasks as their shards. Other accumulators need every row.
        """
        needs_rows = bool(slots.floats or slots.spreads or slots.values)
        if not needs_rows and (totals := self._log_totals(node, slots)) is not None:
            return totals
        delta = self.delta(node.input, net=needs_rows)
        if delta is None:
            return None
        items = [(column(p), column(i), node.input.columns[p].type) for i, p in enumerate(node.groups)]
        items += [(c.sql, f"s{i}", c.type) for i, c in enumerate(slots.sums)]
        items += [(f"CAST({column(p)} AS DOUBLE)", f"f{i}", "double") for i, p in enumerate(slots.floats)]
        items += [(f"CAST({column(p)} AS DOUBLE)", f"m{i}", "double") for i, p in enumerate(slots.spreads)]
        items += [(column(p), f"x{i}", node.input.columns[p].type) for i, p in enumerate(slots.values)]
        seeded = self._seed(node, delta)
        placed_by = tuple(range(len(node.groups))) if seeded.placed_by == node.groups else None
        flow = self._flows.select(seeded, items, placed_by)
        return flow if needs_rows or self._stages.single else self._sum_in_spark(node, slots, flow)

    def _sum_in_spark(self, node: Aggregate, slots: Slots, flow: Flow) -> Flow:
        names = [column(i) for i in range(len(node.groups))]
        sums = [F.expr(f"coalesce(sum(s{i}), 0)").cast(c.type).alias(f"s{i}") for i, c in enumerate(slots.sums)]
        weight = F.expr(f"coalesce(sum({WEIGHT}), 0L)").alias(WEIGHT)
        totals = self._flows.to_frame(flow).groupBy(*names).agg(*sums, weight)
        return Flow(totals, flow.fields, tuple(range(len(names))))

    def _log_totals(self, node: Aggregate, slots: Slots) -> Flow | None:
        """Sums computed by the log reader; None unless the aggregate is over plain columns of a changed table."""
        picked = _plain_scan(node.input)
        if picked is None or not all(c.plain for c in slots.sums) or self._blank:
            return None
        if not all(is_scalar(node.input.columns[p].type) for p in node.groups):
            return None  # Arrow cannot group by arrays and structs
        scan, positions = picked
        if self._touched is not None and scan.table_id not in self._touched:
            return None
        sums = tuple(
            Total(c.plain[0], tuple(positions[a] for a in c.plain[1]), c.type)
            for c in slots.sums
            if c.plain is not None
        )
        totals = Totals(tuple(positions[g] for g in node.groups), sums)
        fields: Fields = (
            *((column(i), node.input.columns[p].type) for i, p in enumerate(node.groups)),
            *((f"s{i}", t.type) for i, t in enumerate(sums)),
            WEIGHED,
        )
        read = ReadTotals(self._tables[scan.table_id], scan.positions, totals)
        return Flow(Fragment(read, (), fields), fields, None)

    def _generic_aggregate(self, node: Aggregate) -> Flow | None:
        """Any other aggregate, by affected groups (`rules/affected.py`): Spark recomputes every touched group."""
        delta = self.delta(node.input)
        self.reusable = False  # Spark's aggregation may shuffle, for example if there are several DISTINCT calls
        if delta is None:
            return None
        rows, outputs = arrangements.generic_arrangements(node)
        arranged = self._arranged(rows, node.input, node.groups)
        seeded = self._seed(node, delta)
        fields = (*delta_fields(node.input.columns)[:-1], (LIVE, "boolean"), WEIGHED)
        frame = self._stages.to_frame([self._flows.apply_rule(Affected(arranged), [(seeded, node.groups)], fields)])
        if node.input.key is None:
            frame = frame.withColumn("_copy", F.expr(f"explode(sequence(1L, {WEIGHT}))"))
        calls = [F.expr(f"{c.sql} FILTER (WHERE {LIVE})").alias(f"a{i}") for i, c in enumerate(node.calls)]
        group_columns = [column(p) for p in node.groups]
        live = F.expr(f"coalesce(bool_or({LIVE}), false)").alias(LIVE)
        frame = frame.groupBy(*group_columns).agg(live, F.count(F.lit(1)).alias("_came"), *calls)
        frame = frame.where("_came > 0")  # without GROUP BY, Spark returns a row even if there is no input row
        names = [column(i) for i in range(len(node.groups))]
        groups = [f"{p} AS {n}" for p, n in zip(group_columns, names, strict=True)]
        answers = [f"CAST(a{i} AS {c.type}) AS {column(len(names) + i)}" for i, c in enumerate(node.calls)]
        output_fields = delta_fields(node.columns)
        by = tuple(range(len(names)))
        flow = Flow(frame.selectExpr(*groups, *answers, LIVE), (*output_fields[:-1], (LIVE, "boolean")), by)
        rule = Outputs(self._arranged(outputs, node, by), always=not node.groups)
        return Flow(self._flows.apply_rule(rule, [(flow, by)], output_fields), output_fields, placement(node))

    def _window(self, node: Window) -> Flow | None:
        """Window functions, by affected partitions (`spark/windowing.py`)."""
        delta = self.delta(node.input)
        if delta is None:
            return None
        rows, outputs = arrangements.window_arrangements(node)
        arranged = self._arranged(rows, node.input, node.partition)
        fields = (*delta_fields(node.input.columns)[:-1], (LIVE, "boolean"), WEIGHED)
        touched = self._stages.to_frame([self._flows.apply_rule(Affected(arranged), [(delta, node.partition)], fields)])
        output_fields = delta_fields(node.columns)
        windows = windowing.compute_windows(node, touched)
        flow = Flow(windows, (*output_fields[:-1], (LIVE, "boolean")), node.partition)
        rule = Outputs(self._arranged(outputs, node, node.partition))
        answers = self._flows.apply_rule(rule, [(flow, node.partition)], output_fields)
        return Flow(answers, output_fields, placement(node))

    def _top(self, node: TopK) -> Flow | None:
        delta = self.delta(node.input)
        if delta is None:
            return None
        rule = First.of(node, self._states[arrangements.top_arrangement(node).fingerprint], self._limit)
        fields = delta_fields(node.columns)
        return Flow(self._flows.apply_rule(rule, [(delta, node.partition)], fields), fields, placement(node))

    def _temporal(self, node: TemporalFilter) -> Flow | None:
        """Changed rows at the time of the epoch, and the rows whose border is in it (`rules/borders.py`)."""
        delta = self.delta(node.input)
        state, place = self._states[arrangements.border_arrangement(node).fingerprint], border_place(node)
        rule = Crossed.of(node, state, self._limit)
        *rows, weight = delta_fields(node.input.columns)
        timed = (*rows, (AT, "bigint"), weight)
        flows = []
        if delta is not None:
            flows.append(Flow(Fragment(Stamp(rule.timed), (to_fragment(delta),), timed), timed, delta.placed_by))
        if state in self._due and not self._blank:
            flows.append(Flow(Fragment(ReadCrossed(rule), (), timed), timed, place))
        merged = flows[0] if len(flows) == 1 else self._flows.union(flows)
        if merged is None:
            return None
        if all(flow.placed_by == place and not to_fragment(flow).is_fed for flow in flows):
            merged = replace(merged, placed_by=place)
        fields = delta_fields(node.columns)
        return Flow(self._flows.apply_rule(rule, [(merged, place)], fields), fields, place)

    def _seed(self, node: Aggregate, flow: Flow) -> Flow:
        """Adds a row of weight 0 if a view without GROUP BY is built: it has one row even over an empty table."""
        if node.groups or not self._blank:
            return flow
        seed = Fragment(Seed(to_fragment(flow).schema), (), flow.fields)
        merged = self._flows.union([flow, Flow(seed, flow.fields, None)])
        assert merged is not None
        return merged


def is_touched(view: ViewSink, states: Mapping[str, int], touched: frozenset[int] | None, due: frozenset[int]) -> bool:
    """Whether a view may change: one of its tables has changed (None: all have), or some of its rows are due."""
    if touched is None or view.plan.tables & touched:
        return True
    return bool(due) and any(states[fingerprint] in due for fingerprint in view.plan.temporal)


def _plain_scan(node: Node) -> tuple[Scan, list[int]] | None:
    """The scan under a projection of plain columns, and for each output its position in the scan; None otherwise."""
    if isinstance(node, Scan):
        return node, list(range(len(node.positions)))
    if isinstance(node, Project) and isinstance(node.input, Scan):
        positions = [column_of(e) for e in node.expressions]
        if all(p is not None for p in positions):
            return node.input, [p for p in positions if p is not None]
    return None
