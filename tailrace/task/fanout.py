"""Fan-out: maintains many selections of one table together, doing their common work once.

    V_i = σ_i(π(T))        ΔV_i = σ_i(π(ΔT))

The changed rows are projected, placed on shards, encoded and sorted once, as if for one view. Each view then only
evaluates its condition and takes its rows. With thousands of views each gets a row or two, so the fixed cost of an
operator dominates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.delta import WEIGHT, column, delta_fields
from tailrace.plan.nodes import Filter, Project, Scan, column_of
from tailrace.plan.physical.physical_plan import ViewSink
from tailrace.rules.arrow import compiled
from tailrace.rules.arrow.compiled import Expression
from tailrace.rules.sink import REPORT, Sink
from tailrace.sent_errors import blaming
from tailrace.task.program import Tables, Task, add_shards

MANY = 4  # least number of views for which encoding rows that no view may need pays off


@dataclass(frozen=True)
class FanOut:
    """Stores the deltas of views with equal columns, key and place; emits one report row per view.

    `items` are the columns of the table that the views select. `views` are their states and conditions: a view takes
    the rows that satisfy all its conditions.
    """

    sink: Sink
    items: tuple[str, ...]
    place: tuple[int, ...]
    views: tuple[tuple[int, tuple[Expression, ...]], ...]
    shards: int

    @property
    def view_states(self) -> list[int]:
        return [state for state, _ in self.views]

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        (rows,) = inputs
        if rows is None or not rows.num_rows:
            return None
        names = [column(i) for i in range(len(self.items))]
        projected = pa.Table.from_arrays([*(rows.column(n) for n in self.items), rows.column(WEIGHT)], [*names, WEIGHT])
        placed = add_shards(projected, [names[p] for p in self.place], self.shards).combine_chunks()
        candidates = self.sink.sorted(placed)
        (batch,) = rows.take(pa.array(candidates.at)).combine_chunks().to_batches()
        writes = []
        for state, conditions in self.views:
            with blaming(partial(list, (state,))):
                writes.append(candidates.write(state, _evaluate(conditions, batch)))
        task.keep(writes)
        return pa.table([[w.state for w in writes], [len(w.keys) for w in writes]], schema=REPORT)


def _evaluate(conditions: Sequence[Expression], rows: pa.RecordBatch) -> np.ndarray:
    """For each row whether all conditions are true. NULL counts as false."""
    mask = np.ones(rows.num_rows, bool)
    for condition in conditions:
        mask &= pc.fill_null(condition(rows), False).to_numpy(zero_copy_only=False)
    return mask


@dataclass(frozen=True)
class Selection:
    """A view of the form `SELECT items FROM scan WHERE conditions`."""

    view: ViewSink
    scan: Scan
    items: tuple[int, ...]
    conditions: tuple[Expression, ...]

    @property
    def projection(self) -> object:
        """Equal for selections that differ only in their conditions."""
        plan = self.view.plan
        return self.scan.fingerprint, self.items, plan.key, tuple(c.type for c in plan.columns), plan.place


def group_selections(views: Sequence[ViewSink], *, anywhere: bool) -> list[list[Selection]]:
    """Groups of at least MANY views that are selections of one table and differ only in their conditions.

    Includes only views whose rows need no shuffle; `anywhere`: no view needs one, because all rows are in one task.
    """
    groups: dict[object, list[Selection]] = {}
    for view in views:
        selection = _to_selection(view)
        if selection is not None and (anywhere or view.plan.is_placed):
            groups.setdefault(selection.projection, []).append(selection)
    return [selections for selections in groups.values() if len(selections) >= MANY]


def _to_selection(view: ViewSink) -> Selection | None:
    """The view as a selection; None if it is none, has no key, or has a condition that Arrow cannot evaluate."""
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
    compiled_conditions = tuple(c for c in conditions if c is not None)
    if len(compiled_conditions) < len(conditions):
        return None
    return Selection(view, node, picked, compiled_conditions)
