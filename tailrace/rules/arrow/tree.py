"""The nodes of a compiled expression: columns, constants and kernel calls.

A kernel is a function from values to a value. It must be a module-level function, so that a tree can be pickled.
A value is an Arrow array, or a scalar that applies to every row. At least one argument of a kernel is an array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tailrace.errors import RowFailed
from tailrace.types import arrow

Value = Any  # pa.Array | pa.Scalar; pyarrow ships no type annotations
Kernel = Callable[..., Value]
VOID = "void"


class NotCompiled(Exception):
    """The expression cannot be compiled to Arrow kernels; Spark must evaluate it."""


@dataclass(frozen=True)
class Column:
    name: str
    type: str

    def evaluate(self, batch: pa.RecordBatch) -> Value:
        array = batch.column(self.name)
        expected = arrow(self.type)
        return array if array.type == expected else array.cast(expected)


@dataclass(frozen=True)
class Constant:
    """`literal`: whether the SQL text has a literal here. Spark types `d + 1` by its digits, but not `d + (0 + 1)`.

    None means unknown, because the parser reads 1L and CAST(1 AS BIGINT) alike.
    """

    type: str
    scalar: pa.Scalar
    literal: bool | None = False

    def evaluate(self, batch: pa.RecordBatch) -> Value:
        return self.scalar

    @property
    def python_value(self) -> Any:
        return self.scalar.as_py()


@dataclass(frozen=True)
class Call:
    type: str
    kernel: Kernel
    inputs: tuple[Node, ...]
    options: tuple[Any, ...] = ()

    def evaluate(self, batch: pa.RecordBatch) -> Value:
        values = [part.evaluate(batch) for part in self.inputs]
        if all(isinstance(v, pa.Scalar) for v in values):
            values = [pa.repeat(v, 1) for v in values]
            return self.kernel(*values, *self.options)[0]
        return self.kernel(*values, *self.options)


@dataclass(frozen=True)
class Guarded:
    """`value`, unless the condition of a failure is true for a row: then its message is raised as `RowFailed`."""

    value: Node
    failures: tuple[tuple[Node, Node], ...]  # (condition, message)

    @property
    def type(self) -> str:
        return self.value.type

    def evaluate(self, batch: pa.RecordBatch) -> Value:
        for condition, message in self.failures:
            failed = batch.filter(condition.evaluate(batch))
            if failed.num_rows:
                text = message.evaluate(failed.slice(0, 1))
                raise RowFailed(message=(text if isinstance(text, pa.Scalar) else text[0]).as_py())
        return self.value.evaluate(batch)


Node = Column | Constant | Call | Guarded
NULL = Constant(VOID, pa.scalar(None))


def call(type_text: str, kernel: Kernel, *inputs: Node, options: tuple[Any, ...] = ()) -> Node:
    """A call of the kernel; folded to a constant if all inputs are constants."""
    node = Call(type_text, kernel, inputs, options)
    if all(isinstance(part, Constant) for part in inputs):
        return Constant(type_text, node.evaluate(None))
    return node


def constant(type_text: str, value: Any, *, literal: bool | None = False) -> Constant:
    return Constant(type_text, pa.scalar(value, arrow(type_text)), literal)


def column_names(node: Node) -> frozenset[str]:
    """The names of the columns that a tree reads."""
    if isinstance(node, Column):
        return frozenset((node.name,))
    return frozenset().union(*map(column_names, parts(node)))


def parts(node: Node) -> tuple[Node, ...]:
    """The nodes that a node evaluates."""
    if isinstance(node, Guarded):
        return (*(part for failure in node.failures for part in failure), node.value)
    return node.inputs if isinstance(node, Call) else ()
