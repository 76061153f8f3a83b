"""Random typed expressions.

A number has a grade, which limits its use so that a query has exactly one answer:

    0   its sums are exact in any order               a quarter, a small integer
    1   the value is exact, its sums may round        x / 3
    2   the value may differ in its last digits       stddev(x), SUM(x / 3)

A value of grade 2 is only selected, never compared, grouped by, joined on, ordered by or cast.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tailrace_fuzz import nested
from tailrace_fuzz.templates import LITERALS, TEMPLATES, Template

NUMERIC = ("int", "dec", "dbl")
SCALARS = ("bool", "int", "dec", "dbl", "str", "bin", "date", "ts", "ntz")
ARRAYS = ("arr:int", "arr:str")


@dataclass(frozen=True)
class Expr:
    sql: str
    kind: str
    grade: int = 0


@dataclass(frozen=True)
class Ref(Expr):
    """A column in scope."""

    name: str = ""


_GENERIC = ("coalesce({}, {})", "nullif({}, {})", "greatest({}, {})", "least({}, {})")


class Expressions:
    """Generates expressions over the columns in scope."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def of(self, kind: str, scope: Sequence[Ref], depth: int) -> Expr:
        """An expression of this kind, of grade 0 or 1."""
        refs = [r for r in scope if r.kind == kind and r.grade < 2]
        if depth <= 0 or self._rng.random() < 0.25:
            if refs and self._rng.random() < 0.85:
                return self._rng.choice(refs)
            return self.literal(kind)
        if self._rng.random() < 0.2:
            return self._generic(kind, scope, depth)
        return self._fill_template(self._choose_template(_templates(kind, scope), scope), kind, scope, depth)

    def condition(self, scope: Sequence[Ref], depth: int) -> Expr:
        """A condition that, almost always, reads at least one column."""
        for _ in range(10):
            condition = self.of("bool", scope, depth)
            if any(r.sql in condition.sql for r in scope):
                break
        return condition

    def filter(self, scope: Sequence[Ref], depth: int) -> str:
        """A condition for WHERE. Most random conditions select nothing, which tests little, so some are widened."""
        condition = self.condition(scope, depth).sql
        form = self._rng.randrange(5)
        if form == 0:
            return f"(NOT coalesce({condition}, FALSE))"
        if form == 1:
            return f"coalesce({condition}, TRUE)"
        if form == 2 and scope:
            return f"({condition} OR {self._rng.choice(scope).sql} IS NOT NULL)"
        return condition

    def column(self, scope: Sequence[Ref], kinds: Sequence[str]) -> Ref | None:
        refs = [r for r in scope if r.kind in kinds and r.grade < 2]
        return self._rng.choice(refs) if refs else None

    def literal(self, kind: str) -> Expr:
        return Expr(self._rng.choice(LITERALS[kind] if kind in LITERALS else nested.LITERALS[kind]), kind)

    def _choose_template(self, templates: list[Template], scope: Sequence[Ref]) -> Template:
        """A template, preferably one whose argument kinds are all in scope (four attempts)."""
        kinds = {r.kind for r in scope} | {"any"}
        for _ in range(4):
            template = self._rng.choice(templates)
            if kinds.issuperset(template.arguments):
                break
        return template

    def _fill_template(self, template: Template, kind: str, scope: Sequence[Ref], depth: int) -> Expr:
        arguments: list[Expr] = []
        for kind_wanted in template.arguments:
            argument = self.of(self._resolve_kind(kind_wanted, scope), scope, depth - 1)
            if any(argument.sql == earlier.sql for earlier in arguments):  # x < x tests little
                argument = self.literal(argument.kind)
            arguments.append(argument)
        grades = [a.grade for a in arguments if kind in NUMERIC]
        return Expr(template.text.format(*(a.sql for a in arguments)), kind, max([template.grade, *grades]))

    def _resolve_kind(self, kind: str, scope: Sequence[Ref]) -> str:
        """The kind itself, or a random scalar kind in scope for "any"."""
        if kind != "any":
            return kind
        return self._rng.choice([r.kind for r in scope if r.kind in SCALARS] or ["int"])

    def _generic(self, kind: str, scope: Sequence[Ref], depth: int) -> Expr:
        first, second = self.of(kind, scope, depth - 1), self.of(kind, scope, depth - 1)
        form = self._rng.randrange(8)
        if form < 2:
            condition = self.condition(scope, depth - 1)
            text = f"CASE WHEN {condition.sql} THEN {first.sql} ELSE {second.sql} END"
        elif form == 2:
            subject_kind = self._resolve_kind("any", scope)
            subject, value = self.of(subject_kind, scope, depth - 1), self.literal(subject_kind)
            text = f"CASE {subject.sql} WHEN {value.sql} THEN {first.sql} END"
        elif form == 3:
            text = f"if({self.condition(scope, depth - 1).sql}, {first.sql}, {second.sql})"
        else:
            forms = _GENERIC[:1] if kind == "map" else _GENERIC  # the others compare
            text = self._rng.choice(forms).format(first.sql, second.sql)
        return Expr(text, kind, max(first.grade, second.grade))


def has_nested(scope: Sequence[Ref]) -> bool:
    """Whether a column of the table with nested columns is in scope, or something made of one."""
    return any(r.kind in (*nested.ORDERED, "map") for r in scope)


def _templates(kind: str, scope: Sequence[Ref]) -> list[Template]:
    own = TEMPLATES.get(kind, [])
    return [*own, *nested.TEMPLATES.get(kind, [])] if has_nested(scope) or not own else own
