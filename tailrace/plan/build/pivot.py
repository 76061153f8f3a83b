"""PIVOT and UNPIVOT: values to columns and columns to values.

PIVOT (f(x) FOR c IN (v, w))     = f(x) FILTER (WHERE c <=> v), f(x) FILTER (WHERE c <=> w)
                                   grouped by all columns that neither f(x) nor c reads
UNPIVOT (x FOR n IN (a, b))      = the other columns beside ('a', a) and ('b', b)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from sqlglot import exp

from tailrace.delta import column
from tailrace.errors import SqlError
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import generate, place
from tailrace.plan.build.context import Environment, Relation
from tailrace.plan.expressions import cast, parse_expr, refs
from tailrace.plan.build.generators import NOTHING
from tailrace.plan.build.grouping import Item, aggregated
from tailrace.plan.joining import filtered
from tailrace.plan.nodes import Generate, Node, Project
from tailrace.plan.sql.refuse import refuse_expression, unsupported
from tailrace.plan.build.scope import Entry, Scope, output_name
from tailrace.types import Column

# Types for which Spark aggregates by group and value first: a value without rows then gives NULL, even of COUNT.
_SEPARATE = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def pivoted(relation: Relation, pivot: exp.Pivot, env: Environment) -> Relation:
    """The relation with one PIVOT or UNPIVOT applied, under its alias."""
    turned = _unpivot(relation, pivot, env) if pivot.args.get("unpivot") else _pivot(relation, pivot, env)
    alias = pivot.args.get("alias")
    if alias is None:
        return turned
    if alias.args.get("columns"):
        raise unsupported("column aliases after PIVOT", pivot, "Spark SQL has none; rename the columns in SELECT")
    return Relation(turned.node, Scope.of(turned.node, alias.name))


def _field(pivot: exp.Pivot) -> exp.Expr:
    """What stands between FOR and the closing parenthesis."""
    fields: list[exp.Expr] = pivot.args["fields"]
    odd = any(pivot.args.get(k) for k in ("group", "default_on_null"))
    if odd or len(fields) != 1 or not fields[0].expressions or isinstance(fields[0].expressions[0], exp.PivotAny):
        raise unsupported("this PIVOT", pivot, "Spark SQL has PIVOT (... FOR columns IN (values))")
    return fields[0]


def _pivot(relation: Relation, pivot: exp.Pivot, env: Environment) -> Relation:
    field = _field(pivot)
    columns = field.this.expressions if isinstance(field.this, exp.Tuple) else [field.this]
    calls = [_Aggregate(tree, relation, env) for tree in pivot.expressions]
    turned = [env.resolve(c, relation) for c in columns]
    types = env.types.of(relation.node.columns, turned, columns)
    read = set().union(*(refs(t) for t in turned), *(refs(c.text) for c in calls))
    groups = [e for e in relation.scope.star() if e.position not in read]
    items = [Item(e.name, e.reference(pivot)) for e in groups]
    separate = all(c.type.startswith(_SEPARATE) for c in calls)
    seen: set[str] = set()
    for value in field.expressions:
        parts = _parts(value, len(columns), env)
        condition = _equal(columns, [cast(p, t) for p, t in zip(parts, types, strict=True)])
        if generate(condition) in seen:
            raise SqlError(message="PIVOT names a value twice", **place(value))
        seen.add(generate(condition))
        for call in calls:
            name = _value_name(value) if len(calls) == 1 else f"{_value_name(value)}_{call.name}"
            items.append(Item(name, call.where(condition, guarded=separate)))
    group = exp.Group(expressions=[i.tree.copy() for i in items[: len(groups)]]) if groups else None
    node = aggregated(relation, items, group, None, env)
    return Relation(node, _kept_names(node, groups))


class _Aggregate:
    """One aggregate of a PIVOT: its tree, the name it gives to columns, its text and type over the relation."""

    def __init__(self, tree: exp.Expr, relation: Relation, env: Environment) -> None:
        self.tree = tree.this if isinstance(tree, exp.Alias) else tree
        self.name = tree.alias if isinstance(tree, exp.Alias) else output_name(tree)
        refuse_expression(self.tree)
        if not functions.has_aggregate(self.tree):
            raise SqlError(message="PIVOT needs an aggregate such as SUM(x)", **place(tree))
        self.text = generate(relation.scope.resolve(self.tree))
        (self.type,) = env.types.of(relation.node.columns, [self.text], [self.tree])

    def where(self, condition: exp.Expr, *, guarded: bool) -> exp.Expr:
        """The aggregate over the rows that fulfil the condition; `guarded`: NULL if there are none."""
        holder = exp.Paren(this=self.tree.copy())
        for node in [n for n in holder.walk() if functions.is_aggregate(n)]:
            call = functions.whole_call(node)
            if isinstance(call, exp.Filter):
                call.expression.set("this", exp.And(this=_paren(call.expression.this), expression=_paren(condition)))
            else:
                call.replace(exp.Filter(this=call.copy(), expression=exp.Where(this=condition.copy())))
        tree: exp.Expr = holder.this
        if not guarded:
            return tree
        some = exp.Anonymous(this="count_if", expressions=[condition.copy()])
        return exp.Case(ifs=[exp.If(this=exp.GT(this=some, expression=exp.Literal.number(0)), true=tree.copy())])


def _paren(tree: exp.Expr) -> exp.Expr:
    return exp.Paren(this=tree.copy())


def _parts(value: exp.Expr, count: int, env: Environment) -> list[str]:
    """The constants that the pivot columns are compared with."""
    tree = value.this if isinstance(value, exp.PivotAlias | exp.Alias) else value
    parts = tree.expressions if isinstance(tree, exp.Tuple) and count > 1 else [tree]
    if len(parts) != count:
        raise SqlError(message=f"PIVOT over {count} columns, and a value of {len(parts)}", **place(value))
    return [env.resolve(part, NOTHING) for part in parts]


def _equal(columns: Sequence[exp.Expr], values: Sequence[str]) -> exp.Expr:
    parts: list[exp.Expr] = [
        exp.NullSafeEQ(this=c.copy(), expression=parse_expr(v).copy()) for c, v in zip(columns, values, strict=True)
    ]
    return reduce(lambda one, other: exp.And(this=one, expression=other), parts)


def _value_name(value: exp.Expr) -> str:
    """What Spark calls the columns of a value: its alias, or the value cast to a string."""
    if isinstance(value, exp.PivotAlias | exp.Alias):
        return str(value.args["alias"].name)
    if isinstance(value, exp.Tuple):
        return "{" + ", ".join(map(_value_name, value.expressions)) + "}"
    if isinstance(value, exp.Neg):
        return f"-{_value_name(value.this)}"
    if isinstance(value, exp.Cast) and isinstance(value.this, exp.Literal):
        return value.this.name
    return value.name if isinstance(value, exp.Literal) else generate(value).lower()


def _kept_names(node: Node, kept: Sequence[Entry]) -> Scope:
    """The columns that were kept are seen as before, those that are new by their names alone."""
    qualifiers = [e.qualifier for e in kept]
    qualifiers += [None] * (len(node.columns) - len(kept))
    return Scope(tuple(Entry(q, c.name, i) for i, (q, c) in enumerate(zip(qualifiers, node.columns, strict=True))))


def _unpivot(relation: Relation, pivot: exp.Pivot, env: Environment) -> Relation:
    field = _field(pivot)
    (target,) = pivot.expressions
    values = [i.name for i in (target.expressions if isinstance(target, exp.Tuple) else [target])]
    rows = [_unpivoted(item, relation, env) for item in field.expressions]
    for item, (_, texts) in zip(field.expressions, rows, strict=True):
        if len(texts) != len(values):
            message = f"UNPIVOT into {len(values)} columns, of {len(texts)}"
            raise SqlError(message=message, **place(item))
    columns = relation.node.columns
    kinds = [env.types.of(columns, [texts[i] for _, texts in rows]) for i in range(len(values))]
    types = [reduce(env.types.common, found) for found in kinds]
    made = (Column(field.this.name, "string"), *map(Column, values, types))
    listed = [part for name, texts in rows for part in (generate(exp.Literal.string(name)), *map(cast, texts, types))]
    names = [name for name, _ in rows]
    unique = (0,) if len(set(names)) == len(names) else None
    text = generate(parse_expr(f"stack({len(rows)}, {', '.join(listed)})"))
    node: Node = Generate(relation.node, text, made, unique)
    start = len(columns)
    if not pivot.args.get("include_nulls"):
        there = " OR ".join(f"NOT {column(start + 1 + i)} IS NULL" for i in range(len(values)))
        node = filtered(node, [there])
    read = set().union(*(refs(t) for _, texts in rows for t in texts))
    kept = [e for e in relation.scope.star() if e.position not in read]
    positions = [*(e.position for e in kept), *range(start, start + len(made))]
    output = (*(Column(e.name, columns[e.position].type) for e in kept), *made)
    node = Project(node, tuple(column(p) for p in positions), output)
    return Relation(node, _kept_names(node, kept))


def _unpivoted(item: exp.Expr, relation: Relation, env: Environment) -> tuple[str, list[str]]:
    """The name of a row to make and the columns its values come from."""
    tree = item.this if isinstance(item, exp.PivotAlias | exp.Alias) else item
    columns = tree.expressions if isinstance(tree, exp.Tuple) else [tree]
    name = "_".join(c.name for c in columns)
    if tree is not item:
        name = str(item.args["alias"].name)
    return name, [env.resolve(c, relation) for c in columns]
