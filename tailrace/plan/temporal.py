"""Temporal conditions: comparisons of a row with the time, as borders of the row alone.

    ts > now() - INTERVAL 1 DAY     =   now() < ts + 1 day            the row is valid until  ts + 1 day
    now() >= starts                                                   the row is valid from   starts

A row is valid while  from <= now < until.  Borders are microseconds since 1970, so `<` and `<=` are exact. A condition
that is NULL is not true: its row is never valid.

The side with the time must be a step function of it:  step(now) + c,  with c in microseconds and steps of 1
microsecond, 1 day (current_date) or the unit of date_trunc. Then, for any x of the row and x' = x - c,

    step(now) <= x'    iff   now <  floor(x') + step           step(now) >  x'    iff   now >= floor(x') + step
    step(now) <  x'    iff   step(now) <= x' - 1               step(now) >= x'    iff   step(now) >  x' - 1
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from tailrace.plan.expressions import conjuncts, parse_expr
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import generate
from tailrace.plan.sql.durations import DAY, SECOND, UNITS, interval_micros
from tailrace.plan.sql.times import DAYS, is_time, mentions_time, reads_time

ALWAYS = 9_000_000_000_000_000_000
"""The border of a row that is valid without end, negated of one that is valid without beginning: 287,000 years."""

_STEPS = {unit: micros for unit, micros in UNITS.items() if unit != "week"}  # 1970-01-01 did not begin a week
_DATE_ADD, _DATE_SUB = ("date_add", "dateadd"), ("date_sub",)
_TO_DATE = ("date", "to_date")
_SPAN = re.compile(r"([+-]?)(\d+) (\d+):(\d+):(\d+)(?:\.(\d{1,6}))?")

_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE, exp.EQ: exp.EQ,
}  # fmt: skip
_NEGATED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GTE, exp.LTE: exp.GT, exp.GT: exp.LTE, exp.GTE: exp.LT,
}  # fmt: skip

ON_THE_ROW = "write it as a comparison of the time with a value of the row, such as ts + INTERVAL 1 MONTH > now()"


class NotTemporal(Exception):
    """The condition has no borders. The text says why, and what to write instead."""


@dataclass(frozen=True)
class Borders:
    """The expressions of a condition's borders, BIGINT; None if it has no such border."""

    start: str | None = None
    end: str | None = None


@dataclass(frozen=True)
class _Clock:
    """step(now) + offset, minus the row's value `minus` if there is one."""

    step: int
    offset: int = 0
    minus: str | None = None


def is_temporal(condition: str) -> bool:
    """Whether a condition of a plan reads the time."""
    return mentions_time(condition) and reads_time(parse_expr(condition))


def split_temporal(condition: str) -> tuple[list[str], list[str]]:
    """The conjuncts of a condition that do not read the time, and those that do."""
    parts = conjuncts(condition) if mentions_time(condition) else [condition]
    return [p for p in parts if not is_temporal(p)], [p for p in parts if is_temporal(p)]


def borders(condition: str) -> list[Borders]:
    """The borders of a condition of a plan. A row is valid while it is between all of them."""
    return [_borders(*comparison) for comparison in comparisons(parse_expr(condition))]


def row_sides(condition: str) -> list[str]:
    """The expressions of the row that a condition of a plan compares with the time."""
    found = []
    for _, clock, row in comparisons(parse_expr(condition)):
        found += [clock.minus] if clock.minus is not None else [generate(row)]
    return found


def comparisons(tree: exp.Expr) -> Iterator[tuple[type[exp.Expr], _Clock, exp.Expr]]:
    """The comparisons `clock operator row` whose AND is the condition; raises `NotTemporal`."""
    tree = tree.unnest()
    if isinstance(tree, exp.Between):
        yield from _between(tree)
    elif isinstance(tree, exp.Not) and type(tree.this.unnest()) in _NEGATED:
        inner = tree.this.unnest()
        yield _comparison(_NEGATED[type(inner)], inner.this, inner.expression)
    elif type(tree) in _FLIPPED:
        yield _comparison(type(tree), tree.this, tree.expression)
    else:
        raise NotTemporal(f"it must be a comparison (<, <=, >, >=, =, BETWEEN) that is ANDed; {ON_THE_ROW}")


def _between(tree: exp.Between) -> Iterator[tuple[type[exp.Expr], _Clock, exp.Expr]]:
    if tree.args.get("symmetric") or not reads_time(tree):
        raise NotTemporal("write it as two comparisons")
    for operator, bound in ((exp.GTE, tree.args["low"]), (exp.LTE, tree.args["high"])):
        if not reads_time(tree.this) and not reads_time(bound):
            raise NotTemporal("only one bound of BETWEEN reads the time; write it as two comparisons")
        yield _comparison(operator, tree.this, bound)


