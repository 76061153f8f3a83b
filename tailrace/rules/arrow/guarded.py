"""Branches of CASE and IF that raise an error: CASE WHEN n < 0 THEN raise_error('negative') ELSE n END.

Arrow evaluates all branches for all rows. Such a branch is therefore compiled to a condition: an error is raised only
if a row takes the branch.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from tailrace.rules.arrow import choosing, operators
from tailrace.rules.arrow.tree import Call, Constant, Guarded, Node, NotCompiled, constant, parts

# Kernels for operators of which Spark always evaluates the first operand only.
_LAZY = (choosing.first_true, choosing.first_valid, pc.and_kleene, pc.or_kleene)


def guard(value: Node, tests: Sequence[Node], failures: Sequence[tuple[int, Node]]) -> Node:
    """`value`, with an error for each row that takes a failing branch: (its number, its message).

    Branch i is taken if test i is the first that is true; the last branch, if none is.
    """
    return Guarded(value, tuple((_is_taken(number, tests), _require_text(text)) for number, text in failures))


def _is_taken(number: int, tests: Sequence[Node]) -> Node:
    yes, no = constant("boolean", True), constant("boolean", False)
    is_default = number == len(tests)
    earlier: list[tuple[Node, Node]] = [(test, no) for test in tests[:number]]
    taken = operators.choose(earlier if is_default else [*earlier, (tests[number], yes)], yes if is_default else no)
    if isinstance(taken, Constant):
        raise NotCompiled("raise_error() under a constant condition")
    return taken


def _require_text(message: Node) -> Node:
    if message.type != "string":
        raise NotCompiled("raise_error() of a value other than a string")
    return message


def require_always_evaluated(node: Node) -> None:
    """Raises `NotCompiled` if Spark evaluates an error only for some rows, because another operator decides on it."""
    if isinstance(node, Guarded):
        if any(_has_guard(message) for _, message in node.failures):
            raise NotCompiled("raise_error() in the message of an error")
    elif isinstance(node, Call) and node.kernel in _LAZY and any(map(_has_guard, node.inputs[1:])):
        raise NotCompiled("raise_error() in an operand that is not always evaluated")
    for part in parts(node):
        require_always_evaluated(part)


def _has_guard(node: Node) -> bool:
    return isinstance(node, Guarded) or any(map(_has_guard, parts(node)))
