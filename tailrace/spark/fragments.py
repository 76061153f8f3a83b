"""Plans of tasks while they are being put together: operators with their inputs, before they are a program.

A fragment is a tree whose leaves read the store or wait for rows of a Spark frame. Fragments that use the same
fragment share it: in the program it stands once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame

from tailrace import types
from tailrace.delta import Fields
from tailrace.task.program import Fed, Merge, Operator, Program


@dataclass(frozen=True, eq=False)
class Fragment:
    """An operator on what its inputs give. `fields` are the names and types of what it gives itself."""

    operator: Operator | DataFrame
    inputs: tuple[Fragment, ...]
    fields: Fields

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(self.fields)

    @cached_property
    def is_fed(self) -> bool:
        """Whether rows of some Spark frame are needed."""
        return isinstance(self.operator, DataFrame) or any(f.is_fed for f in self.inputs)

    @property
    def is_empty(self) -> bool:
        """Whether it is the delta of a relation that did not change."""
        return isinstance(self.operator, Merge) and not self.inputs


def arrow_schema(fields: Fields) -> pa.Schema:
    return pa.schema([pa.field(name, types.arrow(kind)) for name, kind in fields])


def link(roots: Sequence[Fragment]) -> tuple[Program, list[Fragment]]:
    """One program for fragments that give the same columns, and its leaves that wait for frames."""
    numbers: dict[int, int] = {}
    operators: list[tuple[Operator, tuple[int, ...]]] = []
    feeds: list[Fragment] = []

    def number(fragment: Fragment) -> int:
        if id(fragment) not in numbers:
            inputs = tuple(number(f) for f in fragment.inputs)
            operator = fragment.operator
            if isinstance(operator, DataFrame):
                feeds.append(fragment)
                operator = Fed(len(feeds) - 1)
            operators.append((operator, inputs))
            numbers[id(fragment)] = len(operators) - 1
        return numbers[id(fragment)]

    chosen = tuple(number(root) for root in roots)
    names = tuple(tuple(name for name, _ in f.fields) for f in feeds)
    return Program(tuple(operators), chosen, names, roots[0].schema), feeds
