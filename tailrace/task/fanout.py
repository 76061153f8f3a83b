"""Many selections of one table: all that they have in common is done once.

    V_i = σ_i(π(T))        ΔV_i = σ_i(π(ΔT))

The changed rows are projected, placed, encoded and sorted as if all went into one view. What is left for each view is
its condition, and to take its rows out of those. With thousands of views a row or two go to each, and what an
operator costs before it sees the first of them is what counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.delta import WEIGHT, column, delta_fields
from tailrace.plan.nodes import Filter, Project, Scan, column_of
from tailrace.plan.physical.physical_plan import ViewSink
from tailrace.rules.arrow import compiled
from tailrace.rules.arrow.compiled import Expression
from tailrace.rules.sink import REPORT, Sink
from tailrace.task.program import Tables, Task, add_shards

MANY = 4  # views from which on it pays to encode rows that none of them may want


@dataclass(frozen=True)
class FanOut:
    """Stores the deltas of views with equal columns, key and place; gives a line of report for each.

    `items` are the columns of the table that the views show. A view takes the rows that meet all its conditions.
    """

    sink: Sink
    items: tuple[str, ...]
    place: tuple[int, ...]
    views: tuple[tuple[int, tuple[Expression, ...]], ...]
    shards: int

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        (rows,) = inputs
        if rows is None or not rows.num_rows:
            return None
        names = [column(i) for i in range(len(self.items))]
        shown = pa.Table.from_arrays([*(rows.column(n) for n in self.items), rows.column(WEIGHT)], [*names, WEIGHT])
        placed = add_shards(shown, [names[p] for p in self.place], self.shards).combine_chunks()
        candidates = self.sink.sorted(placed)
        (batch,) = rows.take(pa.array(candidates.at)).combine_chunks().to_batches()
        writes = [candidates.write(state, _meeting(conditions, batch)) for state, conditions in self.views]
        task.keep(writes)
        return pa.table([[w.state for w in writes], [len(w.keys) for w in writes]], schema=REPORT)


def _meeting(conditions: Sequence[Expression], rows: pa.RecordBatch) -> np.ndarray:
    """For each row whether it meets the conditions: NULL does not."""
    met = np.ones(rows.num_rows, bool)
    for condition in conditions:
        met &= pc.fill_null(condition(rows), False).to_numpy(zero_copy_only=False)
    return met


@dataclass(frozen=True)
class Selection:
    """A view that shows some columns (`items`) of the rows of a table that meet conditions."""

    view: ViewSink
    scan: Scan
    items: tuple[int, ...]
    conditions: tuple[Expression, ...]

    @property
    def shown(self) -> object:
        """Equal for those that differ in their conditions only."""
        plan = self.view.plan
        return self.scan.fingerprint, self.items, plan.key, tuple(c.type for c in plan.columns), plan.place


def group_selections(views: Sequence[ViewSink], *, anywhere: bool) -> list[list[Selection]]:
    """Those of the views that are selections of one table, many each that differ in their conditions only.

    Their rows must stay where they are; with `anywhere` all rows are in one task.
    """
    found: dict[object, list[Selection]] = {}
    for view in views:
        selection = _selection(view)
        if selection is not None and (anywhere or view.plan.is_placed):
            found.setdefault(selection.shown, []).append(selection)
    return [selections for selections in found.values() if len(selections) >= MANY]


def _selection(view: ViewSink) -> Selection | None:
    node = view.plan.root
    items: tuple[int | None, ...] = tuple(range(len(node.columns)))
    if isinstance(node, Project):
        items, node = tuple(column_of(e) for e in node.expressions), node.input
    texts = []
    while isinstance(node, Filter):
        texts.append(node.condition)
        node = node.input
    picked = tuple(p for p in items if p is not None)
    if view.plan.key is None or not isinstance(node, Scan) or picked != items:
        return None
    fields = dict(delta_fields(node.columns))
    conditions = [compiled.compile(text, fields, "boolean") for text in texts]
    there = tuple(c for c in conditions if c is not None)
    return Selection(view, node, picked, there) if len(there) == len(conditions) else None
