"""Aggregates over no rows."""

from __future__ import annotations

from sqlglot import exp

from tailrace.plan.expressions import cast
from tailrace.plan.nodes import Call
from tailrace.plan.sql.refuse import unsupported

_ZERO = ("approx_count_distinct", "count", "count_if", "regr_count")
_NO_ELEMENTS = ("array_agg", "collect_list", "collect_set")
_SKETCHES = ("approx_top_k", "bitmap_", "collect_union", "count_min_sketch", "hll_", "kll_", "theta_", "tuple_")


def or_empty(call: Call, text: str, origin: exp.Expr) -> str:
    """The answer of a call at `text`, or where there is no group its answer over no rows, mostly NULL."""
    empty = _over_nothing(call, origin)
    return text if empty is None else f"COALESCE({text}, {cast(empty, call.type)})"


def is_null_over_nothing(call: Call, origin: exp.Expr) -> bool:
    return _over_nothing(call, origin) is None


def _over_nothing(call: Call, origin: exp.Expr) -> str | None:
    if call.function in _ZERO:
        return "0"
    if call.function in _NO_ELEMENTS:
        return "array()"
    if call.function.startswith(_SKETCHES):
        reason = "what it says of no rows is not known to Tailrace; GROUP BY the correlated column in FROM instead"
        raise unsupported(f"{call.function}() in a correlated subquery", origin, reason)
    return None
