"""Plans GROUP BY, HAVING and aggregate calls.

SELECT f(g1), SUM(x + 1) FROM r GROUP BY g1 HAVING c   =   Project  f(g1), the sum
                                                           Filter   c
                                                           Aggregate  by g1: SUM
                                                           Project  g1, x + 1
                                                           r
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tailrace.delta import column
from tailrace.errors import SqlError
from tailrace.plan.build.context import Environment, Relation
from tailrace.plan.build.grouping_sets import GROUPING, GroupingSets, has_sets, read_sets, replace_hive_name
from tailrace.plan.build.placeholders import has_placeholder, insert_placeholders, placeholders
from tailrace.plan.build.scope import counted, expand_aliases, output_name
from tailrace.plan.build.subqueries import apply_conditions, join_subqueries
from tailrace.plan.build.tie_breaks import break_ties
from tailrace.plan.build.time_conditions import admit_time, require_times
from tailrace.plan.build.time_windows import start_of_window
from tailrace.plan.expressions import conjuncts, operand, parse_expr, position_of
from tailrace.plan.joining import selected
from tailrace.plan.nodes import Aggregate, Call, Node, Project, column_of
from tailrace.plan.outer import is_outer
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import generate, location
from tailrace.plan.sql.refuse import refuse_distinct_order, refuse_expression, refuse_grouping, unsupported
from tailrace.types import Column, holds_map

_MAP_GROUP = "equal maps may have their entries in another order; group by array_sort(map_entries(...)) of it"

_WRAPPERS = (exp.WithinGroup, exp.Filter, exp.IgnoreNulls, exp.RespectNulls)


@dataclass(frozen=True)
class Item:
    """One item of a select list: its name and its expression as the user wrote it.

    A generator such as posexplode() makes several columns; `names` are their names.
    """

    name: str
    tree: exp.Expr
    names: tuple[str, ...] = ()


@dataclass
class _Draft:
    """Collects the inputs and calls of the Aggregate while the select list and HAVING are rewritten over its output.

    `inputs` are texts over `relation`; `origins` are the user's expressions for them. The first inputs are the group
    columns. Each of `calls` is (the call over `inputs`, the call as the user wrote it).
    """

    relation: Relation
    groups: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    origins: list[exp.Expr] = field(default_factory=list)
    calls: list[tuple[exp.Expr, exp.Expr]] = field(default_factory=list)
    sets: GroupingSets | None = None
    _call_index: dict[str, int] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """The number of columns that the Aggregate groups by. With grouping sets, the set's number is one more."""
        return len(self.groups) + (self.sets is not None)

    def add_group(self, text: str, origin: exp.Expr) -> int:
        if text not in self.groups:
            self.groups.append(text)
            self.add_input(text, origin)
        return self.groups.index(text)

    def add_input(self, text: str, origin: exp.Expr) -> int:
        """Adds an input expression, unless it is known; returns its position."""
        if text not in self.inputs:
            self.inputs.append(text)
            self.origins.append(origin)
        return self.inputs.index(text)

    def add_call(self, tree: exp.Expr, origin: exp.Expr) -> int:
        """Adds a call, unless an equal one is known; returns its index."""
        text = generate(tree)
        if text not in self._call_index:
            self._call_index[text] = len(self.calls)
            self.calls.append((tree, origin))
        return self._call_index[text]


def aggregated(
    relation: Relation, items: Sequence[Item], group: exp.Expr | None, having: exp.Expr | None,
    env: Environment, shown: Sequence[Item] | None = None,
) -> Node:  # fmt: skip
    """Plans SELECT shown FROM relation GROUP BY group HAVING having.

    GROUP BY and HAVING may use aliases of `items`, the select list. `shown` is `items` unless given.
    """
    shown = items if shown is None else shown
    draft = _Draft(relation)
    aliases = {i.name.lower(): i.tree for i in reversed(items)}
    _read_groups(draft, group and insert_placeholders(group, env.subqueries), items, aliases, env)
    texts = [_over_aggregate(i.tree, draft) for i in shown]
    condition = None
    if having is not None:
        tree = admit_time(insert_placeholders(having.this, env.subqueries))
        condition = _over_aggregate(_expand_having(tree, aliases, draft), draft)
    groups = _group_relation(draft, _build_aggregate(draft, env))
    if having is not None and condition is not None:
        if not has_placeholder(condition):
            env.require_boolean(groups.node.columns, condition, having.this, "HAVING")
        require_times(groups.node.columns, conjuncts(condition), having.this, env.types)
        groups = apply_conditions(groups, conjuncts(condition), having.this, "HAVING", env)
    groups, texts = join_subqueries(groups, texts, env)
    types = env.types.of(groups.node.columns, texts, [i.tree for i in shown])
    return Project(groups.node, tuple(texts), tuple(Column(i.name, t) for i, t in zip(shown, types, strict=True)))


