"""What a compiled expression is made of: columns, constants, and calls of kernels.

A kernel is a module's function from values to a value, so that a tree pickles by the names of its kernels.
A value is an Arrow array, or a scalar that stands for the same value in every row; a kernel is given at
least one array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tailrace.types import arrow

Value = Any  # pa.Array | pa.Scalar: pyarrow has no types of its own to check against
Kernel = Callable[..., Value]
VOID = "void"


class NotCompiled(Exception):
    """An expression, or a part of it, that is for Spark to evaluate."""


@dataclass(frozen=True)
class Column:
    name: str
    type: str

    def value(self, batch: pa.RecordBatch) -> Value:
        found = batch.column(self.name)
        expected = arrow(self.type)
        return found if found.type == expected else found.cast(expected)


@dataclass(frozen=True)
class Constant:
    """`literal`: written as a literal. Spark types `d + 1` by the digits of the literal, but not `d + (0 + 1)`.

    None: it is not known which, since the parser reads 1L and CAST(1 AS BIGINT) alike.
    """

    type: str
    scalar: pa.Scalar
    literal: bool | None = False

    def value(self, batch: pa.RecordBatch) -> Value:
        return self.scalar

    @property
    def python(self) -> Any:
        return self.scalar.as_py()


@dataclass(frozen=True)
class Call:
    type: str
    kernel: Kernel
    inputs: tuple[Node, ...]
    options: tuple[Any, ...] = ()

    def value(self, batch: pa.RecordBatch) -> Value:
        values = [part.value(batch) for part in self.inputs]
        if all(isinstance(v, pa.Scalar) for v in values):
            values = [pa.repeat(v, 1) for v in values]
            return self.kernel(*values, *self.options)[0]
        return self.kernel(*values, *self.options)


Node = Column | Constant | Call
NULL = Constant(VOID, pa.scalar(None))


def call(type_text: str, kernel: Kernel, *inputs: Node, options: tuple[Any, ...] = ()) -> Node:
    """The call, or the constant it comes to."""
    made = Call(type_text, kernel, inputs, options)
    if all(isinstance(part, Constant) for part in inputs):
        return Constant(type_text, made.value(None))
    return made


def constant(type_text: str, value: Any, *, literal: bool | None = False) -> Constant:
    return Constant(type_text, pa.scalar(value, arrow(type_text)), literal)


def names(node: Node) -> frozenset[str]:
    """The columns a tree reads."""
    if isinstance(node, Column):
        return frozenset((node.name,))
    if isinstance(node, Constant):
        return frozenset()
    return frozenset().union(*(names(part) for part in node.inputs))
