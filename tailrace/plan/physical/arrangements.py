"""Which states each operator keeps. Equal states have equal fingerprints, so views share them.

A fingerprint depends on the relation that the state holds and on the columns it is sorted by, not on the operator or
the view that needs it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tailrace.plan.nodes import Aggregate, Call, Join, Key, Node, TemporalFilter, TopK, Window, walk
from tailrace.types import INTEGERS, Column, decimal_parts, is_float, is_scalar

Kind = Literal["rows", "accumulators", "values", "outputs", "ordered", "borders"]
RuleName = Literal["additive", "extreme", "distinct", "generic"]

Stateful = Join | Aggregate | Window | TopK | TemporalFilter  # the operators that keep state

# Most digits of a decimal for which neither Spark's SUM nor value * weight can overflow 38 digits.
WIDE = 28
# Most fraction digits of a wider decimal that is summed in two parts, integer and fraction.
SPLIT = 6
# Most digits of a decimal for which sum / count has every digit of Spark's AVG.
AVERAGED = 18
SPREADS = ("std", "stddev", "stddev_pop", "stddev_samp", "var_pop", "var_samp", "variance")


@dataclass(frozen=True)
class Arrangement:
    """A state of an operator: what it holds (`kind`), of which node (`of`, a fingerprint), sorted by which columns."""

    fingerprint: str
    kind: Kind
    of: str
    by: Key


def _arrangement(kind: Kind, of: Node, by: Key, *more: Any) -> Arrangement:
    text = json.dumps([of.fingerprint, kind, by, *more])
    return Arrangement(hashlib.sha256(text.encode()).hexdigest()[:20], kind, of.fingerprint, by)


def join_arrangements(node: Join) -> tuple[Arrangement, Arrangement]:
    """The rows of both sides by join columns. A row with a NULL there is kept only if the equality is null-safe."""
    return (
        _arrangement("rows", node.left, node.left_on, node.null_safe),
        _arrangement("rows", node.right, node.right_on, node.null_safe),
    )


def aggregate_arrangements(node: Aggregate) -> tuple[Arrangement, dict[int, Arrangement]]:
    """The accumulators by group, and the values by group of each column that MIN, MAX or COUNT(DISTINCT) needs."""
    accumulators = _arrangement("accumulators", node.input, node.groups, [[c.sql, c.type] for c in node.calls])
    values = {
        call.args[0]: _arrangement("values", node.input, (*node.groups, call.args[0]))
        for call in node.calls
        if rule(call, node.input.columns) in ("extreme", "distinct")
    }
    return accumulators, values


def generic_arrangements(node: Aggregate) -> tuple[Arrangement, Arrangement]:
    """The rows by group, and the last answer of each group."""
    return (
        _arrangement("rows", node.input, node.groups, (True,) * len(node.groups)),
        _arrangement("outputs", node, tuple(range(len(node.groups)))),
    )


def window_arrangements(node: Window) -> tuple[Arrangement, Arrangement]:
    """The rows by partition, and the same rows with their last window values."""
    return (
        _arrangement("rows", node.input, node.partition, (True,) * len(node.partition)),
        _arrangement("outputs", node, node.partition),
    )


def top_arrangement(node: TopK) -> Arrangement:
    """All rows by partition and order. Independent of the limit, so views with different limits share it."""
    by = (*node.partition, *(p for p, _, _ in node.order))
    return _arrangement("ordered", node.input, by, node.partition, node.order)


def border_arrangement(node: TemporalFilter) -> Arrangement:
    """The rows whose validity will still change, by the time of their next border."""
    width = len(node.input.columns)
    return _arrangement("borders", node.input, (width - 2, width - 1))


def arrangements(root: Node) -> list[tuple[Node, list[Arrangement]]]:
    """The stateful nodes of a lowered plan, inputs first, each once, with the states that each keeps."""
    states: dict[str, tuple[Node, list[Arrangement]]] = {}
    for node in walk(root):
        if isinstance(node, Stateful):
            states[node.fingerprint] = node, _states_of(node)
    return list(states.values())


def _states_of(node: Stateful) -> list[Arrangement]:
    if isinstance(node, Join):
        return list(dict.fromkeys(join_arrangements(node)))
    if isinstance(node, Window):
        return list(window_arrangements(node))
    if isinstance(node, TopK):
        return [top_arrangement(node)]
    if isinstance(node, TemporalFilter):
        return [border_arrangement(node)]
    if is_generic(node):
        return list(generic_arrangements(node))
    accumulators, values = aggregate_arrangements(node)
    return [accumulators, *values.values()]


def is_generic(node: Aggregate) -> bool:
    """Whether any call needs the rows of its group. Then all calls are computed from the rows."""
    return any(rule(c, node.input.columns) == "generic" for c in node.calls)


def rule(call: Call, input_columns: Sequence[Column]) -> RuleName:
    """How a call is maintained.

    additive: the delta is added to an accumulator. extreme, distinct: the group's values are stored in order.
    generic: Spark aggregates all rows of the group again.
    """
    types = [input_columns[p].type for p in call.args]
    if call.function in ("min", "max") and len(types) == 1 and is_scalar(types[0]):
        return "extreme"
    if call.distinct:
        one_scalar = call.function == "count" and len(types) == 1 and is_scalar(types[0])
        return "distinct" if one_scalar else "generic"
    if call.function == "count" or (call.function == "count_if" and types):
        return "additive"
    if call.function in SPREADS and len(types) == 1:
        return "additive" if types[0] in INTEGERS or is_float(types[0]) or decimal_parts(types[0]) else "generic"
    summed = call.function in ("sum", "avg", "mean") and len(types) == 1
    return "additive" if summed and _adds(call, types[0]) else "generic"


def _adds(call: Call, kind: str) -> bool:
    if kind in INTEGERS or is_float(kind):
        return True
    decimal = decimal_parts(kind)
    if decimal is None:
        return False
    digits, scale = decimal
    if call.function == "sum":
        return digits <= WIDE or 1 <= scale <= SPLIT
    return digits <= AVERAGED
