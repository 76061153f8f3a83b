"""Fragments: trees of task operators, and linking them into a program.

The leaves of a fragment read the store or receive the rows of a Spark frame. A fragment that is an input of several
others becomes one operator of the program, and runs once.
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
    """An operator and its inputs. `fields` are the names and types of its output columns."""

    operator: Operator | DataFrame
    inputs: tuple[Fragment, ...]
    fields: Fields

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(self.fields)

    @cached_property
    def is_fed(self) -> bool:
        """Whether it needs rows of a Spark frame."""
        return isinstance(self.operator, DataFrame) or any(f.is_fed for f in self.inputs)

    @property
    def is_empty(self) -> bool:
        """Whether it is the delta of an unchanged relation."""
        return isinstance(self.operator, Merge) and not self.inputs


def arrow_schema(fields: Fields) -> pa.Schema:
    return pa.schema([pa.field(name, types.arrow(kind)) for name, kind in fields])


def link(roots: Sequence[Fragment]) -> tuple[Program, list[Fragment]]:
    """Links fragments with equal output columns into one program. Also returns its leaves that are Spark frames."""
    numbers: dict[int, int] = {}
    operators: list[tuple[Operator, tuple[int, ...]]] = []
    feeds: list[Fragment] = []

    def add(fragment: Fragment) -> int:
        """Adds a fragment, inputs first, unless it is already linked. Returns its operator's number."""
        if id(fragment) not in numbers:
            inputs = tuple(add(f) for f in fragment.inputs)
            operator = fragment.operator
            if isinstance(operator, DataFrame):
                feeds.append(fragment)
                operator = Fed(len(feeds) - 1)
            operators.append((operator, inputs))
            numbers[id(fragment)] = len(operators) - 1
        return numbers[id(fragment)]

    root_numbers = tuple(add(root) for root in roots)
    names = tuple(tuple(name for name, _ in f.fields) for f in feeds)
    return Program(tuple(operators), root_numbers, names, roots[0].schema), feeds
