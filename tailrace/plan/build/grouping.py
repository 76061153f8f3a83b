"""GROUP BY, HAVING and aggregates: one Aggregate, a Project below it for what it reads, a Project above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tailrace.delta import column
from tailrace.errors import SqlError
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import generate, place
from tailrace.plan.build.context import Environment, Relation
from tailrace.plan.expressions import conjuncts, operand, parse_expr, position_of
from tailrace.plan.build.grouping_sets import GROUPING, Sets, has_sets, read_sets, with_calls
from tailrace.plan.joining import selected
from tailrace.plan.nodes import Aggregate, Call, Node, Project, column_of
from tailrace.plan.outer import is_outer
from tailrace.plan.build.placeholders import cut, has_placeholder, placeholders
from tailrace.plan.sql.refuse import refuse_distinct_order, refuse_expression, refuse_grouping
from tailrace.plan.build.scope import expand_aliases, output_name
from tailrace.plan.build.tie_breaks import settled
from tailrace.plan.build.subqueries import attached, restricted
from tailrace.types import Column

_WRAPPERS = (exp.WithinGroup, exp.Filter, exp.IgnoreNulls, exp.RespectNulls)


@dataclass(frozen=True)
class Item:
    """One column of a select list: its name and its expression as the user wrote it.

    A generator stands for several columns, which `names` names.
    """

    name: str
    tree: exp.Expr
    names: tuple[str, ...] = ()


@dataclass
class _Draft:
    """What the Aggregate will read and compute, gathered while its users are rewritten."""

    relation: Relation
    groups: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    origins: list[exp.Expr] = field(default_factory=list)
    calls: list[tuple[exp.Expr, exp.Expr]] = field(default_factory=list)
    sets: Sets | None = None
    _index: dict[str, int] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """How many columns the Aggregate is grouped by: with grouping sets, the number of the set is one more."""
        return len(self.groups) + (self.sets is not None)

    def group(self, text: str, origin: exp.Expr) -> int:
        if text not in self.groups:
            self.groups.append(text)
            self.read(text, origin)
        return self.groups.index(text)

    def read(self, text: str, origin: exp.Expr) -> int:
        """The position at which the Aggregate's input will have this expression."""
        if text not in self.inputs:
            self.inputs.append(text)
            self.origins.append(origin)
        return self.inputs.index(text)

    def call(self, tree: exp.Expr, origin: exp.Expr) -> int:
        """The index of a call; one that is written twice is computed once."""
        text = generate(tree)
        if text not in self._index:
            self._index[text] = len(self.calls)
            self.calls.append((tree, origin))
        return self._index[text]


def aggregated(
    relation: Relation, items: Sequence[Item], group: exp.Expr | None, having: exp.Expr | None,
    env: Environment, shown: Sequence[Item] | None = None,
) -> Node:  # fmt: skip
    """SELECT shown FROM relation GROUP BY group HAVING having; GROUP BY and HAVING may speak of `items`."""
    shown = items if shown is None else shown
    draft = _Draft(relation)
    aliases = {i.name.lower(): i.tree for i in reversed(items)}
    _read_groups(draft, group and cut(group, env.held), items, aliases, env)
    trees = [_over_groups(i.tree, draft, env) for i in shown]
    condition = None
    if having is not None:
        condition = _over_groups(_having(cut(having.this, env.held), aliases, draft, env), draft, env)
    groups = _grouped(draft, _aggregate(draft, env))
    if having is not None and condition is not None:
        if not has_placeholder(condition):
            env.require_boolean(groups.node.columns, condition, having.this, "HAVING")
        groups = restricted(groups, conjuncts(condition), having.this, "HAVING", env)
    groups, trees = attached(groups, trees, env)
    types = env.types.of(groups.node.columns, trees, [i.tree for i in shown])
    return Project(groups.node, tuple(trees), tuple(Column(i.name, t) for i, t in zip(shown, types, strict=True)))


def _grouped(draft: _Draft, node: Node) -> Relation:
    """The Aggregate, and what a subquery over it may call its group columns."""
    position = {text: i for i, text in enumerate(draft.groups)}
    scope = draft.relation.scope
    entries = [replace(e, position=position.get(column(e.position), -1)) for e in scope.entries]
    return Relation(node, replace(scope, entries=tuple(e for e in entries if e.position >= 0)))


def _read_groups(
    draft: _Draft, group: exp.Expr | None, items: Sequence[Item], aliases: dict[str, exp.Expr], env: Environment
) -> None:
    if group is None:
        return
    refuse_grouping(group)

    def index(tree: exp.Expr) -> int:
        tree = _group_tree(tree, items, aliases, draft.relation)
        return draft.group(env.resolve(tree, draft.relation), tree)

    if group.args.get("all"):
        for item in items:
            if not functions.has_aggregate(item.tree):
                draft.group(env.resolve(item.tree, draft.relation), item.tree)
    elif not has_sets(group):
        for tree in group.expressions:
            index(tree)
    else:
        trees, sets = read_sets(group)
        for tree in trees:
            index(tree)
        members = tuple(frozenset(map(index, s)) for s in sets)
        if draft.groups or len(members) > 1:  # GROUPING SETS (()) alone is an aggregate without GROUP BY
            draft.sets = Sets(len(draft.groups), members)


