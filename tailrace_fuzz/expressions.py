"""Random typed expressions.

A number has a grade, which says what may be done with it so that a query keeps one answer:

    0   sums of it are exact in any order           a quarter, a small integer
    1   it is one value, its sums may round          x / 3
    2   itself may differ in its last digits         stddev(x), SUM(x / 3)

Grade 2 is only carried along: never compared, grouped by, joined by, ordered by or cast.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

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
    """A column in sight."""

    name: str = ""


_GENERIC = ("coalesce({}, {})", "nullif({}, {})", "greatest({}, {})", "least({}, {})")


class Expressions:
    """Makes expressions over the columns in sight."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def of(self, kind: str, scope: Sequence[Ref], depth: int) -> Expr:
        """An expression of one kind and of grade 0 or 1."""
        refs = [r for r in scope if r.kind == kind and r.grade < 2]
        if depth <= 0 or self._rng.random() < 0.25:
            if refs and self._rng.random() < 0.85:
                return self._rng.choice(refs)
            return self.literal(kind)
        if self._rng.random() < 0.2:
            return self._generic(kind, scope, depth)
        return self._filled(self._suited(TEMPLATES[kind], scope), kind, scope, depth)

    def condition(self, scope: Sequence[Ref], depth: int) -> Expr:
        """A condition that reads at least one column, if there is one."""
        for _ in range(10):
            found = self.of("bool", scope, depth)
            if any(r.sql in found.sql for r in scope):
                return found
        return found

    def filter(self, scope: Sequence[Ref], depth: int) -> str:
        """A condition for WHERE. Most random ones let nothing pass, and an empty answer shows little: widen some."""
        found = self.condition(scope, depth).sql
        form = self._rng.randrange(5)
        if form == 0:
            return f"(NOT coalesce({found}, FALSE))"
        if form == 1:
            return f"coalesce({found}, TRUE)"
        if form == 2 and scope:
            return f"({found} OR {self._rng.choice(scope).sql} IS NOT NULL)"
        return found

    def column(self, scope: Sequence[Ref], kinds: Sequence[str]) -> Ref | None:
        refs = [r for r in scope if r.kind in kinds and r.grade < 2]
        return self._rng.choice(refs) if refs else None

    def literal(self, kind: str) -> Expr:
        return Expr(self._rng.choice(LITERALS[kind]), kind)

    def _suited(self, templates: list[Template], scope: Sequence[Ref]) -> Template:
        """A template whose arguments are kinds of columns in sight, if luck finds one."""
        kinds = {r.kind for r in scope} | {"any"}
        for _ in range(4):
            template = self._rng.choice(templates)
            if kinds.issuperset(template.arguments):
                break
        return template

    def _filled(self, template: Template, kind: str, scope: Sequence[Ref], depth: int) -> Expr:
        arguments: list[Expr] = []
        for wanted in template.arguments:
            argument = self.of(self._kind(wanted, scope), scope, depth - 1)
            if any(argument.sql == other.sql for other in arguments):  # x < x says little
                argument = self.literal(argument.kind)
            arguments.append(argument)
        grades = [a.grade for a in arguments if kind in NUMERIC]
        return Expr(template.text.format(*(a.sql for a in arguments)), kind, max([template.grade, *grades]))

    def _kind(self, wanted: str, scope: Sequence[Ref]) -> str:
        if wanted != "any":
            return wanted
        return self._rng.choice([r.kind for r in scope if r.kind in SCALARS] or ["int"])

    def _generic(self, kind: str, scope: Sequence[Ref], depth: int) -> Expr:
        one, other = self.of(kind, scope, depth - 1), self.of(kind, scope, depth - 1)
        form = self._rng.randrange(8)
        if form < 2:
            condition = self.condition(scope, depth - 1)
            text = f"CASE WHEN {condition.sql} THEN {one.sql} ELSE {other.sql} END"
        elif form == 2:
            of = self._kind("any", scope)
            subject, value = self.of(of, scope, depth - 1), self.literal(of)
            text = f"CASE {subject.sql} WHEN {value.sql} THEN {one.sql} END"
        elif form == 3:
            text = f"if({self.condition(scope, depth - 1).sql}, {one.sql}, {other.sql})"
        else:
            text = self._rng.choice(_GENERIC).format(one.sql, other.sql)
        return Expr(text, kind, max(one.grade, other.grade))
