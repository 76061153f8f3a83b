"""Orders: what ORDER BY leaves open, decided once for all, so that every answer has one reason.

Rows that an ORDER BY does not tell apart follow each other by the key of their relation, or, where it has
none, by all of its columns. Functions that treat such rows alike (`rank`, RANGE frames) are not given more
order than the user wrote.
"""

from __future__ import annotations

from tailrace.delta import column
from tailrace.plan.nodes import Aggregate, Call, Key, Node, Order, TopK, Window, WindowCall
from tailrace.types import is_scalar

_PEERS = ("rank", "dense_rank", "percent_rank", "cume_dist")
_SINGLE = ("row_number", "ntile", "lead", "lag", "counter_diff")
# Over a RANGE frame these are had as the least or greatest by row number.
ENDS = {"first_value": "min_by", "first": "min_by", "any_value": "min_by", "last_value": "max_by", "last": "max_by"}
_LISTS = ("nth_value", "array_agg", "collect_list", "collect_set", "collect_union", "listagg", "string_agg")
EXTREMES_BY = ("max_by", "min_by")
_WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
NUMBER = "_number"


def ties(source: Node, partition: Key, order: Order) -> Key:
    """Positions that decide, ascending, between rows of a partition that are equal in the order.

    Arrays, maps and structs come last: hardly ever do all others leave two rows equal.
    """
    taken = {*partition, *(p for p, _, _ in order)}
    every = range(len(source.columns)) if source.key is None else source.key
    rest = [p for p in every if p not in taken]
    return tuple(sorted(rest, key=lambda p: not is_scalar(source.columns[p].type)))


def is_total(source: Node, partition: Key, order: Order) -> bool:
    """Whether no two rows of a partition are equal in the order, so that it leaves nothing open."""
    return source.key is not None and not ties(source, partition, order)


def whole_order(node: Window | TopK) -> Order:
    """The order with its ties, as far as Spark can compare them: maps it cannot."""
    more = (p for p in ties(node.input, node.partition, node.order) if "map<" not in node.input.columns[p].type)
    return node.order + tuple((p, True, True) for p in more)


def sorted_sql(order: Order) -> str:
    """What stands after ORDER BY."""
    return ", ".join(
        f"{column(p)} {'ASC' if ascending else 'DESC'} NULLS {'FIRST' if nulls_first else 'LAST'}"
        for p, ascending, nulls_first in order
    )


def over(partition: Key, order: Order, frame: str) -> str:
    """An OVER clause."""
    parts = []
    if partition:
        parts.append("PARTITION BY " + ", ".join(map(column, partition)))
    if order:
        parts.append("ORDER BY " + sorted_sql(order))
    return f"OVER ({' '.join([*parts, *filter(None, [frame])])})"


def looks_at_peers(call: WindowCall, order: Order) -> bool:
    """Whether the call treats rows that are equal in the order alike, so that the order must stay as it is."""
    if call.function in _SINGLE:
        return False
    return call.function in _PEERS or (bool(order) and not _by_rows(call))


def leaves_open(call: WindowCall, order: Order) -> bool:
    """Whether the call lists or counts off rows that are equal in the order, over a frame that has them all."""
    return _lists(call) and looks_at_peers(call, order)


def _lists_in_order(call: Call | WindowCall) -> bool:
    """Whether the call has its own order: LISTAGG(x) WITHIN GROUP (ORDER BY y)."""
    return call.function in _LISTS and "WITHIN GROUP" in call.sql


def _lists(call: WindowCall) -> bool:
    return call.function in _LISTS and not _lists_in_order(call)


def picks_any(call: Call | WindowCall, source: Node, partition: Key) -> bool:
    """Whether an aggregate of a partition's rows takes any of those that are equal by what it orders them by."""
    value, by = call.args[:1], call.args[1:]
    if call.function not in EXTREMES_BY and (not _lists_in_order(call) or set(value) <= set(by)):
        return False
    return not is_total(source, partition, tuple((p, True, True) for p in by))


def is_decided(node: Aggregate | Window | TopK) -> bool:
    """Whether the SQL alone says every value: nothing depends on what the order leaves open."""
    if isinstance(node, Aggregate):
        return not any(picks_any(c, node.input, node.groups) for c in node.calls)
    if isinstance(node, Window) and any(picks_any(c, node.input, node.partition) for c in node.calls):
        return False
    if is_total(node.input, node.partition, node.order):
        return True
    return isinstance(node, Window) and all(
        c.function in _PEERS or not (c.function in (*_SINGLE, *ENDS) or _lists(c) or _by_rows(c)) for c in node.calls
    )


def _by_rows(call: WindowCall) -> bool:
    return call.frame.startswith("ROWS")


def window_sql(node: Window) -> tuple[str | None, list[str]]:
    """Spark SQL of the calls over the input's rows; and of a column they need beside it, called `NUMBER`."""
    texts = [_call_sql(node, call) for call in node.calls]
    number = f"row_number() {over(node.partition, whole_order(node), '')}"
    return (number if any(NUMBER in t for t in texts) else None), texts


def _call_sql(node: Window, call: WindowCall) -> str:
    total = is_total(node.input, node.partition, node.order)
    if looks_at_peers(call, node.order):
        if total or call.function not in ENDS:
            return f"{call.sql} {over(node.partition, node.order, call.frame)}"
        return f"{_end_sql(call)} {over(node.partition, node.order, call.frame)}"
    if not node.order and not _by_rows(call):
        if call.function not in ENDS and not _lists(call):
            return f"{call.sql} {over(node.partition, (), call.frame)}"
        return f"{call.sql} {over(node.partition, whole_order(node), _WHOLE)}"
    return f"{call.sql} {over(node.partition, whole_order(node), call.frame)}"


def _end_sql(call: WindowCall) -> str:
    """FIRST_VALUE(x) as the x of the least row number in the frame; with IGNORE NULLS of those that have an x."""
    value = column(call.args[0])
    skips = "IGNORE NULLS" in call.sql.upper() or call.sql.upper().replace(" ", "").endswith(",TRUE)")
    by = f"IF({value} IS NULL, NULL, {NUMBER})" if skips else NUMBER
    return f"{ENDS[call.function]}({value}, {by})"
