"""Tie-breaking: the order of rows that ORDER BY leaves equal (peers), so that results are deterministic.

Peers are ordered by the key of their relation, or by all its columns if it has no key. Functions that treat peers alike
(`rank`, RANGE frames) get the user's ORDER BY unchanged.
"""

from __future__ import annotations

from tailrace.delta import column
from tailrace.plan.nodes import Aggregate, Call, Key, Node, Order, TopK, Window, WindowCall
from tailrace.types import is_scalar

_RANKS = ("rank", "dense_rank", "percent_rank", "cume_dist")
_ROW_BY_ROW = ("row_number", "ntile", "lead", "lag", "counter_diff")
# Over a RANGE frame these are computed as the value with the least or greatest row number.
ENDS = {"first_value": "min_by", "first": "min_by", "any_value": "min_by", "last_value": "max_by", "last": "max_by"}
_LISTS = ("nth_value", "array_agg", "collect_list", "collect_set", "collect_union", "listagg", "string_agg")
EXTREMES_BY = ("max_by", "min_by")
_WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
NUMBER = "_number"


def ties(source: Node, partition: Key, order: Order) -> Key:
    """The positions that break ties between rows of a partition that are equal in `order`, all ascending.

    Nested types come last: they are rarely needed.
    """
    ordered = {*partition, *(p for p, _, _ in order)}
    identifying = range(len(source.columns)) if source.key is None else source.key
    rest = [p for p in identifying if p not in ordered]
    return tuple(sorted(rest, key=lambda p: not is_scalar(source.columns[p].type)))


def is_total(source: Node, partition: Key, order: Order) -> bool:
    """Whether the order is total: no two rows of a partition are equal in it."""
    return source.key is not None and not ties(source, partition, order)


def whole_order(node: Window | TopK) -> Order:
    """The order followed by its tie-breaking columns, without maps, which Spark cannot compare."""
    tie_breaks = (p for p in ties(node.input, node.partition, node.order) if "map<" not in node.input.columns[p].type)
    return node.order + tuple((p, True, True) for p in tie_breaks)


def _order_sql(order: Order) -> str:
    """The sort items of an ORDER BY clause."""
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
        parts.append("ORDER BY " + _order_sql(order))
    return f"OVER ({' '.join([*parts, *filter(None, [frame])])})"


def _treats_peers_alike(call: WindowCall, order: Order) -> bool:
    """Whether peers get the same value, so that the order must stay as the user wrote it."""
    if call.function in _ROW_BY_ROW:
        return False
    return call.function in _RANKS or (bool(order) and not _has_rows_frame(call))


def lists_peers(call: WindowCall, order: Order) -> bool:
    """Whether the value depends on the order among peers although the call's frame always holds all of them."""
    return _lists_in_window_order(call) and _treats_peers_alike(call, order)


def _lists_in_own_order(call: Call | WindowCall) -> bool:
    """LISTAGG(x) WITHIN GROUP (ORDER BY y)."""
    return call.function in _LISTS and "WITHIN GROUP" in call.sql


def _lists_in_window_order(call: WindowCall) -> bool:
    return call.function in _LISTS and not _lists_in_own_order(call)


def needs_tie_break(call: Call | WindowCall, source: Node, partition: Key) -> bool:
    """Whether the call has its own order (`max_by`, `WITHIN GROUP`) and rows of a partition may be equal in it."""
    value, by = call.args[:1], call.args[1:]
    if call.function not in EXTREMES_BY and (not _lists_in_own_order(call) or set(value) <= set(by)):
        return False
    return not is_total(source, partition, tuple((p, True, True) for p in by))


def is_decided(node: Aggregate | Window | TopK) -> bool:
    """Whether the SQL alone determines every value; False if a tie-break may."""
    if isinstance(node, Aggregate):
        return not any(needs_tie_break(c, node.input, node.groups) for c in node.calls)
    if isinstance(node, Window) and any(needs_tie_break(c, node.input, node.partition) for c in node.calls):
        return False
    if is_total(node.input, node.partition, node.order):
        return True
    return isinstance(node, Window) and not any(_depends_on_ties(c) for c in node.calls)


def _depends_on_ties(call: WindowCall) -> bool:
    if call.function in _RANKS:
        return False
    return call.function in (*_ROW_BY_ROW, *ENDS) or _lists_in_window_order(call) or _has_rows_frame(call)


def _has_rows_frame(call: WindowCall) -> bool:
    return call.frame.startswith("ROWS")


def window_sql(node: Window) -> tuple[str | None, list[str]]:
    """Spark SQL of the row number that the calls read as column `NUMBER` (None: they do not), and of the calls."""
    texts = [_call_sql(node, call) for call in node.calls]
    number = f"row_number() {over(node.partition, whole_order(node), '')}"
    return (number if any(NUMBER in t for t in texts) else None), texts


def _call_sql(node: Window, call: WindowCall) -> str:
    total = is_total(node.input, node.partition, node.order)
    if _treats_peers_alike(call, node.order):
        if total or call.function not in ENDS:
            return f"{call.sql} {over(node.partition, node.order, call.frame)}"
        return f"{_end_sql(call)} {over(node.partition, node.order, call.frame)}"
    if not node.order and not _has_rows_frame(call):
        if call.function not in ENDS and not _lists_in_window_order(call):
            return f"{call.sql} {over(node.partition, (), call.frame)}"
        return f"{call.sql} {over(node.partition, whole_order(node), _WHOLE)}"
    return f"{call.sql} {over(node.partition, whole_order(node), call.frame)}"


def _end_sql(call: WindowCall) -> str:
    """FIRST_VALUE(x) as the x with the least row number in the frame; IGNORE NULLS skips rows whose x is NULL."""
    value = column(call.args[0])
    ignores_nulls = "IGNORE NULLS" in call.sql.upper() or call.sql.upper().replace(" ", "").endswith(",TRUE)")
    by = f"IF({value} IS NULL, NULL, {NUMBER})" if ignores_nulls else NUMBER
    return f"{ENDS[call.function]}({value}, {by})"
