"""Plans PIVOT (values to columns) and UNPIVOT (columns to rows).

PIVOT (f(x) FOR c IN (v, w))     = f(x) FILTER (WHERE c <=> v), f(x) FILTER (WHERE c <=> w)
                                   grouped by all columns that neither f(x) nor c reads
UNPIVOT (x FOR n IN (a, b))      = each row twice: its other columns, with (n, x) = ('a', a) and with ('b', b)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from sqlglot import exp

from tailrace.delta import column
from tailrace.errors import SqlError
from tailrace.plan.build.context import Environment, Relation
from tailrace.plan.build.generators import ONE_ROW
from tailrace.plan.build.grouping import Item, aggregated
from tailrace.plan.build.scope import Entry, Scope, output_name
from tailrace.plan.expressions import cast, parse_expr, refs
from tailrace.plan.joining import filtered
from tailrace.plan.nodes import Generate, Node, Project
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import generate, location
from tailrace.plan.sql.refuse import NOT_IN_SPARK, refuse_expression, unsupported
from tailrace.types import INTEGERS, Column

# For aggregates of these types Spark groups by the pivot column first: a value without rows then gives NULL, even for
# COUNT.
_NULL_IF_NO_ROWS = ("boolean", *INTEGERS, "float", "double", "decimal")


def apply_pivot(relation: Relation, pivot: exp.Pivot, env: Environment) -> Relation:
    """Applies one PIVOT or UNPIVOT clause, with its alias."""
    result = _unpivot(relation, pivot, env) if pivot.args.get("unpivot") else _pivot(relation, pivot, env)
    alias = pivot.args.get("alias")
    if alias is None:
        return result
    if alias.args.get("columns"):
        reason = f"{NOT_IN_SPARK}; rename the columns in SELECT"
        raise unsupported("a list of column aliases after PIVOT", pivot, reason)
    return Relation(result.node, Scope.of(result.node, alias.name))


def _field(pivot: exp.Pivot) -> exp.Expr:
    """The `columns IN (values)` after FOR."""
    fields: list[exp.Expr] = pivot.args["fields"]
    is_spark = not any(pivot.args.get(k) for k in ("group", "default_on_null")) and len(fields) == 1
    if not is_spark or not fields[0].expressions or isinstance(fields[0].expressions[0], exp.PivotAny):
        raise unsupported("this form of PIVOT", pivot, "write PIVOT (... FOR columns IN (values))")
    return fields[0]


def _pivot(relation: Relation, pivot: exp.Pivot, env: Environment) -> Relation:
    field = _field(pivot)
    columns = field.this.expressions if isinstance(field.this, exp.Tuple) else [field.this]
    calls = [_Aggregate(tree, relation, env) for tree in pivot.expressions]
    texts = [env.resolve(c, relation) for c in columns]
    types = env.types.of(relation.node.columns, texts, columns)
    read = set().union(*(refs(t) for t in texts), *(refs(c.text) for c in calls))
    groups = [e for e in relation.scope.star() if e.position not in read]
    items = [Item(e.name, e.reference(pivot)) for e in groups]
    null_if_no_rows = all(c.type.startswith(_NULL_IF_NO_ROWS) for c in calls)
    seen: set[str] = set()
    for value in field.expressions:
        parts = _parts(value, len(columns), env)
        condition = _equal(columns, [cast(p, t) for p, t in zip(parts, types, strict=True)])
        if generate(condition) in seen:
            raise SqlError(message="PIVOT lists a value twice", **location(value))
        seen.add(generate(condition))
        for call in calls:
            name = _value_name(value) if len(calls) == 1 else f"{_value_name(value)}_{call.name}"
            items.append(Item(name, call.where(condition, null_if_no_rows=null_if_no_rows)))
    group = exp.Group(expressions=[i.tree.copy() for i in items[: len(groups)]]) if groups else None
    node = aggregated(relation, items, group, None, env)
    return Relation(node, _scope(node, groups))


class _Aggregate:
    """One aggregate of a PIVOT: its tree, its part of the column names, its text and type over the relation."""

    def __init__(self, tree: exp.Expr, relation: Relation, env: Environment) -> None:
        self.tree = tree.this if isinstance(tree, exp.Alias) else tree
        self.name = tree.alias if isinstance(tree, exp.Alias) else output_name(tree)
        refuse_expression(self.tree)
        if not functions.has_aggregate(self.tree):
            raise SqlError(message="PIVOT needs an aggregate such as SUM(x)", **location(tree))
        self.text = generate(relation.scope.resolve(self.tree))
        (self.type,) = env.types.of(relation.node.columns, [self.text], [self.tree])

    def where(self, condition: exp.Expr, *, null_if_no_rows: bool) -> exp.Expr:
        """The aggregate over the rows that satisfy the condition."""
        holder = exp.Paren(this=self.tree.copy())
        for node in [n for n in holder.walk() if functions.is_aggregate(n)]:
            call = functions.whole_call(node)
            if isinstance(call, exp.Filter):
                call.expression.set("this", exp.And(this=_paren(call.expression.this), expression=_paren(condition)))
            else:
                call.replace(exp.Filter(this=call.copy(), expression=exp.Where(this=condition.copy())))
        tree: exp.Expr = holder.this
        if not null_if_no_rows:
            return tree
        count = exp.Anonymous(this="count_if", expressions=[condition.copy()])
        return exp.Case(ifs=[exp.If(this=exp.GT(this=count, expression=exp.Literal.number(0)), true=tree.copy())])


def _paren(tree: exp.Expr) -> exp.Expr:
    return exp.Paren(this=tree.copy())


def _parts(value: exp.Expr, count: int, env: Environment) -> list[str]:
    """The constants that the pivot columns are compared with."""
    tree = value.this if isinstance(value, exp.PivotAlias | exp.Alias) else value
    parts = tree.expressions if isinstance(tree, exp.Tuple) and count > 1 else [tree]
    if len(parts) != count:
        message = f"PIVOT over {count} columns needs values of {count} parts, not {len(parts)}"
        raise SqlError(message=message, **location(value))
    return [env.resolve(part, ONE_ROW) for part in parts]


def _equal(columns: Sequence[exp.Expr], values: Sequence[str]) -> exp.Expr:
    parts: list[exp.Expr] = [
        exp.NullSafeEQ(this=c.copy(), expression=parse_expr(v).copy()) for c, v in zip(columns, values, strict=True)
    ]
    return reduce(lambda left, right: exp.And(this=left, expression=right), parts)


def _value_name(value: exp.Expr) -> str:
    """The name Spark gives to the columns of a value: its alias, or the value as a string."""
    if isinstance(value, exp.PivotAlias | exp.Alias):
        return str(value.args["alias"].name)
    if isinstance(value, exp.Tuple):
        return "{" + ", ".join(map(_value_name, value.expressions)) + "}"
    if isinstance(value, exp.Neg):
        return f"-{_value_name(value.this)}"
    if isinstance(value, exp.Cast) and isinstance(value.this, exp.Literal):
        return value.this.name
    return value.name if isinstance(value, exp.Literal) else generate(value).lower()


def _scope(node: Node, kept: Sequence[Entry]) -> Scope:
    """The names in scope: the first columns keep their qualifiers, the new ones have none."""
    qualifiers = [e.qualifier for e in kept]
    qualifiers += [None] * (len(node.columns) - len(kept))
    return Scope(tuple(Entry(q, c.name, i) for i, (q, c) in enumerate(zip(qualifiers, node.columns, strict=True))))


def _unpivot(relation: Relation, pivot: exp.Pivot, env: Environment) -> Relation:
    field = _field(pivot)
    (target,) = pivot.expressions
    value_names = [i.name for i in (target.expressions if isinstance(target, exp.Tuple) else [target])]
    rows = [_unpivot_row(item, relation, env) for item in field.expressions]
    for item, (_, texts) in zip(field.expressions, rows, strict=True):
        if len(texts) != len(value_names):
            count = len(value_names)
            message = f"UNPIVOT into {count} columns needs groups of {count} columns, not {len(texts)}"
            raise SqlError(message=message, **location(item))
    columns = relation.node.columns
    kinds = [env.types.of(columns, [texts[i] for _, texts in rows]) for i in range(len(value_names))]
    types = [reduce(env.types.common, row_types) for row_types in kinds]
    generated = (Column(field.this.name, "string"), *map(Column, value_names, types))
    values = [part for name, texts in rows for part in (generate(exp.Literal.string(name)), *map(cast, texts, types))]
    names = [name for name, _ in rows]
    unique = (0,) if len(set(names)) == len(names) else None
    text = generate(parse_expr(f"stack({len(rows)}, {', '.join(values)})"))
    node: Node = Generate(relation.node, text, generated, unique)
    start = len(columns)
    if not pivot.args.get("include_nulls"):
        any_value = " OR ".join(f"NOT {column(start + 1 + i)} IS NULL" for i in range(len(value_names)))
        node = filtered(node, [any_value])
    read = set().union(*(refs(t) for _, texts in rows for t in texts))
    kept = [e for e in relation.scope.star() if e.position not in read]
    positions = [*(e.position for e in kept), *range(start, start + len(generated))]
    output = (*(Column(e.name, columns[e.position].type) for e in kept), *generated)
    node = Project(node, tuple(column(p) for p in positions), output)
    return Relation(node, _scope(node, kept))


def _unpivot_row(item: exp.Expr, relation: Relation, env: Environment) -> tuple[str, list[str]]:
    """The name of one generated row, and the columns that its values come from."""
    tree = item.this if isinstance(item, exp.PivotAlias | exp.Alias) else item
    columns = tree.expressions if isinstance(tree, exp.Tuple) else [tree]
    name = "_".join(c.name for c in columns)
    if tree is not item:
        name = str(item.args["alias"].name)
    return name, [env.resolve(c, relation) for c in columns]