def _group_relation(draft: _Draft, node: Node) -> Relation:
    """The Aggregate with a scope of its group columns, for subqueries that are correlated with them."""
    group_positions = {text: i for i, text in enumerate(draft.groups)}
    scope = draft.relation.scope
    entries = [replace(e, position=group_positions.get(column(e.position), -1)) for e in scope.entries]
    return Relation(node, replace(scope, entries=tuple(e for e in entries if e.position >= 0)))


def _read_groups(
    draft: _Draft, group: exp.Expr | None, items: Sequence[Item], aliases: dict[str, exp.Expr], env: Environment
) -> None:
    if group is None:
        return
    refuse_grouping(group)

    def add(tree: exp.Expr) -> int:
        tree = _expand_group(tree, items, aliases, draft.relation)
        return draft.add_group(env.resolve(tree, draft.relation), tree)

    if group.args.get("all"):
        for item in items:
            if not functions.has_aggregate(item.tree):
                draft.add_group(env.resolve(item.tree, draft.relation), item.tree)
    elif not has_sets(group):
        for tree in group.expressions:
            add(tree)
    else:
        trees, sets = read_sets(group)
        for tree in trees:
            add(tree)
        members = tuple(frozenset(map(add, s)) for s in sets)
        if draft.groups or len(members) > 1:  # GROUPING SETS (()) is the same as no GROUP BY
            draft.sets = GroupingSets(len(draft.groups), members)


def _expand_group(tree: exp.Expr, items: Sequence[Item], aliases: dict[str, exp.Expr], relation: Relation) -> exp.Expr:
    """An expression of GROUP BY with ordinals and aliases replaced by select items."""
    if isinstance(tree, exp.Literal) and tree.is_int:
        tree = _ordinal_item(tree, items)
    else:
        # As in Spark, a column of FROM takes precedence over an alias.
        tree = expand_aliases(tree, aliases, lambda c: relation.scope.find(c) is None)
    tree = start_of_window(tree)
    for node in tree.walk():
        if functions.is_aggregate(node):
            message = f"aggregate {functions.name(node)}() is not allowed in GROUP BY"
            raise SqlError(message=message, **location(node))
    return tree


def _ordinal_item(tree: exp.Literal, items: Sequence[Item]) -> exp.Expr:
    number = int(tree.name)
    if not 1 <= number <= len(items):
        message = f"GROUP BY {number}: the select list has {counted(len(items), 'column')}"
        raise SqlError(message=message, **location(tree))
    return items[number - 1].tree


def _expand_having(tree: exp.Expr, aliases: dict[str, exp.Expr], draft: _Draft) -> exp.Expr:
    """HAVING with aliases replaced by select items. A group column of the same name takes precedence."""

    def is_alias(node: exp.Column) -> bool:
        if any(functions.is_aggregate(a) for a in _ancestors(node)):
            return False
        column_and_fields = draft.relation.scope.find(node)
        return column_and_fields is None or column(column_and_fields[0].position) not in draft.groups

    return expand_aliases(tree, aliases, is_alias)


def _ancestors(node: exp.Expr) -> list[exp.Expr]:
    ancestors = []
    while node.parent is not None:
        node = node.parent
        ancestors.append(node)
    return ancestors