def _comparison(operator: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> tuple[type[exp.Expr], _Clock, exp.Expr]:
    if reads_time(left) and reads_time(right):
        raise NotTemporal("the time may be on one side of a comparison only")
    if reads_time(right):
        operator, left, right = _FLIPPED[operator], right, left
    clock = _clock(left.unnest())
    right = right.unnest()
    if clock.minus is not None and _constant_micros(right) is None:
        raise NotTemporal("a difference of times must be compared with a constant interval, such as INTERVAL 1 HOUR")
    return operator, clock, right


def _clock(tree: exp.Expr) -> _Clock:
    """The side of a comparison that reads the time, as a step function of it."""
    if is_time(tree):
        return _Clock(DAY if functions.name(tree) in DAYS else 1)
    if isinstance(tree, exp.Cast):
        return _cast_clock(tree)
    if isinstance(tree, exp.Add | exp.Sub):
        return _shifted_clock(tree)
    word, arguments = functions.name(tree), [a.unnest() for a in tree.expressions]
    if word in _TO_DATE and len(arguments) == 1:
        return _to_day(_clock(arguments[0]))
    if word in (*_DATE_ADD, *_DATE_SUB) and len(arguments) == 2:
        days = _constant_integer(arguments[1])
        clock = _to_day(_clock(arguments[0]))
        if days is not None:
            return replace(clock, offset=clock.offset + DAY * (days if word in _DATE_ADD else -days))
    if word == "date_trunc" and len(arguments) == 2 and isinstance(arguments[0], exp.Literal):
        step = _STEPS.get(arguments[0].name.lower())
        clock = _clock(arguments[1])
        if step is not None and clock.minus is None and clock.offset % step == 0 and step >= clock.step:
            return replace(clock, step=step)
    raise NotTemporal(f"the time is used in {generate(tree)}, which has no inverse; {ON_THE_ROW}")


def _cast_clock(tree: exp.Cast) -> _Clock:
    to = generate(tree.args["to"]).upper()
    clock = _clock(tree.this.unnest())
    if to == "DATE":
        return _to_day(clock)
    if to not in ("TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"):
        raise NotTemporal(f"the time is cast to {to}; compare it with a DATE or TIMESTAMP")
    return clock


def _to_day(clock: _Clock) -> _Clock:
    if clock.minus is not None or clock.offset % DAY:
        raise NotTemporal("the time is shifted by a part of a day before it becomes a date; shift the row's side")
    return replace(clock, step=DAY)


def _shifted_clock(tree: exp.Add | exp.Sub) -> _Clock:
    left, right = tree.this.unnest(), tree.expression.unnest()
    sign = 1 if isinstance(tree, exp.Add) else -1
    if not reads_time(left):
        if sign < 0:
            raise NotTemporal("the time is subtracted; subtract the row's value from the time instead")
        left, right = right, left
    clock, micros = _clock(left), _constant_micros(right)
    if micros is None and (days := _constant_integer(right)) is not None and clock.step == DAY:
        micros = days * DAY
    if micros is not None:
        return replace(clock, offset=clock.offset + sign * micros)
    if sign < 0 and clock.minus is None and clock.step == 1 and not _is_interval(right):
        return replace(clock, minus=generate(right))
    if _is_interval(right):
        raise NotTemporal(
            f"{generate(right)} before or after the time is not a fixed number of microseconds;"
            f" add it to the row's value instead, such as ts + {generate(right)} > now()"
        )
    raise NotTemporal(f"the time is shifted by {generate(right)}, which is not a constant; {ON_THE_ROW}")


def _is_interval(tree: exp.Expr) -> bool:
    return tree.find(exp.Interval) is not None


def _constant_integer(tree: exp.Expr) -> int | None:
    if isinstance(tree, exp.Neg):
        inner = _constant_integer(tree.this.unnest())
        return None if inner is None else -inner
    return int(tree.name) if isinstance(tree, exp.Literal) and tree.is_int else None


def _constant_micros(tree: exp.Expr) -> int | None:
    """The length of a constant interval of days and smaller units; None for any other expression."""
    tree = tree.unnest()
    if isinstance(tree, exp.Neg):
        inner = _constant_micros(tree.this)
        return None if inner is None else -inner
    if isinstance(tree, exp.Add | exp.Sub):
        left, right = _constant_micros(tree.this), _constant_micros(tree.expression)
        if left is None or right is None:
            return None
        return left + right if isinstance(tree, exp.Add) else left - right
    if not isinstance(tree, exp.Interval) or not isinstance(tree.this, exp.Literal):
        return None
    amount, unit = tree.this.name.strip(), tree.args.get("unit")
    if isinstance(unit, exp.Var):
        return interval_micros(amount, unit.name)
    if isinstance(unit, exp.IntervalSpan) and generate(unit).upper() == "DAY TO SECOND":
        return _span_micros(amount)
    return None


def _span_micros(text: str) -> int | None:
    match = _SPAN.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(match[i]) for i in range(2, 6))
    micros = days * DAY + ((hours * 60 + minutes) * 60 + seconds) * SECOND + int((match[6] or "").ljust(6, "0"))
    return -micros if match[1] == "-" else micros


def _borders(operator: type[exp.Expr], clock: _Clock, row: exp.Expr) -> Borders:
    if clock.minus is not None:  # now + c - x  compared with an interval
        text, shift = clock.minus, (_constant_micros(row) or 0) - clock.offset
    else:
        text, shift = generate(row), -clock.offset
    at, before = (_floor_and_step(text, by, clock.step) for by in (shift, shift - 1))
    if operator is exp.EQ:
        return Borders(before, at)
    border = at if operator in (exp.LTE, exp.GT) else before
    return Borders(end=border) if operator in (exp.LT, exp.LTE) else Borders(start=border)


def _floor_and_step(text: str, shift: int, step: int) -> str:
    """floor(x + shift) + step, in microseconds. Times are compared as timestamps: CAST is the identity for one."""
    micros = f"UNIX_MICROS(CAST({text} AS TIMESTAMP))"
    if step == 1:
        return _normal(_plus(micros, shift + 1))
    shifted = _plus(micros, shift)
    return _normal(f"{shifted} - PMOD({shifted}, {step}) + {step}")


def _plus(text: str, number: int) -> str:
    return f"{text} {'+' if number > 0 else '-'} {abs(number)}" if number else text


def _normal(text: str) -> str:
    return generate(parse_expr(text))
