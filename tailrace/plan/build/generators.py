"""Plans generators (explode, inline, stack, ...), which make several rows of one, wherever SQL allows them.

    SELECT explode(xs) AS x FROM t            FROM t LATERAL VIEW explode(xs) e AS x
    FROM t, LATERAL explode(t.xs) AS e(x)     FROM explode(array(1, 2)) AS e(x)

Each becomes a Generate node over the relation that its arguments read; over a single row if they are constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from tailrace.errors import SqlError
from tailrace.plan.build.context import Environment, Relation
from tailrace.plan.build.grouping import Item
from tailrace.plan.build.scope import Entry, Scope, wrong_aliases
from tailrace.plan.build.subqueries import apply_conditions
from tailrace.plan.expressions import parse_expr
from tailrace.plan.nodes import Generate, Key, Node, OneRow
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import generate, location
from tailrace.plan.sql.refuse import refuse_expression, unsupported
from tailrace.types import Column, fields_of, struct_fields

ONE_ROW = Relation(OneRow(), Scope(()))
_OUTER = {"explode": "explode_outer", "inline": "inline_outer", "posexplode": "posexplode_outer"}
_ITEM = "item"  # metadata of a reference to a generator's alias: the number of the generator in the select list


def is_generator(tree: exp.Expr) -> bool:
    return functions.name(tree) in functions.GENERATORS


def _add_generator(relation: Relation, call: exp.Expr, env: Environment, *, outer: bool = False) -> Generate:
    """A Generate node over `relation`; `outer` keeps rows for which the generator makes no rows."""
    for argument in call.expressions:
        refuse_expression(argument)
    resolved = relation.scope.resolve(call)
    arguments = [generate(a) for a in resolved.expressions]
    types = env.types.of(relation.node.columns, arguments, call.expressions)
    word = functions.name(call) or ""
    output, unique = _output(word, call, types)
    word = _OUTER.get(word, word) if outer else word
    text = generate(parse_expr(f"{word}({', '.join(arguments)})"))
    return Generate(relation.node, text, tuple(output), unique)


def _output(word: str, call: exp.Expr, types: Sequence[str]) -> tuple[list[Column], Key | None]:
    """The columns that a generator makes, named as in Spark, and those that are unique per input row (None: none)."""
    first = types[0] if types else ""
    base = word.removesuffix("_outer")
    if base == "json_tuple":
        return [Column(f"c{i}", "string") for i in range(len(types) - 1)], ()
    if base == "stack":
        return _stack_output(call, types)
    if base in ("explode", "posexplode") and first.startswith(("array<", "map<")):
        elements = [Column("col", first[6:-1])]
        if first.startswith("map<"):
            elements = [Column(name, kind) for name, kind in zip(("key", "value"), fields_of(first), strict=True)]
        if base == "posexplode":
            return [Column("pos", "int"), *elements], (0,)
        return elements, (0,) if first.startswith("map<") else None
    if base == "inline" and first.startswith("array<struct<"):
        return struct_fields(first[6:-1]), None
    if base in ("explode", "posexplode", "inline"):
        needed = "an array of structs" if base == "inline" else "an array or a map"
        raise SqlError(message=f"{word}() needs {needed}, not {first or 'no argument'}", **location(call))
    raise unsupported(f"table-generating function {word}()", call)


def _stack_output(call: exp.Expr, types: Sequence[str]) -> tuple[list[Column], Key | None]:
    """stack(n, a, b, ...): n rows, filled with the arguments one after the other."""
    count = call.expressions[0] if call.expressions else None
    if not isinstance(count, exp.Literal) or not count.is_int or int(count.name) < 1 or len(types) < 2:
        raise SqlError(message="stack() needs a literal number of rows and at least one value", **location(call))
    rows, values = int(count.name), types[1:]
    width = -(-len(values) // rows)
    column_types = [next((t for t in values[i::width] if t != "void"), "void") for i in range(width)]
    return [Column(f"col{i}", kind) for i, kind in enumerate(column_types)], () if rows == 1 else None


# FROM


def build_lateral_view(relation: Relation, lateral: exp.Lateral, env: Environment) -> Relation:
    """LATERAL VIEW [OUTER] f(...) alias AS columns. It can read everything before it in FROM."""
    if not is_generator(lateral.this):
        reason = "it needs a table-generating function such as explode()"
        raise unsupported(f"LATERAL VIEW {functions.name(lateral.this)}()", lateral, reason)
    node = _add_generator(relation, lateral.this, env, outer=bool(lateral.args.get("outer")))
    return _with_names(relation, node, lateral)


def build_lateral_join(relation: Relation, join: exp.Join, env: Environment) -> Relation:
    """FROM t [LEFT] JOIN LATERAL f(t.xs) AS alias(columns) [ON ...]."""
    lateral, on = join.this, join.args.get("on")
    side, kind = (join.args.get("side") or "").upper(), (join.args.get("kind") or "").upper()
    if join.args.get("using") or join.args.get("method") or side not in ("", "LEFT") or kind in ("SEMI", "ANTI"):
        construct = "JOIN LATERAL with USING, NATURAL, RIGHT, FULL, SEMI or ANTI"
        raise unsupported(construct, join, "write JOIN LATERAL or LEFT JOIN LATERAL")
    if side == "LEFT" and on is not None and not (isinstance(on, exp.Boolean) and on.this):
        reason = "put the condition into the function: LATERAL explode(filter(xs, x -> ...)) ON TRUE"
        raise unsupported("LEFT JOIN LATERAL with a condition", join, reason)
    result = _with_names(relation, _add_generator(relation, lateral.this, env, outer=side == "LEFT"), lateral)
    return result if on is None else apply_conditions(result, env.condition(on, result, "ON"), on, "ON", env)


def build_table_function(node: exp.Expr, env: Environment) -> Relation:
    """FROM f(constants) AS alias(columns)."""
    call = node.this
    if functions.name(call) == "range":
        return _with_names(ONE_ROW, _range(call), node)
    return _with_names(ONE_ROW, _add_generator(ONE_ROW, call, env), node)


def _range(call: exp.Expr) -> Node:
    """range([start,] end [, step [, partitions]]): the numbers from start up to, but not including, end."""
    try:
        numbers = [int(generate(a).rstrip("lL")) for a in call.expressions]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= 4 or (len(numbers) > 2 and numbers[2] == 0):
        message = "range() needs integers: range(end) or range(start, end, step), with a step other than 0"
        raise SqlError(message=message, **location(call))
    start, end, step = (0, numbers[0], 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    count = len(range(start, end, step))
    last = start + (count - 1) * step
    numbers_sql = f"sequence({start}L, {last}L, {step}L)" if count else "CAST(array() AS ARRAY<BIGINT>)"
    return Generate(OneRow(), generate(parse_expr(f"explode({numbers_sql})")), (Column("id", "bigint"),), (0,))


def _with_names(relation: Relation, node: Node, origin: exp.Expr) -> Relation:
    """Puts the generated columns into scope, under the names that the alias gives them."""
    width = len(relation.node.columns)
    generated = node.columns[width:]
    alias = origin.args.get("alias")
    names = [c.name for c in alias.args.get("columns") or ()] if alias is not None else []
    if names and len(names) != len(generated):
        raise SqlError(message=wrong_aliases(len(generated), len(names)), **location(origin))
    qualifier = origin.alias.lower() or None
    entries = tuple(Entry(qualifier, n, i) for i, n in enumerate(names or [c.name for c in generated]))
    return Relation(node, relation.scope.beside(Scope(entries), width))


# the select list


def read_generator_item(tree: exp.Expr, number: int) -> tuple[Item, exp.Column | None] | None:
    """A generator in the select list as item `number`, and the reference that replaces its alias in later items.

    None if the expression is not a generator.
    """
    call = tree.this if isinstance(tree, exp.Alias | exp.Aliases) else tree
    if not is_generator(call):
        return None
    names = tuple(i.name for i in tree.expressions) if isinstance(tree, exp.Aliases) else ()
    if isinstance(tree, exp.Alias):
        names = (tree.alias,)
    reference = exp.Column(this=exp.Identifier(this=names[0])) if len(names) == 1 else None
    if reference is not None:
        reference.meta[_ITEM] = number
    return Item("", call, names), reference


def has_generator(items: Sequence[Item]) -> bool:
    return any(is_generator(i.tree) for i in items)


def split_generator_arguments(items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """Splits a select list with aggregates and generators: the aggregates are computed first.

    Returns the items to compute below the generators, among them the generators' arguments, and all items over those.
    """
    below: list[Item] = []
    above: list[Item] = []

    def move_below(name: str, tree: exp.Expr) -> exp.Expr:
        if isinstance(tree, exp.Literal):
            return tree.copy()
        below.append(Item(name, tree))
        return Entry(None, name, len(below) - 1).reference(tree)

    for item in items:
        if is_generator(item.tree):
            call = item.tree.copy()
            call.set("expressions", [move_below("", a) for a in item.tree.expressions])
            above.append(replace(item, tree=call))
        else:
            above.append(Item(item.name, move_below(item.name, item.tree)))
    return below, above


def apply_generators(relation: Relation, items: Sequence[Item], env: Environment) -> tuple[Relation, list[Item]]:
    """Adds a Generate node for each generator among the items; returns the relation, and the items over it."""
    result: list[Item] = []
    first_columns: dict[int, Entry] = {}  # of each generator, by its number in the select list
    for number, item in enumerate(items):
        if not is_generator(item.tree):
            result.append(item)
            continue
        width = len(relation.node.columns)
        node = _add_generator(relation, _resolve_aliases(item.tree, first_columns), env)
        names = item.names or [c.name for c in node.output]
        if len(names) != len(node.output):
            message = f"{functions.name(item.tree)}(): {wrong_aliases(len(node.output), len(names))}"
            raise SqlError(message=message, **location(item.tree))
        entries = [Entry(None, name, width + i) for i, name in enumerate(names)]
        first_columns[number] = entries[0]
        result += [Item(e.name, e.reference(item.tree)) for e in entries]
        relation = replace(relation, node=node)
    return relation, [replace(i, tree=_resolve_aliases(i.tree, first_columns)) for i in result]


def _resolve_aliases(tree: exp.Expr, first_columns: dict[int, Entry]) -> exp.Expr:
    """The tree with references to generators' aliases replaced by references to the generated columns."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        entry = first_columns.get(node.meta.get(_ITEM, -1)) if isinstance(node, exp.Column) else None
        return node if entry is None else entry.reference(node)

    return tree.transform(rewrite)
