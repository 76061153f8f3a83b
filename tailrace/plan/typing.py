"""Types of expressions, as Spark decides them; behind a protocol, so that tests need no JVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlglot import exp

from tailrace.errors import SqlError
from tailrace.plan.nodes import column_of
from tailrace.plan.outer import null_outer_refs
from tailrace.plan.sql.dialect import location
from tailrace.types import INTEGERS, Column, is_float

_TIMES = ("date", "timestamp", "timestamp_ntz")


class ExpressionFault(SqlError):
    """The typer cannot analyse the expression at `index`, for the reason in `message`."""


class Typer(Protocol):
    def types(self, columns: Sequence[Column], expressions: Sequence[str]) -> list[str]:
        """Spark's type of each expression over a relation with these columns, named `_0`, `_1`, ...

        Either all expressions of one call are aggregates or none is. Raises `ExpressionFault`.
        """


class Types:
    """A `Typer` with a cache, which reports faults with their place in the user's text.

    A type depends only on the expression and the input's types, so the cache serves all views.
    """

    def __init__(self, typer: Typer) -> None:
        self._typer = typer
        self._known: dict[tuple[tuple[str, ...], str], str] = {}

    def of(
        self,
        columns: Sequence[Column],
        expressions: Sequence[str],
        origins: Sequence[exp.Expr | None] = (),
    ) -> list[str]:
        """The type of each expression; `origins` are the parts of the user's text they come from, for faults."""
        shape = tuple(c.type for c in columns)
        unknown = [i for i, e in enumerate(expressions) if column_of(e) is None and (shape, e) not in self._known]
        if unknown:
            try:
                answers = self._typer.types(columns, [null_outer_refs(expressions[i]) for i in unknown])
            except ExpressionFault as fault:
                raise _with_location(fault, [origins[i] if i < len(origins) else None for i in unknown]) from fault
            self._known.update(zip(((shape, expressions[i]) for i in unknown), answers, strict=True))
        return [self._lookup(columns, shape, e) for e in expressions]

    def _lookup(self, columns: Sequence[Column], shape: tuple[str, ...], expression: str) -> str:
        position = column_of(expression)
        return columns[position].type if position is not None else self._known[shape, expression]

    def common(self, left: str, right: str) -> str:
        """The type that Spark widens both types to."""
        if left == right:
            return left
        return self.of([Column("_0", left), Column("_1", right)], ["COALESCE(_0, _1)"])[0]

    def compared(self, left: str, right: str) -> str | None:
        """The type in which Spark's `=` compares values of two types; None if only Spark knows.

        Not always the common type: `=` compares a string and a number as numbers, `coalesce` makes them strings.
        """
        if left == right:
            return left
        families = {family(left), family(right)}
        if families <= {"number"} or families <= {"time"}:
            return self.common(left, right)
        other = right if left == "string" else left
        if "string" not in families or family(other) not in ("number", "time"):
            return None
        # A decimal type cannot hold the number in every string, so Spark compares as double.
        return "double" if other.startswith("decimal") else other


def family(kind: str) -> str:
    """`number` or `time` for a type of that kind, else the type."""
    if kind.startswith("decimal") or kind in INTEGERS or is_float(kind):
        return "number"
    return "time" if kind in _TIMES else kind


def _with_location(fault: ExpressionFault, origins: Sequence[exp.Expr | None]) -> SqlError:
    index = fault.data.get("index")
    origin = origins[index] if index is not None and index < len(origins) else None
    return SqlError(message=fault.message, **(location(origin) if origin is not None else {}))
