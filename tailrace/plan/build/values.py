"""Plans VALUES, a relation of constants."""

from __future__ import annotations

from functools import reduce

from sqlglot import exp

from tailrace.errors import SqlError
from tailrace.plan.build.context import Environment
from tailrace.plan.build.generators import ONE_ROW
from tailrace.plan.expressions import cast, parse_expr
from tailrace.plan.nodes import Generate, Node, Project
from tailrace.plan.sql.dialect import generate, location
from tailrace.types import Column


def inline_table(values: exp.Values, env: Environment) -> Node:
    """VALUES (a, b), (c, d) has columns col1, col2, ..., each of the common type of its values."""
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in values.expressions]
    for row in rows:
        if len(row) != len(rows[0]):
            message = f"a row of VALUES has {len(row)} columns, but the first row has {len(rows[0])}"
            raise SqlError(message=message, **location(row[0] if row else values))
    texts = [[env.resolve(item, ONE_ROW) for item in row] for row in rows]
    flat_types = env.types.of((), [t for row in texts for t in row], [item for row in rows for item in row])
    width = len(rows[0])
    types = [reduce(env.types.common, (t for t in flat_types[i::width] if t != "void"), "void") for i in range(width)]
    return _constant_rows([[cast(text, type_) for text, type_ in zip(row, types, strict=True)] for row in texts], types)


def _constant_rows(rows: list[list[str]], types: list[str]) -> Node:
    output = tuple(Column(f"col{i + 1}", type_) for i, type_ in enumerate(types))
    if len(rows) == 1:
        return Project(ONE_ROW.node, tuple(rows[0]), output)
    values = ", ".join(value for row in rows for value in row)
    return Generate(ONE_ROW.node, generate(parse_expr(f"stack({len(rows)}, {values})")), output)
