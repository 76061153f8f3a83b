"""Compiles operators: adds the casts that Spark adds to the operands, then calls a kernel."""

from __future__ import annotations

import pyarrow.compute as pc

from tailrace.rules.arrow import choosing, comparing, decimals, numbers
from tailrace.rules.arrow.casts import cast
from tailrace.rules.arrow.coercion import (
    FLOATS,
    adjust_precision,
    as_decimal_type,
    decimal_parts,
    decimal_type,
    exact_precision,
    is_decimal,
    is_numeric,
    is_supported,
    tightest_common_type,
    wider_type,
    widest_type,
)
from tailrace.rules.arrow.tree import VOID, Constant, Node, NotCompiled, call, constant
from tailrace.types import INTEGERS

_PLAIN = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_MAX_FLOAT_ITEMS = 10  # Spark compares an IN list of floats item by item, with 0.0 = -0.0, up to this length
_MAX_UNROUNDED_DIGITS = 34
_LONG = range(-(1 << 63), 1 << 63)


def arithmetic(operator: str, left: Node, right: Node) -> Node:
    """left operator right, for + - * / % DIV."""
    if not (is_numeric(left.type) and is_numeric(right.type)):
        raise NotCompiled(f"{left.type} {operator} {right.type}")
    if is_decimal(left.type) or is_decimal(right.type):
        if left.type not in FLOATS and right.type not in FLOATS:
            return _decimal_arithmetic(operator, _as_decimal_operand(left), _as_decimal_operand(right))
        left, right = cast(left, "double"), cast(right, "double")
    if operator == "/":
        return call("double", numbers.divide, cast(left, "double"), cast(right, "double"))
    if operator == "DIV":
        if left.type not in INTEGERS or right.type not in INTEGERS:
            raise NotCompiled("DIV of non-integers")
        return call("bigint", numbers.divide_integers, cast(left, "bigint"), cast(right, "bigint"))
    common = tightest_common_type(left.type, right.type)
    if common is None:
        raise NotCompiled(f"{left.type} {operator} {right.type}")
    left, right = cast(left, common), cast(right, common)
    if operator == "%":
        kernel = numbers.float_remainder if common in FLOATS else numbers.integer_remainder
        return call(common, kernel, left, right)
    return call(common, _PLAIN[operator], left, right)


def _as_decimal_operand(node: Node) -> Node:
    """Casts an integer operand of a decimal operation: a literal by its own digits, others by those of their type."""
    if is_decimal(node.type):
        return node
    if isinstance(node, Constant) and node.literal is not False:
        if node.literal is None:
            raise NotCompiled("an integer that may or may not be a literal")
        return cast(node, decimal_type(len(str(abs(node.python_value))), 0))
    return cast(node, as_decimal_type(node.type))


def _decimal_arithmetic(operator: str, left: Node, right: Node) -> Node:
    (p1, s1), (_, s2) = decimal_parts(left.type), decimal_parts(right.type)
    if operator == "DIV" or (operator == "%" and p1 - s1 + s2 > 38):
        raise NotCompiled(f"{left.type} {operator} {right.type}")
    kind = adjust_precision(*exact_precision(operator, decimal_parts(left.type), decimal_parts(right.type)))
    if operator == "/":
        return call(kind, decimals.divide, left, right, options=decimal_parts(kind))
    if operator == "%":
        return call(kind, decimals.remainder, left, right, options=decimal_parts(kind))
    return call(kind, decimals.arithmetic, left, right, options=(operator, *decimal_parts(kind)))


def negate(node: Node) -> Node:
    require_unrounded(node)
    return call(node.type, pc.negate, node)


def require_unrounded(node: Node) -> None:
    """Spark's unary minus and abs round a decimal of more than 34 digits, or fail; these are not compiled."""
    if not is_numeric(node.type) or (is_decimal(node.type) and decimal_parts(node.type)[0] > _MAX_UNROUNDED_DIGITS):
        raise NotCompiled(f"minus or abs of {node.type}")


def compare(operator: str, left: Node, right: Node) -> Node:
    left, right = _cast_to_comparable(left, right)
    return call("boolean", comparing.compare, left, right, options=(operator,))


def null_safe_equal(left: Node, right: Node) -> Node:
    """left <=> right."""
    return call("boolean", comparing.null_safe_equal, *_cast_to_comparable(left, right))


def _cast_to_comparable(left: Node, right: Node) -> tuple[Node, Node]:
    if left.type == VOID and right.type == VOID:
        raise NotCompiled("a comparison of NULL with NULL")
    for node, other in ((left, right), (right, left)):
        if node.type == "string" and other.type in ("date", "timestamp"):
            node = cast(node, other.type)
            return (node, other) if other is right else (other, node)
        if is_decimal(node.type) and other.type in INTEGERS and isinstance(node, Constant):
            # Spark folds such a comparison to true or false by the integer's type alone, even for a NULL integer.
            if node.python_value is not None and int(node.python_value) not in _LONG:
                raise NotCompiled("an integer compared with a decimal out of the range of integers")
            if isinstance(other, Constant):
                break
    common = wider_type(left.type, right.type)
    if not is_supported(common):
        raise NotCompiled(f"a comparison of {common}")
    return cast(left, common), cast(right, common)


def is_in(value: Node, items: list[Node]) -> Node:
    """value IN (items)."""
    common = widest_type([value.type, *(i.type for i in items)])
    if not is_supported(common) or (common in FLOATS and len(items) > _MAX_FLOAT_ITEMS):
        raise NotCompiled(f"IN over {common}")
    return call("boolean", comparing.is_in, cast(value, common), *(cast(i, common) for i in items))


def logical_and(left: Node, right: Node) -> Node:
    return call("boolean", pc.and_kleene, as_condition(left), as_condition(right))


def logical_or(left: Node, right: Node) -> Node:
    return call("boolean", pc.or_kleene, as_condition(left), as_condition(right))


def logical_not(node: Node) -> Node:
    return call("boolean", pc.invert, as_condition(node))


def as_condition(node: Node) -> Node:
    if node.type not in ("boolean", VOID):
        raise NotCompiled(f"{node.type} as a condition")
    return cast(node, "boolean")


def is_null(node: Node) -> Node:
    if node.type == VOID:
        return constant("boolean", True)
    return call("boolean", pc.is_null, node)


def choose(branches: list[tuple[Node, Node]], default: Node) -> Node:
    """CASE WHEN … THEN … ELSE default END."""
    common = common_type([v for _, v in branches] + [default])
    inputs = [part for test, value in branches for part in (as_condition(test), cast(value, common))]
    return call(common, choosing.first_true, *inputs, cast(default, common))


def common_type(nodes: list[Node]) -> str:
    common = widest_type([n.type for n in nodes])
    if not is_supported(common):
        raise NotCompiled(f"a choice between values of type {common}")
    return common