def _group_tree(tree: exp.Expr, items: Sequence[Item], aliases: dict[str, exp.Expr], relation: Relation) -> exp.Expr:
    if isinstance(tree, exp.Literal) and tree.is_int:
        tree = _ordinal(tree, items)
    else:
        # As in Spark, a column of FROM comes before an alias of the select list.
        tree = expand_aliases(tree, aliases, lambda c: relation.scope.find(c) is None)
    for node in tree.walk():
        if functions.is_aggregate(node):
            message = f"aggregate {functions.name(node)}() cannot be grouped by"
            raise SqlError(message=message, **place(node))
    return tree


def _ordinal(tree: exp.Literal, items: Sequence[Item]) -> exp.Expr:
    number = int(tree.name)
    if not 1 <= number <= len(items):
        message = f"GROUP BY {number}: the select list has {len(items)} columns"
        raise SqlError(message=message, **place(tree))
    return items[number - 1].tree


def _having(tree: exp.Expr, aliases: dict[str, exp.Expr], draft: _Draft, env: Environment) -> exp.Expr:
    """HAVING may use aliases of the select list; a grouped column of the same name comes first."""

    def is_alias(node: exp.Column) -> bool:
        if any(functions.is_aggregate(a) for a in _ancestors(node)):
            return False
        found = draft.relation.scope.find(node)
        return found is None or column(found[0].position) not in draft.groups

    return expand_aliases(tree, aliases, is_alias)


def _ancestors(node: exp.Expr) -> list[exp.Expr]:
    found = []
    while node.parent is not None:
        node = node.parent
        found.append(node)
    return found


def _over_groups(tree: exp.Expr, draft: _Draft, env: Environment) -> str:
    """An expression of the select list or HAVING over the Aggregate's output: groups, then calls."""
    refuse_expression(tree)
    if draft.sets is not None:
        tree = with_calls(tree, lambda c: draft.relation.scope.find(c) is not None)
    resolved = draft.relation.scope.resolve(tree)

    def rewrite(node: exp.Expr) -> exp.Expr:
        if functions.is_aggregate(unwrapped(node)):
            return parse_expr(column(draft.width + _add_call(node, draft))).copy()
        if functions.name(node) in GROUPING:
            return operand(parse_expr(_grouping(node, draft)))
        text = generate(node.unnest()) if not isinstance(node, exp.Identifier) else ""
        if text in draft.groups:
            return parse_expr(column(draft.groups.index(text))).copy()
        position = position_of(node) if isinstance(node, exp.Column) else None
        if position is not None:
            name = draft.relation.node.columns[position].name
            message = f"column {name!r} must be in GROUP BY or inside an aggregate"
            raise SqlError(message=message, **place(node))
        return node

    return generate(resolved.transform(rewrite, copy=False).unnest())


def _grouping(node: exp.Expr, draft: _Draft) -> str:
    """grouping(column) or grouping_id() of a resolved tree, over the Aggregate's output."""
    word = functions.name(node)
    if draft.sets is None:
        raise SqlError(message=f"{word}() needs GROUP BY with ROLLUP, CUBE or GROUPING SETS", **place(node))
    texts = [generate(a.unnest()) for a in node.expressions]
    if word == "grouping_id" and texts in ([], draft.groups):
        return draft.sets.grouping_id()
    if word == "grouping" and len(texts) == 1 and texts[0] in draft.groups:
        return draft.sets.grouping(draft.groups.index(texts[0]))
    wanted = "one column of GROUP BY" if word == "grouping" else "all columns of GROUP BY in their order, or none"
    raise SqlError(message=f"{word}() takes {wanted}", **place(node))


def unwrapped(node: exp.Expr) -> exp.Expr:
    while isinstance(node, _WRAPPERS):
        node = node.this
    return node


def _add_call(node: exp.Expr, draft: _Draft) -> int:
    """Note an aggregate call; its arguments become columns of the Aggregate's input."""
    origin = node
    node = without_filter(node.copy())
    function = unwrapped(node)
    refuse_distinct_order(node, function)
    if _counts_rows(node):
        return draft.call(parse_expr("COUNT(*)"), origin)
    for slot in slots(node, function):
        for inner in slot.walk():
            if functions.is_aggregate(inner):
                message = f"aggregate {functions.name(inner)}() inside aggregate {functions.name(function)}()"
                raise SqlError(message=message, **place(inner))
        # An argument without columns stays as it is: percentile's must be a literal, for one. Those that have
        # their own rule read a column in any case, so that SUM(1) is a sum like any other.
        reads = any(position_of(c) is not None or is_outer(c) for c in slot.find_all(exp.Column))
        if reads or placeholders(slot) or functions.name(function) in functions.SIMPLE_AGGREGATES:
            position = draft.read(generate(slot.unnest()), slot.copy())
            slot.replace(exp.Column(this=exp.Identifier(this=column(position))))
    return draft.call(node, origin)


