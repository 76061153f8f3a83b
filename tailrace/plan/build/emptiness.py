"""The values of aggregates over an empty group."""

from __future__ import annotations

from sqlglot import exp

from tailrace.plan.expressions import cast
from tailrace.plan.nodes import Call
from tailrace.plan.sql.refuse import unsupported

_ZERO = ("approx_count_distinct", "count", "count_if", "regr_count")
_NO_ELEMENTS = ("array_agg", "collect_list", "collect_set")
_SKETCHES = ("approx_top_k", "bitmap_", "collect_union", "count_min_sketch", "hll_", "kll_", "theta_", "tuple_")


def value_or_empty(call: Call, text: str, origin: exp.Expr) -> str:
    """`text`, the call's value after an outer join with its groups; for a missing group, the value over no rows."""
    empty = _empty_value(call, origin)
    return text if empty is None else f"COALESCE({text}, {cast(empty, call.type)})"


def is_null_if_empty(call: Call, origin: exp.Expr) -> bool:
    return _empty_value(call, origin) is None


def _empty_value(call: Call, origin: exp.Expr) -> str | None:
    """The call's value over an empty group; None for NULL."""
    if call.function in _ZERO:
        return "0"
    if call.function in _NO_ELEMENTS:
        return "array()"
    if call.function.startswith(_SKETCHES):
        reason = (
            "its value for a group without rows is unknown;"
            " compute it with GROUP BY in a subquery in FROM, and join that"
        )
        raise unsupported(f"{call.function}() in a correlated subquery", origin, reason)
    return None