def _over_aggregate(tree: exp.Expr, draft: _Draft) -> str:
    """Rewrites an expression of the select list or HAVING over the Aggregate's output: group columns, then calls."""
    refuse_expression(tree)
    if draft.sets is not None:
        tree = replace_hive_name(tree, lambda c: draft.relation.scope.find(c) is not None)
    resolved = draft.relation.scope.resolve(tree)

    def rewrite(node: exp.Expr) -> exp.Expr:
        if functions.is_aggregate(unwrapped(node)):
            return parse_expr(column(draft.width + _add_call(node, draft))).copy()
        if functions.name(node) in GROUPING:
            return operand(parse_expr(_grouping_sql(node, draft)))
        text = generate(node.unnest()) if not isinstance(node, exp.Identifier) else ""
        if text in draft.groups:
            return parse_expr(column(draft.groups.index(text))).copy()
        position = position_of(node) if isinstance(node, exp.Column) else None
        if position is not None:
            name = draft.relation.node.columns[position].name
            message = f"column {name!r} must be in GROUP BY or inside an aggregate"
            raise SqlError(message=message, **location(node))
        return node

    return generate(resolved.transform(rewrite, copy=False).unnest())


def _grouping_sql(node: exp.Expr, draft: _Draft) -> str:
    """A resolved call of grouping(column) or grouping_id() as SQL over the Aggregate's output."""
    word = functions.name(node)
    if draft.sets is None:
        raise SqlError(message=f"{word}() needs GROUP BY with ROLLUP, CUBE or GROUPING SETS", **location(node))
    texts = [generate(a.unnest()) for a in node.expressions]
    if word == "grouping_id" and texts in ([], draft.groups):
        return draft.sets.grouping_id()
    if word == "grouping" and len(texts) == 1 and texts[0] in draft.groups:
        return draft.sets.grouping(draft.groups.index(texts[0]))
    arguments = "one column of GROUP BY" if word == "grouping" else "no argument or all columns of GROUP BY in order"
    raise SqlError(message=f"{word}() takes {arguments}", **location(node))


def unwrapped(node: exp.Expr) -> exp.Expr:
    """The call without its suffixes: WITHIN GROUP, FILTER, IGNORE NULLS."""
    while isinstance(node, _WRAPPERS):
        node = node.this
    return node


def _add_call(node: exp.Expr, draft: _Draft) -> int:
    """Adds an aggregate call to the draft, its arguments to the Aggregate's input; returns the call's index."""
    origin = node
    node = without_filter(node.copy())
    function = unwrapped(node)
    refuse_distinct_order(node, function)
    if _counts_rows(node):
        return draft.add_call(parse_expr("COUNT(*)"), origin)
    for slot in slots(node, function):
        for inner in slot.walk():
            if functions.is_aggregate(inner):
                nested = f"aggregate {functions.name(inner)}() inside aggregate {functions.name(function)}()"
                message = f"{nested} is not allowed; compute the inner one in a subquery"
                raise SqlError(message=message, **location(inner))
        # A constant argument stays in the call: percentile, for example, needs a literal. Aggregates with their own
        # delta rule always read a column, also for SUM(1).
        reads_column = any(position_of(c) is not None or is_outer(c) for c in slot.find_all(exp.Column))
        if reads_column or placeholders(slot) or functions.name(function) in functions.SIMPLE_AGGREGATES:
            position = draft.add_input(generate(slot.unnest()), slot.copy())
            slot.replace(exp.Column(this=exp.Identifier(this=column(position))))
    return draft.add_call(node, origin)


def _counts_rows(node: exp.Expr) -> bool:
    """COUNT(*), or COUNT of a constant that is not NULL."""
    if functions.name(node) != "count" or len(node.expressions) != 1:
        return False
    argument = node.expressions[0]
    return isinstance(argument, exp.Star | exp.Literal | exp.Boolean)


def slots(node: exp.Expr, function: exp.Expr) -> list[exp.Expr]:
    """The argument expressions of a call: in the parentheses, after DISTINCT, in WITHIN GROUP (ORDER BY)."""
    arguments: list[exp.Expr] = []
    for argument in function.expressions:
        if isinstance(argument, exp.Distinct):
            arguments += argument.expressions
        elif isinstance(argument, exp.Kwarg | exp.PropertyEQ):
            arguments.append(argument.expression)
        else:
            arguments.append(argument.this if isinstance(argument, exp.IgnoreNulls | exp.RespectNulls) else argument)
    while node is not function:
        order = node.expression if isinstance(node, exp.WithinGroup) else None
        arguments += [ordered.this for ordered in (order.expressions if order is not None else ())]
        node = node.this
    return arguments