def _counts_rows(node: exp.Expr) -> bool:
    """COUNT(*), or COUNT of a constant that is not NULL."""
    if functions.name(node) != "count" or len(node.expressions) != 1:
        return False
    argument = node.expressions[0]
    return isinstance(argument, exp.Star | exp.Literal | exp.Boolean)


def slots(node: exp.Expr, function: exp.Expr) -> list[exp.Expr]:
    """The argument expressions of a call: in the parentheses, after DISTINCT, in WITHIN GROUP (ORDER BY)."""
    found: list[exp.Expr] = []
    for argument in function.expressions:
        if isinstance(argument, exp.Distinct):
            found += argument.expressions
        elif isinstance(argument, exp.Kwarg | exp.PropertyEQ):
            found.append(argument.expression)
        else:
            found.append(argument.this if isinstance(argument, exp.IgnoreNulls | exp.RespectNulls) else argument)
    while node is not function:
        order = node.expression if isinstance(node, exp.WithinGroup) else None
        found += [ordered.this for ordered in (order.expressions if order is not None else ())]
        node = node.this
    return found


def without_filter(node: exp.Expr) -> exp.Expr:
    """`f(x) FILTER (WHERE c)` as `f(CASE WHEN c THEN x END)`: aggregates pass over NULLs."""
    if not isinstance(node, exp.Filter):
        return node
    condition: exp.Expr = node.expression.this
    call: exp.Expr = node.this
    function = unwrapped(call)
    if _counts_rows(function):
        function.set("expressions", [_when(condition, exp.Literal.number(1))])
        return call
    arguments = function.expressions
    if not arguments and isinstance(call, exp.WithinGroup):  # mode() WITHIN GROUP (ORDER BY x)
        first = call.expression.expressions[0].this
        first.replace(_when(condition, first.copy()))
        return call
    at = 1 if functions.name(function) in functions.SKIPS_BY_SECOND else 0
    first = arguments[at].expressions[0] if isinstance(arguments[at], exp.Distinct) else arguments[at]
    if isinstance(call, exp.WithinGroup) and functions.name(function) not in ("listagg", "string_agg"):
        # percentile_cont(0.5) WITHIN GROUP (ORDER BY x): x is what it aggregates.
        first = call.expression.expressions[0].this
    first.replace(_when(condition, first.copy()))
    return call


def _when(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value)])


def _aggregate(draft: _Draft, env: Environment) -> Node:
    relation, inputs = attached(draft.relation, draft.inputs, env)
    source = relation.node
    positions = [column_of(text) for text in inputs]
    if all(p is not None for p in positions):
        node, place_of = source, [p for p in positions if p is not None]
    else:
        types = env.types.of(source.columns, inputs, draft.origins)
        output = tuple(_input_column(draft, i, kind) for i, kind in enumerate(types))
        node, place_of = Project(source, tuple(inputs), output), list(range(len(inputs)))
    groups = tuple(place_of[i] for i in range(len(draft.groups)))
    if draft.sets is not None:
        node = draft.sets.applied(selected(node, place_of) if place_of else node)
        groups, place_of = tuple(range(draft.width)), [draft.width + i for i in range(len(place_of))]
    trees = [_placed(tree, place_of) for tree, _ in draft.calls]
    texts = [generate(tree) for tree in trees]
    types = env.types.of(node.columns, texts, [origin for _, origin in draft.calls])
    calls = [_call(tree, text, kind) for tree, text, kind in zip(trees, texts, types, strict=True)]
    calls = [settled(c, node, groups, origin) for c, (_, origin) in zip(calls, draft.calls, strict=True)]
    return Aggregate(node, groups, tuple(calls))


def _input_column(draft: _Draft, index: int, kind: str) -> Column:
    position = column_of(draft.inputs[index])
    if position is not None:
        return Column(draft.relation.node.columns[position].name, kind)
    return Column(output_name(draft.origins[index]), kind)


def _placed(tree: exp.Expr, place_of: Sequence[int]) -> exp.Expr:
    """A call over the Aggregate's input, from one over the draft's list of inputs."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        position = position_of(node) if isinstance(node, exp.Column) else None
        if position is None:
            return node
        return exp.Column(this=exp.Identifier(this=column(place_of[position])))

    return tree.transform(rewrite)


def _call(tree: exp.Expr, text: str, kind: str) -> Call:
    function = unwrapped(tree)
    found = [position_of(c) for slot in slots(tree, function) for c in slot.find_all(exp.Column)]
    distinct = any(isinstance(a, exp.Distinct) for a in function.expressions)
    name = functions.name(function) or ""
    return Call(name, tuple(p for p in found if p is not None), distinct, text, kind)
