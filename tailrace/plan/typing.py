"""Types of expressions: what the planner asks of Spark, behind a protocol so that tests need no JVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlglot import exp

from tailrace.errors import SqlError
from tailrace.plan.nodes import column_of
from tailrace.plan.outer import null_outer_refs
from tailrace.plan.sql.dialect import place
from tailrace.types import INTEGERS, Column, is_float

_TIMES = ("date", "timestamp", "timestamp_ntz")


class ExpressionFault(SqlError):
    """The typer cannot analyse the expression at `index`; `message` says why."""


class Typer(Protocol):
    def types(self, columns: Sequence[Column], expressions: Sequence[str]) -> list[str]:
        """Spark's type text of each expression over a relation with these columns, called `_0`, `_1`, ...

        A call holds either aggregates or none. Raises `ExpressionFault`.
        """


class Types:
    """Asks a `Typer`, but never for what is known already, and says where in the text a fault is.

    An answer depends on the types of the input only, so it is kept for other views too.
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
        """Types of `expressions`; `origins` are the parts of the user's text they come from."""
        shape = tuple(c.type for c in columns)
        asked = [i for i, e in enumerate(expressions) if column_of(e) is None and (shape, e) not in self._known]
        if asked:
            try:
                answers = self._typer.types(columns, [null_outer_refs(expressions[i]) for i in asked])
            except ExpressionFault as fault:
                raise _placed(fault, [origins[i] if i < len(origins) else None for i in asked]) from fault
            self._known.update(zip(((shape, expressions[i]) for i in asked), answers, strict=True))
        return [self._lookup(columns, shape, e) for e in expressions]

    def _lookup(self, columns: Sequence[Column], shape: tuple[str, ...], expression: str) -> str:
        position = column_of(expression)
        return columns[position].type if position is not None else self._known[shape, expression]

    def common(self, left: str, right: str) -> str:
        """The type Spark widens both to, `left` itself if they are the same."""
        if left == right:
            return left
        return self.of([Column("_0", left), Column("_1", right)], ["COALESCE(_0, _1)"])[0]

    def compared(self, left: str, right: str) -> str | None:
        """The type in which Spark compares values of two types; None: leave it to Spark.

        Not always the common type: a string and a number meet as numbers in `=`, as strings in `coalesce`.
        """
        if left == right:
            return left
        families = {_family(left), _family(right)}
        if families <= {"number"} or families <= {"time"}:
            return self.common(left, right)
        other = right if left == "string" else left
        if "string" not in families or _family(other) not in ("number", "time"):
            return None
        # No decimal type holds every string's number, so Spark takes the middle.
        return "double" if other.startswith("decimal") else other


def _family(kind: str) -> str:
    if kind.startswith("decimal") or kind in INTEGERS or is_float(kind):
        return "number"
    return "time" if kind in _TIMES else kind


def _placed(fault: ExpressionFault, origins: Sequence[exp.Expr | None]) -> SqlError:
    index = fault.data.get("index")
    origin = origins[index] if index is not None and index < len(origins) else None
    return SqlError(message=fault.message, **(place(origin) if origin is not None else {}))
