"""Session windows: `session_window(ts, gap)` in GROUP BY, by window functions over the rows of each group.

    previous  =  MAX(ts) over the rows of the group with a smaller ts
    first     =  ts if it begins a session: there is no previous ts, or it is more than `gap` before
    start     =  MAX(first) over the rows of the group with the same or a smaller ts

The rows of a session have the same start, so the query groups by it. Its end is `MAX(ts) + gap`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.delta import column
from tailrace.plan.expressions import parse_expr
from tailrace.plan.nodes import Key, Node, Project, Window, WindowCall, column_of
from tailrace.plan.sql.dialect import generate
from tailrace.plan.typing import Types
from tailrace.types import Column

_BEFORE = "RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
_SO_FAR = "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


def with_sessions(source: Node, micros: str, gap: int, keys: Sequence[str], types: Types) -> Node:
    """The rows with two more columns: the start of their session and their own time, both in microseconds.

    `micros` is the time of a row; `keys` are the expressions that the query groups by besides the session.
    """
    width = len(source.columns)
    extra = list(dict.fromkeys(text for text in keys if column_of(text) is None))
    named = [Column(text, kind) for text, kind in zip(extra, types.of(source.columns, extra), strict=True)]
    shown = [*range(width)]
    node: Node = _extended(source, [*extra, micros], [*named, Column("micros", "bigint")])
    time = len(node.columns) - 1
    partition = tuple(dict.fromkeys(width + extra.index(k) if k in extra else int(k[1:]) for k in keys))
    node = _running_max(node, partition, time, time, _BEFORE)
    own, previous = column(time), column(time + 1)
    first = f"CASE WHEN {previous} IS NULL OR {own} > {previous} + {gap} THEN {own} END"
    node = _extended(node, [generate(parse_expr(first))], [Column("first", "bigint")])
    node = _running_max(node, partition, time, time + 2, _SO_FAR)
    shown += [time + 3, time]
    return Project(node, tuple(map(column, shown)), tuple(node.columns[p] for p in shown))


def _extended(source: Node, texts: Sequence[str], columns: Sequence[Column]) -> Node:
    copied = tuple(column(i) for i in range(len(source.columns)))
    return Project(source, (*copied, *texts), (*source.columns, *columns))


def _running_max(source: Node, partition: Key, time: int, value: int, frame: str) -> Node:
    call = WindowCall("max", (value,), f"MAX({column(value)})", frame, "bigint")
    return Window(source, partition, ((time, True, True),), (call,))
