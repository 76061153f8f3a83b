"""Rows of values at which evaluators differ, and random expressions over them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tailrace.types import Column, schema

COLUMNS = [
    Column("y", "tinyint"), Column("h", "smallint"), Column("i", "int"), Column("j", "int"), Column("l", "bigint"),
    Column("m", "bigint"), Column("f", "float"), Column("x", "double"), Column("z", "double"),
    Column("p", "decimal(12,2)"), Column("q", "decimal(12,2)"), Column("r", "decimal(5,2)"),
    Column("n", "decimal(18,6)"), Column("w", "decimal(38,10)"), Column("v", "decimal(38,0)"),
    Column("k", "decimal(20,20)"), Column("s", "string"), Column("u", "string"), Column("d", "date"),
    Column("e", "date"), Column("t", "timestamp"), Column("a", "timestamp"), Column("b", "boolean"),
    Column("c", "boolean"), Column("o", "binary"), Column("_weight", "bigint"),
]  # fmt: skip
TYPES = {column.name: column.type for column in COLUMNS}
_FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, -0.5, 1.5, 2.5, 1e300, -1e300, 5e-324, 3e9, -3e9, 1e19, 0.3]
_STRINGS = [
    "", " ", "a", "A", "ab", "abc", "  abc ", "PROMO BRUSHED", "BRAZIL", "13-555", "%", "_", "a%b", "a_b", "ü", "ß",
    "añb", "\U0001f600x", "x\U0001f600", "a\nb", "a\n", "\n", "e\u0301", "\x00z", "special requests", "a" * 300, ".*",
    "\u3000x\u3000", "\tx\t", "it's", "1994-01-01", "日本語",
]  # fmt: skip
_DATES = [
    date(1, 1, 1), date(9999, 12, 31), date(1970, 1, 1), date(1969, 12, 31), date(2000, 2, 29), date(1900, 2, 28),
    date(1996, 2, 29), date(1995, 1, 31), date(1582, 10, 4), date(1582, 10, 15), date(2024, 12, 30), date(2021, 1, 3),
    date(1994, 1, 1),
]  # fmt: skip


def rows(count: int, seed: int) -> pa.Table:
    return values(COLUMNS, count, seed)


def values(columns: list[Column], count: int, seed: int) -> pa.Table:
    """Values at all borders, then as many of few digits, which are worked out in other ways."""
    rng = random.Random(seed)
    data = [{c.name: _value(rng, c) for c in columns} for _ in range(count)]
    data += [{c.name: _short(rng, c) for c in columns} for _ in range(count)]
    return pa.Table.from_pylist(data, schema=schema(columns))


def _short(rng: random.Random, column: Column) -> Any:
    if rng.random() < 0.05:
        return None
    if column.type in ("int", "bigint"):
        return rng.randrange(-20, 100)
    if not column.type.startswith("decimal"):
        return _value(rng, column)
    precision, scale = (int(n) for n in column.type[8:-1].split(","))
    return Decimal(rng.randrange(-(10 ** min(precision, 7)), 10 ** min(precision, 7))).scaleb(-scale)


def _value(rng: random.Random, column: Column) -> Any:
    if column.name == "_weight":
        return rng.choice([1, 1, -1, -1, 2, -3, 0])
    return None if rng.random() < 0.12 else _MAKERS[column.type.split("(")[0]](rng, column.type)


def _integer(bits: int) -> Callable[[random.Random, str], int]:
    top = 1 << (bits - 1)

    def make(rng: random.Random, _: str) -> int:
        return rng.choice([0, 1, -1, 2, 7, -7, 10, 100, top - 1, -top, -top + 1, rng.randrange(-top, top)])

    return make


def _decimal(rng: random.Random, kind: str) -> Decimal:
    precision, scale = (int(n) for n in kind[8:-1].split(","))
    top = 10**precision - 1
    near = [0, 1, -1, 5, 10**scale, -(10**scale), 15 * 10**scale // 10, 7 * 10**scale, top, -top, top // 2]
    size = 10 ** rng.randrange(1, precision + 1)
    number = rng.choice([*(n for n in near if abs(n) <= top), rng.randrange(-size, size), rng.randrange(-size, size)])
    return Decimal((int(number < 0), tuple(int(c) for c in str(abs(number))), -scale))


def _float(rng: random.Random, _: str) -> float:
    return rng.choice([*_FLOATS, rng.uniform(-1e3, 1e3), rng.uniform(-1, 1) * 10.0 ** rng.randrange(-30, 30)])


def _date(rng: random.Random, _: str = "date") -> date:
    return rng.choice([*_DATES, date(1970, 1, 1) + timedelta(days=rng.randrange(-700_000, 2_900_000))])


def _timestamp(rng: random.Random, _: str) -> datetime:
    micros = rng.choice([0, 1, 86_399_999_999, rng.randrange(86_400_000_000)])
    day = min(max(_date(rng), date(2, 1, 1)), date(9998, 1, 1))
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(microseconds=micros)


_MAKERS: dict[str, Callable[[random.Random, str], Any]] = {
    "tinyint": _integer(8),
    "smallint": _integer(16),
    "int": _integer(32),
    "bigint": _integer(64),
    "float": _float,
    "double": _float,
    "decimal": _decimal,
    "string": lambda rng, _: rng.choice(_STRINGS),
    "date": _date,
    "timestamp": _timestamp,
    "boolean": lambda rng, _: rng.random() < 0.5,
    "binary": lambda rng, _: rng.choice([b"", b"\x00", b"\x7f", b"\x80", b"\xff\x00", b"abc"]),
}

_NUMBERS = [
    "0", "1", "-1", "7", "1.5", "0.05", "-100.00", "1e0", "2147483648", "0.000001", "12345.678901", "NULL",
    "CAST(3 AS BIGINT)", "2.50", "(2)",
]  # fmt: skip


class Texts:
    """Random expressions, each of a family of types."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def any(self) -> str:
        family = self._rng.choice([self.number, self.number, self.truth, self.truth, self.text, self.day, self.moment])
        return family(self._rng.choice([1, 2, 2, 3]))

    def _pick(self, *choices: str) -> str:
        return self._rng.choice(choices)

    def number(self, depth: int) -> str:
        if depth == 0 or self._rng.random() < 0.15:
            return self._pick(*"yhijlmfxzpqrnwvkijlpqn", *_NUMBERS)
        a, b = self.number(depth - 1), self.number(depth - 1)
        kind = self._rng.randrange(13)
        if kind < 6:
            return f"({a} {self._pick('+', '-', '*', '/', '%', 'DIV')} {b})"
        if kind == 6:
            kinds = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(9,0)", "DECIMAL(38,2)")
            return f"CAST({a} AS {self._pick(*kinds, 'DECIMAL(12,4)', 'DECIMAL(25,2)', 'DECIMAL(38,20)')})"
        if kind == 7:
            return f"CASE WHEN {self.truth(depth - 1)} THEN {a} WHEN {self.truth(depth - 1)} THEN {b} END"
        if kind == 8:
            return f"if({self.truth(depth - 1)}, {a}, {b})"
        if kind == 9:
            return f"{self._pick('coalesce', 'greatest', 'least', 'nullif', 'nvl')}({a}, {b})"
        if kind == 10:
            return self._pick(f"abs({a})", f"floor({a})", f"ceil({a})", f"round({a})", f"round({a}, 2)",
                              f"sign({a})", f"sqrt({a})", f"(-({a}))", f"round({a}, 1)")  # fmt: skip
        if kind == 11:
            part = self._pick("year", "month", "day", "quarter", "dayofweek", "dayofyear", "weekday", "weekofyear")
            return f"{part}({self.day(depth - 1)})"
        return self._pick(f"length({self.text(depth - 1)})", f"datediff({self.day(0)}, {self.day(depth - 1)})")

    def truth(self, depth: int) -> str:
        if depth == 0 or self._rng.random() < 0.1:
            return self._pick("b", "c", "TRUE", "FALSE", "b IS NULL", "x > 0", "i = j", "s = 'a'")
        family = self._rng.choice([self.number, self.number, self.text, self.day, self.moment])
        a, b = family(depth - 1), family(depth - 1)
        kind = self._rng.randrange(11)
        if kind < 4:
            return f"({a} {self._pick('=', '<>', '<', '<=', '>', '>=', '<=>', '!=')} {b})"
        if kind == 4:
            return f"({a} {self._pick('IN', 'NOT IN')} ({b}, {family(0)}, {family(0)}))"
        if kind == 5:
            return f"({a} {self._pick('BETWEEN', 'NOT BETWEEN')} {b} AND {family(0)})"
        if kind == 6:
            return f"({a} {self._pick('IS NULL', 'IS NOT NULL', f'IS DISTINCT FROM {b}', f'IS NOT DISTINCT FROM {b}')})"
        if kind == 7:
            return f"(NOT {self.truth(depth - 1)})"
        if kind == 8:
            pattern = self._pick("a%", "%a", "%b%", "_", "a_b", "%a%b%", "", "%", "a", "_\u00f1_", "%s_ecial%", "%\n%")
            return f"({self.text(depth - 1)} {self._pick('LIKE', 'NOT LIKE')} '{pattern}')"
        if kind == 9:
            return f"(({self.truth(depth - 1)}) {self._pick('IS TRUE', 'IS NOT TRUE', 'IS FALSE', 'IS NOT FALSE')})"
        return f"({self.truth(depth - 1)} {self._pick('AND', 'OR')} {self.truth(depth - 1)})"

    def text(self, depth: int) -> str:
        if depth == 0 or self._rng.random() < 0.2:
            return self._pick("s", "u", "s", "u", "'a'", "''", "'añb'", "'BRAZIL'", "NULL")
        a, b = self.text(depth - 1), self.text(depth - 1)
        whole = str(self._rng.randrange(-5, 6))
        return self._pick(
            f"substring({a}, {whole}, {self._rng.randrange(-1, 6)})", f"substring({a}, {whole})", f"left({a}, {whole})",
            f"right({a}, {whole})", f"({a} || {b})", f"concat({a}, {b}, {a})", f"trim({a})", f"ltrim({a})",
            f"rtrim({a})", f"coalesce({a}, {b})", f"if({self.truth(depth - 1)}, {a}, {b})", f"nullif({a}, {b})",
            f"greatest({a}, {b})", f"substring({a} FROM {whole} FOR 3)", f"CAST({self._pick(*'ilpdb')} AS STRING)",
        )  # fmt: skip

    def day(self, depth: int) -> str:
        if depth == 0 or self._rng.random() < 0.2:
            return self._pick("d", "e", "d", "DATE '1998-12-01'", "CAST('1994-02-28' AS DATE)", "t", "CAST(t AS DATE)")
        a = self._pick("d", "e", "DATE '1996-02-29'", "CAST(a AS DATE)")
        amount = str(self._rng.randrange(-50, 120))
        return self._pick(
            f"({a} + INTERVAL '{amount}' DAY)", f"({a} - INTERVAL '{amount}' MONTH)", f"({a} + INTERVAL {amount} YEAR)",
            f"date_add({a}, {amount})", f"date_sub({a}, {self._pick('y', 'h', amount)})", f"({a} + {amount})",
            f"({a} - {amount})", f"add_months({a}, {amount})", f"last_day({a})",
            f"coalesce({a}, {self.day(depth - 1)})",
            f"if({self.truth(depth - 1)}, {a}, {self.day(depth - 1)})", f"greatest({a}, {self.day(depth - 1)})",
        )  # fmt: skip

    def moment(self, depth: int) -> str:
        if depth == 0 or self._rng.random() < 0.3:
            return self._pick("t", "a", "TIMESTAMP '2001-02-03 04:05:06.789'", "CAST(d AS TIMESTAMP)", "t", "d")
        a, amount = self._pick("t", "a"), str(self._rng.randrange(-50, 50))
        unit = self._pick("DAY", "HOUR", "MINUTE", "SECOND", "MONTH", "YEAR")
        return self._pick(
            f"({a} + INTERVAL '{amount}' {unit})", f"({a} - INTERVAL {amount} {unit})",
            f"coalesce({a}, {self.moment(depth - 1)})", f"least({a}, {self.moment(depth - 1)})",
            f"if({self.truth(depth - 1)}, {a}, {self.moment(depth - 1)})",
        )  # fmt: skip
