"""The parser's tree of an expression as nodes.

Where the parser groups otherwise than Spark's grammar does (`a = b < c`), or hides what was written (`+1`),
the text is left to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from tailrace.plan.expressions import parse_expr
from tailrace.plan.sql.dialect import generate, tokens
from tailrace.rules.arrow import calls, operators
from tailrace.rules.arrow.casts import cast
from tailrace.rules.arrow.coercion import decimal, known, normal
from tailrace.rules.arrow.tree import NULL, Column, Constant, Node, NotMine, constant
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
_OPERANDS = (
    TokenType.NUMBER, TokenType.STRING, TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.END,
    TokenType.NULL, TokenType.TRUE, TokenType.FALSE,
)  # fmt: skip
_INTEGER = re.compile(r"\d+")
_DECIMAL = re.compile(r"(\d*)\.(\d*)")
_DOUBLE = re.compile(r"(\d+\.?\d*|\.\d+)[eE][+-]?\d+")
_AMOUNT = re.compile(r"-?\d{1,9}")


def translate(text: str, columns: Mapping[str, str]) -> Node:
    _require_plain(text)
    return _Translation(columns).node(parse_expr(text))


def _require_plain(text: str) -> None:
    """Escapes and double quotes are read by Spark in ways of its own, and a sign before an operand is lost."""
    if '"' in text or "\\" in text.replace("\\'", ""):
        raise NotMine("a text with escapes")
    found = tokens(text)
    for before, token in zip([None, *found], found, strict=False):
        if token.token_type == TokenType.PLUS and (before is None or before.token_type not in _OPERANDS):
            raise NotMine("a sign +")


class _Translation:
    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = columns

    def node(self, tree: exp.Expr) -> Node:
        kind = type(tree)
        if kind in _COMPARISONS:
            return operators.compare(_COMPARISONS[kind], *self._operands(tree))
        if kind in _ARITHMETIC:
            return self._arithmetic(_ARITHMETIC[kind], tree)
        rule = _RULES.get(kind)
        if rule is None:
            raise NotMine(kind.__name__)
        return rule(self, tree)

    def _operands(self, tree: exp.Expr) -> tuple[Node, Node]:
        return self._operand(tree.this), self._operand(tree.expression)

    def _operand(self, tree: exp.Expr) -> Node:
        if isinstance(tree, _PREDICATES):
            raise NotMine("a predicate in a predicate without parentheses")
        return self.node(tree)

    def _arithmetic(self, operator: str, tree: exp.Expr) -> Node:
        if isinstance(tree.expression, exp.Interval) and operator in "+-":
            return self._shifted(self._operand(tree.this), tree.expression, -1 if operator == "-" else 1)
        if isinstance(tree.this, exp.Interval) and operator == "+":
            return self._shifted(self._operand(tree.expression), tree.this, 1)
        left, right = self._operands(tree)
        if left.type == "date" and operator == "+":
            return calls.plus_days(left, right)
        if left.type == "date" and operator == "-" and right.type != "date":
            return calls.minus_days(left, right)
        if right.type == "date" and operator == "+":
            return calls.plus_days(right, left)
        return operators.arithmetic(operator, left, right)

    @staticmethod
    def _shifted(node: Node, interval: exp.Interval, sign: int) -> Node:
        amount, unit = interval.this, interval.args.get("unit")
        if not (isinstance(amount, exp.Literal) and isinstance(unit, exp.Var) and _AMOUNT.fullmatch(amount.name)):
            raise NotMine("an interval of several parts")
        return calls.shifted(node, sign * int(amount.name), unit.name)

    def column(self, tree: exp.Expr) -> Node:
        name = tree.name
        if len(tree.parts) != 1 or name not in self._columns:  # type: ignore[attr-defined]
            raise NotMine(f"column {name}")
        return Column(name, normal(self._columns[name]))

    def literal(self, tree: exp.Expr) -> Node:
        if tree.args["is_string"]:
            return constant("string", tree.name, literal=True)
        return number(tree.name)

    def negative(self, tree: exp.Expr) -> Node:
        inner = tree.this
        if isinstance(inner, exp.Literal) and not inner.args["is_string"]:
            return number("-" + inner.name)
        return operators.negative(self._operand(inner))

    def cast(self, tree: exp.Expr) -> Node:
        if tree.args.get("safe") or tree.args.get("format"):
            raise NotMine("TRY_CAST")
        to = normal(generate(tree.args["to"]))
        if not known(to):
            raise NotMine(f"CAST to {to}")
        found = cast(self.node(tree.this), to)
        if to in INTEGERS and isinstance(tree.this, exp.Literal) and isinstance(found, Constant):
            return Constant(found.type, found.scalar, None)
        return found

    def not_(self, tree: exp.Expr) -> Node:
        return operators.negated(self.node(tree.this))

    def is_(self, tree: exp.Expr) -> Node:
        node, sought = self._operand(tree.this), tree.expression
        if isinstance(sought, exp.Null):
            return operators.is_null(node)
        if isinstance(sought, exp.Boolean) and node.type == "boolean":
            return operators.same(node, constant("boolean", sought.this))
        raise NotMine("IS")

    def between(self, tree: exp.Expr) -> Node:
        if tree.args.get("symmetric") is not None:
            raise NotMine("BETWEEN SYMMETRIC")
        node, low, high = (self._operand(tree.args[part]) for part in ("this", "low", "high"))
        return operators.both(operators.compare(">=", node, low), operators.compare("<=", node, high))

    def in_(self, tree: exp.Expr) -> Node:
        if not tree.expressions or any(tree.args.get(part) for part in ("query", "unnest", "field")):
            raise NotMine("IN over a query")
        return operators.among(self._operand(tree.this), [self.node(item) for item in tree.expressions])

    def like(self, tree: exp.Expr, escape: str = "\\") -> Node:
        found = calls.like(self._operand(tree.this), self._operand(tree.expression), escape)
        return operators.negated(found) if tree.args.get("negate") else found

    def escaped(self, tree: exp.Expr) -> Node:
        character = tree.expression
        if not (isinstance(tree.this, exp.Like) and isinstance(character, exp.Literal) and len(character.name) == 1):
            raise NotMine("ESCAPE")
        return self.like(tree.this, character.name)

    def case(self, tree: exp.Expr) -> Node:
        subject = None if tree.this is None else self.node(tree.this)
        branches = []
        for branch in tree.args["ifs"]:
            test = self.node(branch.this)
            branches.append((test if subject is None else operators.compare("=", subject, test), branch.args["true"]))
        default = tree.args.get("default")
        otherwise = NULL if default is None else self.node(default)
        return operators.choose([(test, self.node(value)) for test, value in branches], otherwise)

    def substring(self, tree: exp.Expr) -> Node:
        length = tree.args.get("length")
        return calls.substring(
            self.node(tree.this), self.node(tree.args["start"]), None if length is None else self.node(length)
        )

    def trim(self, tree: exp.Expr) -> Node:
        if tree.expression is not None:
            raise NotMine("TRIM of other characters than spaces")
        return calls.trim(self.node(tree.this), (tree.args.get("position") or "BOTH").upper())

    def function(self, tree: exp.Expr) -> Node:
        if not isinstance(tree.this, str):
            raise NotMine("a quoted function")
        return calls.function(tree.this, [self.node(argument) for argument in tree.expressions])


def number(text: str) -> Constant:
    """A number as it is typed by the way it is written: 1, 9999999999, 1.50, 1e0."""
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    if _INTEGER.fullmatch(digits):
        value = sign * int(digits)
        for kind, bits in (("int", 31), ("bigint", 63)):
            if -(1 << bits) <= value < 1 << bits:
                return constant(kind, value, literal=True)
        return _decimal(value, 0)
    if (found := _DECIMAL.fullmatch(digits)) and digits != ".":
        return _decimal(sign * int(found[1] + found[2]), len(found[2]))
    if _DOUBLE.fullmatch(digits):
        return constant("double", sign * float(digits), literal=True)
    raise NotMine(f"number {text}")


def _decimal(value: int, scale: int) -> Constant:
    kind = decimal(max(len(str(abs(value))), scale), scale)
    sign, digits = int(value < 0), tuple(int(d) for d in str(abs(value)))
    return constant(kind, Decimal((sign, digits, -scale)), literal=True)


_Rule = Callable[[_Translation, exp.Expr], Node]
_RULES: dict[type[exp.Expr], _Rule] = {
    exp.Column: _Translation.column,
    exp.Literal: _Translation.literal,
    exp.Boolean: lambda _, tree: Constant("boolean", pa.scalar(bool(tree.this)), True),
    exp.Null: lambda _, tree: NULL,
    exp.Paren: lambda self, tree: self.node(tree.this),
    exp.Neg: _Translation.negative,
    exp.Cast: _Translation.cast,
    exp.TryCast: _Translation.cast,
    exp.And: lambda self, tree: operators.both(self.node(tree.this), self.node(tree.expression)),
    exp.Or: lambda self, tree: operators.either(self.node(tree.this), self.node(tree.expression)),
    exp.Not: _Translation.not_,
    exp.Is: _Translation.is_,
    exp.NullSafeEQ: lambda self, tree: operators.same(*self._operands(tree)),
    exp.NullSafeNEQ: lambda self, tree: operators.negated(operators.same(*self._operands(tree))),
    exp.Between: _Translation.between,
    exp.In: _Translation.in_,
    exp.Like: _Translation.like,
    exp.Escape: _Translation.escaped,
    exp.Case: _Translation.case,
    exp.Substring: _Translation.substring,
    exp.Extract: lambda self, tree: calls.extracted(tree.name, self.node(tree.expression)),
    exp.Trim: _Translation.trim,
    exp.DPipe: lambda self, tree: calls.concat(*self._operands(tree)),
    exp.Anonymous: _Translation.function,
}
