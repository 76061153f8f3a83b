"""Which state each operator keeps, named so that operators of different views can share it.

An arrangement's fingerprint is made of the relation it holds and the columns it is sorted by; not of the
operator that asked for it, nor of any view.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tailrace.plan.nodes import Aggregate, Call, Join, Key, Node, TopK, Window, walk
from tailrace.types import INTEGERS, Column, decimal_parts, is_float, is_scalar

Kind = Literal["rows", "accumulators", "values", "outputs", "ordered"]
RuleName = Literal["additive", "extreme", "distinct", "generic"]

Stateful = Join | Aggregate | Window | TopK  # the operators that keep state

# Digits of a decimal up to which neither Spark's own sum nor value times weight can overflow 38 digits.
WIDE = 28
# Digits after the point up to which a wider decimal is summed in two parts, whole and fraction.
SPLIT = 6
# Digits of a decimal up to which sum / count keeps every digit that Spark's AVG shows.
AVERAGED = 18
SPREADS = ("std", "stddev", "stddev_pop", "stddev_samp", "var_pop", "var_samp", "variance")


@dataclass(frozen=True)
class Arrangement:
    """State of an operator: what is held (`kind`), of which node (`of`, its fingerprint), sorted by what."""

    fingerprint: str
    kind: Kind
    of: str
    by: Key


def _arrangement(kind: Kind, of: Node, by: Key, *more: Any) -> Arrangement:
    text = json.dumps([of.fingerprint, kind, by, *more])
    return Arrangement(hashlib.sha256(text.encode()).hexdigest()[:20], kind, of.fingerprint, by)


def join_arrangements(node: Join) -> tuple[Arrangement, Arrangement]:
    """The rows of both sides, each by its join columns; rows with a NULL are kept only where NULLs match."""
    return (
        _arrangement("rows", node.left, node.left_on, node.null_safe),
        _arrangement("rows", node.right, node.right_on, node.null_safe),
    )


def aggregate_arrangements(node: Aggregate) -> tuple[Arrangement, dict[int, Arrangement]]:
    """The accumulators of each group, and for each column whose values must be known, those by group."""
    accumulators = _arrangement("accumulators", node.input, node.groups, [[c.sql, c.type] for c in node.calls])
    held = {
        call.args[0]: _arrangement("values", node.input, (*node.groups, call.args[0]))
        for call in node.calls
        if rule(call, node.input.columns) in ("extreme", "distinct")
    }
    return accumulators, held


def generic_arrangements(node: Aggregate) -> tuple[Arrangement, Arrangement]:
    """The rows of each group, and what the aggregate last said of it."""
    return (
        _arrangement("rows", node.input, node.groups, (True,) * len(node.groups)),
        _arrangement("outputs", node, tuple(range(len(node.groups)))),
    )


def window_arrangements(node: Window) -> tuple[Arrangement, Arrangement]:
    """The rows of each partition, and those rows with the values that the windows last had."""
    return (
        _arrangement("rows", node.input, node.partition, (True,) * len(node.partition)),
        _arrangement("outputs", node, node.partition),
    )


def top_arrangement(node: TopK) -> Arrangement:
    """The rows of each partition in order, however many of them are asked for."""
    by = (*node.partition, *(p for p, _, _ in node.order))
    return _arrangement("ordered", node.input, by, node.partition, node.order)


def arrangements(root: Node) -> list[tuple[Node, list[Arrangement]]]:
    """The stateful nodes of a lowered plan, inputs first, each once, with the states that each keeps."""
    found: dict[str, tuple[Node, list[Arrangement]]] = {}
    for node in walk(root):
        if isinstance(node, Stateful):
            found[node.fingerprint] = node, _kept(node)
    return list(found.values())


def _kept(node: Stateful) -> list[Arrangement]:
    if isinstance(node, Join):
        return list(dict.fromkeys(join_arrangements(node)))
    if isinstance(node, Window):
        return list(window_arrangements(node))
    if isinstance(node, TopK):
        return [top_arrangement(node)]
    if is_generic(node):
        return list(generic_arrangements(node))
    accumulators, values = aggregate_arrangements(node)
    return [accumulators, *values.values()]


def is_generic(node: Aggregate) -> bool:
    """Whether any call needs the rows of its group; then all are computed from those."""
    return any(rule(c, node.input.columns) == "generic" for c in node.calls)


def rule(call: Call, input_columns: Sequence[Column]) -> RuleName:
    """How a call is maintained.

    additive: what changed is added. extreme, distinct: the group's values are kept in order.
    generic: the rows of the group are aggregated again.
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
