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
from dataclasses import dataclass, replace

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


@dataclass(frozen=True)
class Template:
    """`text` with one slot per argument; the grade is the worst of the numbers in it and of its own."""

    text: str
    arguments: tuple[str, ...]
    grade: int = 0


def _templates(*lines: str, grade: int = 0) -> list[Template]:
    """From `text ; kinds` lines."""
    found = []
    for line in lines:
        text, _, kinds = line.partition(" ; ")
        found.append(Template(text, tuple(kinds.split()), grade))
    return found


TEMPLATES: dict[str, list[Template]] = {
    "int": [
        *_templates(
            "({} + {}) ; int int", "({} - {}) ; int int", "(- {}) ; int", "abs({}) ; int", "({} % 3) ; int",
            "pmod({}, 4) ; int", "({} div 2) ; int", "length({}) ; str", "ascii({}) ; str", "instr({}, 'b') ; str",
            "year({}) ; date", "month({}) ; date", "dayofweek({}) ; date", "datediff({}, {}) ; date date",
            "hour({}) ; ts", "minute({}) ; ntz", "extract(DAY FROM {}) ; date", "size({}) ; arr:int", "size({}) ; arr:str",
            "CAST({} AS INT) ; bool", "CAST({} AS INT) ; str", "CAST({} AS BIGINT) ; dec", "CAST({} AS SMALLINT) ; int",
            "floor({}) ; dec", "element_at({}, 1) ; arr:int", "aggregate({}, 0L, (acc, e) -> acc + e) ; arr:int",
            "length({}) ; bin", "coalesce(try_cast({} AS INT), 0) ; str", "locate('a', {}) ; str",
        ),
        *_templates(
            "({} * {}) ; int int", "({} & {}) ; int int", "shiftleft({}, 2) ; int", "CAST({} AS INT) ; dbl",
            "floor({}) ; dbl", "ceil({}) ; dbl", "crc32({}) ; bin", "hash({}, {}) ; str int",
            "unix_timestamp({}) ; ts", grade=1,
        ),
    ],
    "dec": _templates(
        "({} + {}) ; dec dec", "({} - {}) ; dec dec", "({} * 2) ; dec", "({} * {}) ; dec int", "(- {}) ; dec",
        "abs({}) ; dec", "round({}, 1) ; dec", "CAST({} AS DECIMAL(12,2)) ; int", "CAST({} AS DECIMAL(10,3)) ; dec",
        "({} / 4) ; dec", "({} / {}) ; dec dec", "CAST({} AS DECIMAL(12,3)) ; dbl", "({} % 3) ; dec",
        "({} + {}) ; dec int", "CAST({} AS DECIMAL(5,1)) ; str",
    ),
    "dbl": [
        *_templates("({} + {}) ; dbl dbl", "({} - {}) ; dbl dbl", "({} * 2) ; dbl", "(- {}) ; dbl", "abs({}) ; dbl"),
        *_templates(
            "({} * {}) ; dbl dbl", "({} / {}) ; dbl dbl", "({} / {}) ; int int", "round({}, 1) ; dbl",
            "sqrt(abs({})) ; dbl", "CAST({} AS DOUBLE) ; int", "CAST({} AS DOUBLE) ; dec", "CAST({} AS FLOAT) ; dbl",
            "pow({}, 2) ; dbl", "nanvl({}, {}) ; dbl dbl", "({} + {}) ; dbl int", "CAST({} AS DOUBLE) ; str", grade=1,
        ),
    ],
    "str": _templates(
        "concat({}, {}) ; str str", "({} || {}) ; str str", "upper({}) ; str", "lower({}) ; str", "trim({}) ; str",
        "substr({}, 1, 2) ; str", "substring({} FROM 2) ; str", "replace({}, 'a', 'zz') ; str", "lpad({}, 3, '.') ; str",
        "reverse({}) ; str", "CAST({} AS STRING) ; int", "CAST({} AS STRING) ; date", "CAST({} AS STRING) ; dec",
        "CAST({} + 0.0D AS STRING) ; dbl", "CAST({} AS STRING) ; bool", "date_format({}, 'yyyy-MM') ; date",
        "CAST({} AS STRING) ; ts", "concat_ws('-', {}, {}) ; str str", "left({}, 1) ; str", "initcap({}) ; str",
        "split({}, 'a')[0] ; str", "hex({}) ; bin", "element_at({}, 1) ; arr:str", "array_join({}, '+') ; arr:str",
        "translate({}, 'ab', 'ba') ; str", "CAST({} AS STRING) ; ntz", "md5({}) ; bin", "regexp_replace({}, '[ab]', '*') ; str",
        "overlay({} PLACING '_' FROM 1) ; str",
    ),
    "bool": [
        *_templates(
            "({} AND {}) ; bool bool", "({} OR {}) ; bool bool", "(NOT {}) ; bool", "({} IS NULL) ; any",
            "({} IS NOT NULL) ; any", "({} LIKE '%a%') ; str", "({} LIKE 'a_') ; str", "({} RLIKE '^[ab]+$') ; str",
            "startswith({}, 'a') ; str", "({} IS TRUE) ; bool", "({} IS NOT FALSE) ; bool", "contains({}, 'b') ; str",
            "array_contains({}, 1) ; arr:int", "exists({}, e -> e > 1) ; arr:int", "(CAST({} AS INT) > 0) ; str",
        ),
        *(
            template
            for kind in ("int", "dec", "dbl", "str", "date", "ts", "ntz", "bin")
            for template in _templates(
                f"({{}} = {{}}) ; {kind} {kind}", f"({{}} < {{}}) ; {kind} {kind}", f"({{}} <= {{}}) ; {kind} {kind}",
                f"({{}} <> {{}}) ; {kind} {kind}", f"({{}} <=> {{}}) ; {kind} {kind}",
                f"({{}} BETWEEN {{}} AND {{}}) ; {kind} {kind} {kind}", f"({{}} IN ({{}}, {{}})) ; {kind} {kind} {kind}",
                f"({{}} NOT IN ({{}}, {{}})) ; {kind} {kind} {kind}", f"({{}} IS DISTINCT FROM {{}}) ; {kind} {kind}",
            )
        ),
        *_templates("({} < {}) ; int dec", "({} = {}) ; int dbl", "({} >= {}) ; dec dbl", "({} > {}) ; ts date"),
    ],
    "date": _templates(
        "date_add({}, 1) ; date", "date_sub({}, pmod({}, 5)) ; date int", "last_day({}) ; date", "trunc({}, 'MM') ; date",
        "add_months({}, 1) ; date", "CAST({} AS DATE) ; ts", "make_date(2026, 1 + pmod({}, 12), 1) ; int",
        "({} + INTERVAL 2 DAYS) ; date", "to_date({}) ; str", "CAST({} AS DATE) ; ntz", "next_day({}, 'MON') ; date",
    ),
    "ts": _templates(
        "date_trunc('HOUR', {}) ; ts", "CAST({} AS TIMESTAMP) ; date", "({} + INTERVAL '90' MINUTE) ; ts",
        "({} - INTERVAL '1' DAY) ; ts", "CAST({} AS TIMESTAMP) ; ntz",
    ),
    "ntz": _templates("({} + INTERVAL '1' HOUR) ; ntz", "CAST({} AS TIMESTAMP_NTZ) ; ts", "CAST({} AS TIMESTAMP_NTZ) ; date"),
    "bin": _templates("CAST({} AS BINARY) ; str", "({} || {}) ; bin bin", "encode({}, 'UTF-8') ; str"),
    "arr:int": _templates(
        "array({}, {}) ; int int", "sequence(1, pmod(coalesce({}, 0), 4)) ; int", "transform({}, e -> e + 1) ; arr:int",
        "filter({}, e -> e > 1) ; arr:int", "array_distinct({}) ; arr:int", "array({}) ; int", "sort_array({}) ; arr:int",
        "slice({}, 1, 1) ; arr:int",
    ),
    "arr:str": _templates(
        "split({}, '') ; str", "array({}, {}) ; str str", "array_distinct({}) ; arr:str", "transform({}, e -> upper(e)) ; arr:str",
        "array({}, {}, {}) ; str str str", "array_remove({}, 'a') ; arr:str",
    ),
}  # fmt: skip
_GENERIC = ("coalesce({}, {})", "nullif({}, {})", "greatest({}, {})", "least({}, {})")