def without_filter(node: exp.Expr) -> exp.Expr:
    """Rewrites `f(x) FILTER (WHERE c)` to `f(CASE WHEN c THEN x END)`. Equivalent because aggregates skip NULLs."""
    if not isinstance(node, exp.Filter):
        return node
    condition: exp.Expr = node.expression.this
    call: exp.Expr = node.this
    function = unwrapped(call)
    if _counts_rows(function):
        function.set("expressions", [_case_when(condition, exp.Literal.number(1))])
        return call
    arguments = function.expressions
    if not arguments and isinstance(call, exp.WithinGroup):  # mode() WITHIN GROUP (ORDER BY x)
        target = call.expression.expressions[0].this
        target.replace(_case_when(condition, target.copy()))
        return call
    index = 1 if functions.name(function) in functions.SKIPS_BY_SECOND else 0
    target = arguments[index].expressions[0] if isinstance(arguments[index], exp.Distinct) else arguments[index]
    if isinstance(call, exp.WithinGroup) and functions.name(function) not in ("listagg", "string_agg"):
        # percentile_cont(0.5) WITHIN GROUP (ORDER BY x) aggregates x.
        target = call.expression.expressions[0].this
    target.replace(_case_when(condition, target.copy()))
    return call


def _case_when(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value)])


def _build_aggregate(draft: _Draft, env: Environment) -> Node:
    relation, inputs = join_subqueries(draft.relation, draft.inputs, env)
    source = relation.node
    columns = [column_of(text) for text in inputs]
    # `positions[i]` is the column of `node` that holds input i.
    if all(p is not None for p in columns):
        node, positions = source, [p for p in columns if p is not None]
    else:
        types = env.types.of(source.columns, inputs, draft.origins)
        output = tuple(_input_column(draft, i, type_) for i, type_ in enumerate(types))
        node, positions = Project(source, tuple(inputs), output), list(range(len(inputs)))
    groups = tuple(positions[i] for i in range(len(draft.groups)))
    for i, position in enumerate(groups):
        if holds_map(node.columns[position].type):
            raise unsupported("GROUP BY a map", draft.origins[i], _MAP_GROUP)
    if draft.sets is not None:
        node = draft.sets.expand(selected(node, positions) if positions else node)
        groups, positions = tuple(range(draft.width)), [draft.width + i for i in range(len(positions))]
    trees = [_renumber(tree, positions) for tree, _ in draft.calls]
    texts = [generate(tree) for tree in trees]
    types = env.types.of(node.columns, texts, [origin for _, origin in draft.calls])
    calls = [_call(tree, text, type_) for tree, text, type_ in zip(trees, texts, types, strict=True)]
    calls = [break_ties(c, node, groups, origin) for c, (_, origin) in zip(calls, draft.calls, strict=True)]
    return Aggregate(node, groups, tuple(calls))


def _input_column(draft: _Draft, index: int, type_: str) -> Column:
    position = column_of(draft.inputs[index])
    if position is not None:
        return Column(draft.relation.node.columns[position].name, type_)
    return Column(output_name(draft.origins[index]), type_)


def _renumber(tree: exp.Expr, positions: Sequence[int]) -> exp.Expr:
    """Rewrites a call over the draft's list of inputs to one over the columns of the Aggregate's input."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        position = position_of(node) if isinstance(node, exp.Column) else None
        if position is None:
            return node
        return exp.Column(this=exp.Identifier(this=column(positions[position])))

    return tree.transform(rewrite)


def _call(tree: exp.Expr, text: str, type_: str) -> Call:
    function = unwrapped(tree)
    arguments = [position_of(c) for slot in slots(tree, function) for c in slot.find_all(exp.Column)]
    distinct = any(isinstance(a, exp.Distinct) for a in function.expressions)
    name = functions.name(function) or ""
    return Call(name, tuple(p for p in arguments if p is not None), distinct, text, type_)
