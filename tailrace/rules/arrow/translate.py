"""Translates the syntax tree of an expression to nodes.

The parser sometimes groups operators differently from Spark's grammar (`a = b < c`) or loses part of the text (`+1`).
Such expressions are not compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from tailrace.plan.expressions import parse_expr
from tailrace.plan.sql.dialect import generate, tokens
from tailrace.rules.arrow import calls, guarded, operators
from tailrace.rules.arrow.casts import cast
from tailrace.rules.arrow.coercion import decimal_type, is_supported, normalise_type
from tailrace.rules.arrow.tree import NULL, Column, Constant, Node, NotCompiled, constant
from tailrace.types import INTEGERS

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "DIV",
}  # fmt: skip
_PREDICATES = (
    *_COMPARISONS, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.In, exp.Between, exp.Like, exp.Escape,
    exp.Not, exp.And, exp.Or,
)  # fmt: skip
_OPERAND_ENDS = (  # tokens that can end an operand
    TokenType.NUMBER, TokenType.STRING, TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.END,
    TokenType.NULL, TokenType.TRUE, TokenType.FALSE,
)  # fmt: skip
_INTEGER = re.compile(r"\d+")
_DECIMAL = re.compile(r"(\d*)\.(\d*)")
_DOUBLE = re.compile(r"(\d+\.?\d*|\.\d+)[eE][+-]?\d+")
_AMOUNT = re.compile(r"-?\d{1,9}")


def translate(text: str, columns: Mapping[str, str]) -> Node:
    _require_unambiguous(text)
    node = _Translator(columns).translate(parse_expr(text))
    guarded.require_always_evaluated(node)
    return node


def _require_unambiguous(text: str) -> None:
    """Refuses escapes and double quotes, which Spark reads differently, and a unary plus, which the parser drops."""
    if '"' in text or "\\" in text.replace("\\'", ""):
        raise NotCompiled("escapes or double quotes")
    all_tokens = tokens(text)
    for previous, token in zip([None, *all_tokens], all_tokens, strict=False):
        if token.token_type == TokenType.PLUS and (previous is None or previous.token_type not in _OPERAND_ENDS):
            raise NotCompiled("unary plus")


class _Translator:
    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = columns

    def translate(self, tree: exp.Expr) -> Node:
        kind = type(tree)
        if kind in _COMPARISONS:
            return operators.compare(_COMPARISONS[kind], *self._operands(tree))
        if kind in _ARITHMETIC:
            return self._arithmetic(_ARITHMETIC[kind], tree)
        rule = _RULES.get(kind)
        if rule is None:
            raise NotCompiled(kind.__name__)
        return rule(self, tree)

    def _operands(self, tree: exp.Expr) -> tuple[Node, Node]:
        return self._operand(tree.this), self._operand(tree.expression)

    def _operand(self, tree: exp.Expr) -> Node:
        if isinstance(tree, _PREDICATES):
            raise NotCompiled("a nested predicate without parentheses")
        return self.translate(tree)

    def _arithmetic(self, operator: str, tree: exp.Expr) -> Node:
        if isinstance(tree.expression, exp.Interval) and operator in "+-":
            return self._add_interval(self._operand(tree.this), tree.expression, -1 if operator == "-" else 1)
        if isinstance(tree.this, exp.Interval) and operator == "+":
            return self._add_interval(self._operand(tree.expression), tree.this, 1)
        left, right = self._operands(tree)
        if left.type == "date" and operator == "+":
            return calls.add_days(left, right)
        if left.type == "date" and operator == "-" and right.type != "date":
            return calls.subtract_days(left, right)
        if right.type == "date" and operator == "+":
            return calls.add_days(right, left)
        return operators.arithmetic(operator, left, right)

    @staticmethod
    def _add_interval(node: Node, interval: exp.Interval, sign: int) -> Node:
        amount, unit = interval.this, interval.args.get("unit")
        if not (isinstance(amount, exp.Literal) and isinstance(unit, exp.Var) and _AMOUNT.fullmatch(amount.name)):
            raise NotCompiled("an interval with several units")
        return calls.add_interval(node, sign * int(amount.name), unit.name)

    def column(self, tree: exp.Expr) -> Node:
        name = tree.name
        if len(tree.parts) != 1 or name not in self._columns:  # type: ignore[attr-defined]
            raise NotCompiled(f"column {name}")
        return Column(name, normalise_type(self._columns[name]))

    def literal(self, tree: exp.Expr) -> Node:
        if tree.args["is_string"]:
            return constant("string", tree.name, literal=True)
        return parse_number(tree.name)

    def negative(self, tree: exp.Expr) -> Node:
        inner = tree.this
        if isinstance(inner, exp.Literal) and not inner.args["is_string"]:
            return parse_number("-" + inner.name)
        return operators.negate(self._operand(inner))

    def cast(self, tree: exp.Expr) -> Node:
        if tree.args.get("safe") or tree.args.get("format"):
            raise NotCompiled("TRY_CAST")
        to = normalise_type(generate(tree.args["to"]))
        if not is_supported(to):
            raise NotCompiled(f"CAST to {to}")
        node = cast(self.translate(tree.this), to)
        if to in INTEGERS and isinstance(tree.this, exp.Literal) and isinstance(node, Constant):
            return Constant(node.type, node.scalar, None)
        return node

    def not_(self, tree: exp.Expr) -> Node:
        return operators.logical_not(self.translate(tree.this))

    def is_(self, tree: exp.Expr) -> Node:
        node, expected = self._operand(tree.this), tree.expression
        if isinstance(expected, exp.Null):
            return operators.is_null(node)
        if isinstance(expected, exp.Boolean) and node.type == "boolean":
            return operators.null_safe_equal(node, constant("boolean", expected.this))
        raise NotCompiled("IS")

    def between(self, tree: exp.Expr) -> Node:
        if tree.args.get("symmetric") is not None:
            raise NotCompiled("BETWEEN SYMMETRIC")
        node, low, high = (self._operand(tree.args[part]) for part in ("this", "low", "high"))
        return operators.logical_and(operators.compare(">=", node, low), operators.compare("<=", node, high))

    def in_(self, tree: exp.Expr) -> Node:
        if not tree.expressions or any(tree.args.get(part) for part in ("query", "unnest", "field")):
            raise NotCompiled("IN over a query")
        return operators.is_in(self._operand(tree.this), [self.translate(item) for item in tree.expressions])

    def like(self, tree: exp.Expr, escape: str = "\\") -> Node:
        node = calls.like(self._operand(tree.this), self._operand(tree.expression), escape)
        return operators.logical_not(node) if tree.args.get("negate") else node

    def like_escape(self, tree: exp.Expr) -> Node:
        character = tree.expression
        if not (isinstance(tree.this, exp.Like) and isinstance(character, exp.Literal) and len(character.name) == 1):
            raise NotCompiled("ESCAPE")
        return self.like(tree.this, character.name)

    def case(self, tree: exp.Expr) -> Node:
        subject = None if tree.this is None else self.translate(tree.this)
        branches = []
        for branch in tree.args["ifs"]:
            test = self.translate(branch.this)
            branches.append((test if subject is None else operators.compare("=", subject, test), branch.args["true"]))
        return self._choose(branches, tree.args.get("default"))

    def _choose(self, branches: Sequence[tuple[Node, exp.Expr]], default: exp.Expr | None) -> Node:
        """CASE or IF. A branch may be raise_error(message)."""
        tests = [test for test, _ in branches]
        values = [self._value(tree) for _, tree in branches]
        values.append((NULL, None) if default is None else self._value(default))
        chosen = operators.choose([(t, v) for t, (v, _) in zip(tests, values, strict=False)], values[-1][0])
        failures = [(number, message) for number, (_, message) in enumerate(values) if message is not None]
        return guarded.guard(chosen, tests, failures) if failures else chosen

    def _value(self, tree: exp.Expr) -> tuple[Node, Node | None]:
        """The value of a branch; for raise_error(message), NULL and the message."""
        if isinstance(tree, exp.Anonymous) and tree.name.lower() == "raise_error" and len(tree.expressions) == 1:
            return NULL, self.translate(tree.expressions[0])
        return self.translate(tree), None

    def substring(self, tree: exp.Expr) -> Node:
        length = tree.args.get("length")
        return calls.substring(
            self.translate(tree.this),
            self.translate(tree.args["start"]),
            None if length is None else self.translate(length),
        )

    def trim(self, tree: exp.Expr) -> Node:
        if tree.expression is not None:
            raise NotCompiled("TRIM of characters other than spaces")
        return calls.trim(self.translate(tree.this), (tree.args.get("position") or "BOTH").upper())

    def function(self, tree: exp.Expr) -> Node:
        if not isinstance(tree.this, str):
            raise NotCompiled("a quoted function name")
        if tree.this.lower() == "if" and len(tree.expressions) == 3:
            test, yes, no = tree.expressions
            return self._choose([(self.translate(test), yes)], no)
        return calls.call_function(tree.this, [self.translate(argument) for argument in tree.expressions])


def parse_number(text: str) -> Constant:
    """A numeric literal. Its spelling decides its type: 1, 9999999999, 1.50, 1e0."""
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    if _INTEGER.fullmatch(digits):
        value = sign * int(digits)
        for kind, bits in (("int", 31), ("bigint", 63)):
            if -(1 << bits) <= value < 1 << bits:
                return constant(kind, value, literal=True)
        return _decimal(value, 0)
    if (match := _DECIMAL.fullmatch(digits)) and digits != ".":
        return _decimal(sign * int(match[1] + match[2]), len(match[2]))
    if _DOUBLE.fullmatch(digits):
        return constant("double", sign * float(digits), literal=True)
    raise NotCompiled(f"number {text}")


def _decimal(value: int, scale: int) -> Constant:
    kind = decimal_type(max(len(str(abs(value))), scale), scale)
    sign, digits = int(value < 0), tuple(int(d) for d in str(abs(value)))
    return constant(kind, Decimal((sign, digits, -scale)), literal=True)


_Rule = Callable[[_Translator, exp.Expr], Node]
_RULES: dict[type[exp.Expr], _Rule] = {
    exp.Column: _Translator.column,
    exp.Literal: _Translator.literal,
    exp.Boolean: lambda _, tree: Constant("boolean", pa.scalar(bool(tree.this)), True),
    exp.Null: lambda _, tree: NULL,
    exp.Paren: lambda self, tree: self.translate(tree.this),
    exp.Neg: _Translator.negative,
    exp.Cast: _Translator.cast,
    exp.TryCast: _Translator.cast,
    exp.And: lambda self, tree: operators.logical_and(self.translate(tree.this), self.translate(tree.expression)),
    exp.Or: lambda self, tree: operators.logical_or(self.translate(tree.this), self.translate(tree.expression)),
    exp.Not: _Translator.not_,
    exp.Is: _Translator.is_,
    exp.NullSafeEQ: lambda self, tree: operators.null_safe_equal(*self._operands(tree)),
    exp.NullSafeNEQ: lambda self, tree: operators.logical_not(operators.null_safe_equal(*self._operands(tree))),
    exp.Between: _Translator.between,
    exp.In: _Translator.in_,
    exp.Like: _Translator.like,
    exp.Escape: _Translator.like_escape,
    exp.Case: _Translator.case,
    exp.Substring: _Translator.substring,
    exp.Extract: lambda self, tree: calls.extract(tree.name, self.translate(tree.expression)),
    exp.Trim: _Translator.trim,
    exp.DPipe: lambda self, tree: calls.concat(*self._operands(tree)),
    exp.Anonymous: _Translator.function,
}
