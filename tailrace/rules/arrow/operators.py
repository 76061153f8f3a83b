"""Operators over typed operands: which casts Spark puts around them, and the kernel that is left."""

from __future__ import annotations

import pyarrow.compute as pc

from tailrace.rules.arrow import choosing, comparing, decimals, numbers
from tailrace.rules.arrow.casts import cast
from tailrace.rules.arrow.coercion import (
    FLOATS,
    adjusted,
    as_decimal,
    decimal,
    is_decimal,
    is_numeric,
    known,
    natural,
    parts,
    tightest,
    wider,
    widest,
)
from tailrace.rules.arrow.tree import VOID, Constant, Node, NotMine, call, constant
from tailrace.types import INTEGERS

_PLAIN = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_LONGEST_SWITCH = 10  # items up to which Spark compares floats in IN one by one, with 0.0 = -0.0
_UNROUNDED = 34
_LONG = range(-(1 << 63), 1 << 63)


def arithmetic(operator: str, left: Node, right: Node) -> Node:
    """left + right, and the same for - * / % DIV."""
    if not (is_numeric(left.type) and is_numeric(right.type)):
        raise NotMine(f"{left.type} {operator} {right.type}")
    if is_decimal(left.type) or is_decimal(right.type):
        if left.type not in FLOATS and right.type not in FLOATS:
            return _decimal_arithmetic(operator, _operand(left), _operand(right))
        left, right = cast(left, "double"), cast(right, "double")
    if operator == "/":
        return call("double", numbers.quotient, cast(left, "double"), cast(right, "double"))
    if operator == "DIV":
        if left.type not in INTEGERS or right.type not in INTEGERS:
            raise NotMine("DIV of other numbers than integers")
        return call("bigint", numbers.whole_quotient, cast(left, "bigint"), cast(right, "bigint"))
    common = tightest(left.type, right.type)
    if common is None:
        raise NotMine(f"{left.type} {operator} {right.type}")
    left, right = cast(left, common), cast(right, common)
    if operator == "%":
        kernel = numbers.float_remainder if common in FLOATS else numbers.whole_remainder
        return call(common, kernel, left, right)
    return call(common, _PLAIN[operator], left, right)


def _operand(node: Node) -> Node:
    """An integer beside a decimal: a literal has the digits it is written with, all else those of its type."""
    if is_decimal(node.type):
        return node
    if isinstance(node, Constant) and node.literal is not False:
        if node.literal is None:
            raise NotMine("an integer of which it is not known whether it is a literal")
        return cast(node, decimal(len(str(abs(node.python))), 0))
    return cast(node, as_decimal(node.type))


def _decimal_arithmetic(operator: str, left: Node, right: Node) -> Node:
    (p1, s1), (_, s2) = parts(left.type), parts(right.type)
    if operator == "DIV" or (operator == "%" and p1 - s1 + s2 > 38):
        raise NotMine(f"{left.type} {operator} {right.type}")
    kind = adjusted(*natural(operator, parts(left.type), parts(right.type)))
    if operator == "/":
        return call(kind, decimals.divided, left, right, options=parts(kind))
    if operator == "%":
        return call(kind, decimals.remainder, left, right, options=parts(kind))
    return call(kind, decimals.arithmetic, left, right, options=(operator, *parts(kind)))


def negative(node: Node) -> Node:
    require_unrounded(node)
    return call(node.type, pc.negate, node)


def require_unrounded(node: Node) -> None:
    """Spark's minus sign and abs round a decimal of more than 34 digits, or fail."""
    if not is_numeric(node.type) or (is_decimal(node.type) and parts(node.type)[0] > _UNROUNDED):
        raise NotMine(f"a sign of {node.type}")


def compare(operator: str, left: Node, right: Node) -> Node:
    left, right = _comparable(left, right)
    return call("boolean", comparing.compared, left, right, options=(operator,))


def same(left: Node, right: Node) -> Node:
    """left <=> right."""
    return call("boolean", comparing.same, *_comparable(left, right))


def _comparable(left: Node, right: Node) -> tuple[Node, Node]:
    if left.type == VOID and right.type == VOID:
        raise NotMine("a comparison of NULL with NULL")
    for one, other in ((left, right), (right, left)):
        if one.type == "string" and other.type in ("date", "timestamp"):
            one = cast(one, other.type)
            return (one, other) if other is right else (other, one)
        if is_decimal(one.type) and other.type in INTEGERS and isinstance(one, Constant):
            # Spark finds such a comparison true or false by the integer's type, even for NULL.
            if one.python is not None and int(one.python) not in _LONG:
                raise NotMine("an integer compared with a decimal beyond all integers")
            if isinstance(other, Constant):
                break
    common = wider(left.type, right.type)
    if not known(common):
        raise NotMine(f"a comparison of {common}")
    return cast(left, common), cast(right, common)


def among(value: Node, items: list[Node]) -> Node:
    """value IN (items)."""
    common = widest([value.type, *(i.type for i in items)])
    if not known(common) or (common in FLOATS and len(items) > _LONGEST_SWITCH):
        raise NotMine(f"IN over {common}")
    return call("boolean", comparing.among, cast(value, common), *(cast(i, common) for i in items))


def both(left: Node, right: Node) -> Node:
    return call("boolean", pc.and_kleene, condition(left), condition(right))


def either(left: Node, right: Node) -> Node:
    return call("boolean", pc.or_kleene, condition(left), condition(right))


def negated(node: Node) -> Node:
    return call("boolean", pc.invert, condition(node))


def condition(node: Node) -> Node:
    if node.type not in ("boolean", VOID):
        raise NotMine(f"{node.type} as a condition")
    return cast(node, "boolean")


def is_null(node: Node) -> Node:
    if node.type == VOID:
        return constant("boolean", True)
    return call("boolean", pc.is_null, node)


def choose(branches: list[tuple[Node, Node]], default: Node) -> Node:
    """CASE WHEN … THEN … ELSE default END."""
    common = common_type([v for _, v in branches] + [default])
    inputs = [part for test, value in branches for part in (condition(test), cast(value, common))]
    return call(common, choosing.first_true, *inputs, cast(default, common))


def common_type(nodes: list[Node]) -> str:
    found = widest([n.type for n in nodes])
    if not known(found):
        raise NotMine(f"a choice of {found}")
    return found