LITERALS: dict[str, tuple[str, ...]] = {
    "bool": ("TRUE", "FALSE", "CAST(NULL AS BOOLEAN)"),
    "int": ("0", "1", "2", "3", "-1", "5L", "CAST(NULL AS INT)", "1000"),
    "dec": ("1.00", "2.5", "-2.50", "0.0", "CAST(NULL AS DECIMAL(4,2))"),
    "dbl": ("1.0D", "0.25D", "-3.75D", "0.0D", "CAST(NULL AS DOUBLE)"),
    "str": ("'a'", "'b'", "''", "'ab'", "'it''s'", "CAST(NULL AS STRING)", "'1'"),
    "bin": ("X'61'", "CAST('ab' AS BINARY)"),
    "date": ("DATE '2026-01-31'", "DATE '2026-02-01'", "CAST(NULL AS DATE)"),
    "ts": ("TIMESTAMP '2026-01-31 23:00:00'", "TIMESTAMP '2026-02-01 00:00:00'"),
    "ntz": ("TIMESTAMP_NTZ '2026-01-31 23:00:00'", "CAST(NULL AS TIMESTAMP_NTZ)"),
    "arr:int": ("array(1, 2, 2)", "array(3, CAST(NULL AS INT))", "CAST(NULL AS ARRAY<INT>)", "CAST(array() AS ARRAY<INT>)"),
    "arr:str": ("array('a', 'b')", "split('b,a,b', ',')"),
}  # fmt: skip


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
        arguments = [self.of(self._kind(a, scope), scope, depth - 1) for a in template.arguments]
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


def renamed(ref: Ref, sql: str) -> Ref:
    return replace(ref, sql=sql)
