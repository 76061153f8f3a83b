"""Which accumulators an aggregate stores, and how its answers are computed from them.

    SUM(x)  = s if c > 0        s = Σ x · weight      c = Σ weight where x is not NULL
    AVG(x)  = s / c             COUNT(x) = c          COUNT(*) = n
    MIN(x)  = lo                MAX(x) = hi           COUNT(DISTINCT x) = d
    VAR_POP(x) = m / c          VAR_SAMP(x) = m / (c - 1)                            m = Σ (x - mean)²

Contributions are Spark SQL over the input row, answers are Spark SQL over the accumulators: types, rounding and
overflow are Spark's. Calls that need the same accumulator share it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tailrace.plan.nodes import Aggregate, Call
from tailrace.plan.physical.arrangements import SPREADS, WIDE
from tailrace.types import INTEGERS, decimal_parts

_SYNONYMS = {"mean": "avg", "variance": "var_samp", "std": "stddev_samp", "stddev": "stddev_samp"}


@dataclass(frozen=True)
class Contribution:
    """What each row adds to a sum: SQL and type. `plain`, if it is simply the sum or count of columns (by position)."""

    sql: str
    type: str
    plain: tuple[Literal["sum", "count"], tuple[int, ...]] | None = None


@dataclass
class Slots:
    """The accumulators of one aggregate.

    `sums` are summed as they are. The others are input positions: of doubles summed exactly (`floats`), of variances
    (`spreads`), of columns whose values are stored (`values`), and of those with MIN or MAX (`ends`).
    """

    node: Aggregate
    sums: list[Contribution] = field(default_factory=list)
    floats: list[int] = field(default_factory=list)
    spreads: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    ends: set[int] = field(default_factory=set)

    def answers(self) -> list[str]:
        return [f"CAST({self._answer(call)} AS {call.type})" for call in self.node.calls]

    def _answer(self, call: Call) -> str:
        name = _SYNONYMS.get(call.function, call.function)
        if name == "count" and not call.args:
            return "n"
        if call.distinct and name == "count":
            return f"d{self._value(call.args[0], ends=False)}"
        if name in ("min", "max"):
            return f"{'lo' if name == 'min' else 'hi'}{self._value(call.args[0], ends=True)}"
        if name == "count_if":
            return self._sum(Contribution(f"CASE WHEN _{call.args[0]} THEN _weight ELSE 0L END", "bigint"))
        counted = self._count(call.args)
        if name == "count":
            return counted
        if call.function in SPREADS:
            return self._spread(name, call.args[0], counted)
        total = self._total(call.args[0], average=name == "avg")
        if name == "sum":
            return f"CASE WHEN {counted} > 0 THEN {total} END"
        decimal = decimal_parts(self._type(call.args[0]))
        if decimal:
            total = f"CAST({total} AS DECIMAL({decimal[0] + 10},{decimal[1]}))"
            return f"CASE WHEN {counted} > 0 THEN {total} / CAST({counted} AS DECIMAL(20,0)) END"
        return f"CASE WHEN {counted} > 0 THEN CAST({total} AS DOUBLE) / {counted} END"

    def _spread(self, name: str, position: int, counted: str) -> str:
        if position not in self.spreads:
            self.spreads.append(position)
        correction = "" if name.endswith("pop") else " - 1"
        answer = f"m{self.spreads.index(position)} / ({counted}{correction})"
        answer = f"sqrt({answer})" if name.startswith("stddev") else answer
        return f"CASE WHEN {counted}{correction} > 0 THEN {answer} END"

    def _type(self, position: int) -> str:
        return self.node.input.columns[position].type

    def _sum(self, contribution: Contribution) -> str:
        if contribution not in self.sums:
            self.sums.append(contribution)
        return f"s{self.sums.index(contribution)}"

    def _count(self, args: tuple[int, ...]) -> str:
        not_null = " AND ".join(f"_{a} IS NOT NULL" for a in args)
        return self._sum(Contribution(f"CASE WHEN {not_null} THEN _weight ELSE 0L END", "bigint", ("count", args)))

    def _total(self, position: int, *, average: bool) -> str:
        kind, column = self._type(position), f"_{position}"
        if (decimal := decimal_parts(kind)) and decimal[0] > WIDE:
            return self._wide_total(column, decimal[1])
        if decimal:
            times = f"CAST({column} * CAST(_weight AS DECIMAL(9,0)) AS DECIMAL(38,{decimal[1]}))"
            signed = f"CASE WHEN _weight = 1 THEN {column} WHEN _weight = -1 THEN -{column} ELSE {times} END"
            kind = f"decimal(38,{decimal[1]})"
            return self._sum(Contribution(f"CAST({signed} AS {kind})", kind, ("sum", (position,))))
        if kind in INTEGERS:
            if average and kind == "bigint":  # Spark averages bigints as doubles, which do not overflow
                exact = f"CAST(CAST({column} AS DECIMAL(19,0)) * CAST(_weight AS DECIMAL(19,0)) AS DECIMAL(38,0))"
                return self._sum(Contribution(exact, "decimal(38,0)"))
            return self._sum(Contribution(f"CAST({column} AS BIGINT) * _weight", "bigint", ("sum", (position,))))
        if position not in self.floats:
            self.floats.append(position)
        return f"f{self.floats.index(position)}"

    def _wide_total(self, column: str, scale: int) -> str:
        """Σ floor(x) + Σ (x - floor(x)). Neither sum overflows before Spark's own SUM would."""
        parts = []
        for part, kind in (
            (f"floor({column})", "decimal(38,0)"),
            (f"({column} - floor({column}))", f"decimal(38,{scale})"),
        ):
            parts.append(self._sum(Contribution(f"CAST({part} * CAST(_weight AS DECIMAL(9,0)) AS {kind})", kind)))
        return f"({parts[0]} + {parts[1]})"

    def _value(self, position: int, *, ends: bool) -> int:
        if position not in self.values:
            self.values.append(position)
        if ends:
            self.ends.add(position)
        return self.values.index(position)


def plan_slots(node: Aggregate) -> tuple[Slots, list[str]]:
    """The accumulators of an aggregate, and the SQL of each call's answer."""
    slots = Slots(node)
    return slots, slots.answers()
