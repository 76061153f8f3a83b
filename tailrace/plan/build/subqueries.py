"""Joins the subqueries behind placeholders to the relation that their expression reads.

WHERE [NOT] EXISTS (...), WHERE x [NOT] IN (...)     a semi or anti join, if that is a whole conjunct
any other subquery                                   a join that appends columns behind those that names refer to
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from tailrace.errors import SqlError, UnknownName
from tailrace.plan.build.context import Environment, Relation
from tailrace.plan.build.decorrelate import Decorrelation
from tailrace.plan.build.membership import Membership, filter_exists, mark_exists
from tailrace.plan.build.placeholders import has_placeholder, is_placeholder, placeholders
from tailrace.plan.build.scalar import is_strict, join_scalar
from tailrace.plan.build.scope import counted
from tailrace.plan.expressions import operand, parse_expr, refs, remap, shift
from tailrace.plan.joining import filtered, joined
from tailrace.plan.nodes import Join, JoinKind, Node, Project
from tailrace.plan.outer import Outer, plan_outer_refs
from tailrace.plan.sql.dialect import generate, location
from tailrace.plan.sql.refuse import unsupported
from tailrace.types import Column

_OF_BOTH_TABLES = "a subquery in ON that uses columns of both joined tables"

_LOGICAL = (exp.And, exp.Or, exp.Paren, exp.Not)


def apply_conditions(
    relation: Relation, condition: Sequence[str], origin: exp.Expr, clause: str, env: Environment
) -> Relation:
    """Filters the relation by the conjuncts of a condition, which may contain placeholders."""
    plain = [c for c in condition if not has_placeholder(c)]
    if len(plain) == len(condition):
        return replace(relation, node=filtered(relation.node, plain))
    # A conjunct that reads the outer query stays above the joins: otherwise the relation that the subqueries read,
    # and with it their domains, would depend on the outer query.
    uncorrelated = [c for c in plain if "`^" not in c]
    joiner = _SubqueryJoiner(replace(relation, node=filtered(relation.node, uncorrelated)), env)
    rest = [c for c in plain if c not in uncorrelated]
    for text in condition:
        if has_placeholder(text) and not joiner.filter_by(text):
            rest.append(text)
    texts = [joiner.value(t, is_filter=True) if has_placeholder(t) else t for t in rest]
    for text in texts:
        env.require_boolean(joiner.node.columns, text, origin, clause)
    return replace(relation, node=filtered(joiner.node, texts))


def join_subqueries(relation: Relation, texts: Sequence[str], env: Environment) -> tuple[Relation, list[str]]:
    """Joins the subqueries of the expressions to the relation; returns it and the expressions without placeholders."""
    if not any(map(has_placeholder, texts)):
        return relation, list(texts)
    joiner = _SubqueryJoiner(relation, env)
    values = [joiner.value(t, is_filter=False) if has_placeholder(t) else t for t in texts]
    return replace(relation, node=joiner.node), values


def join_on_subqueries(
    left: Relation, right: Relation, kind: JoinKind, condition: Sequence[str], origin: exp.Expr, env: Environment
) -> Relation:
    """A join with subqueries in ON. Unless it is an inner join, a conjunct with a subquery must read one side only."""
    left, right = (replace(side, scope=replace(side.scope, outer=env.outer)) for side in (left, right))
    width = len(left.node.columns)
    if kind == "inner":
        pairs = Join(left.node, right.node, "inner", (), (), ())
        both = Relation(pairs, left.scope.beside(right.scope, width))
        _require_one_side(both, width, condition, origin, env)
        return apply_conditions(both, condition, origin, "ON", env)
    left_texts, right_texts, plain = [], [], []
    for text in condition:
        if not has_placeholder(text):
            plain.append(text)
        elif _reads_left(text, left, right, origin, env):
            left_texts.append(text)
        else:
            right_texts.append(shift(text, -width))
    left, left_texts = join_subqueries(left, left_texts, env)
    right, right_texts = join_subqueries(right, right_texts, env)
    start = len(left.node.columns)
    moved = {p: p if p < width else p - width + start for p in range(width + len(right.node.columns))}
    texts = [*(remap(c, moved) for c in plain), *left_texts, *(shift(t, start) for t in right_texts)]
    pairs = Join(left.node, right.node, "inner", (), (), ())
    for text in texts:
        env.require_boolean(pairs.columns, text, origin, "ON")
    scope = left.scope if kind in ("semi", "anti") else left.scope.beside(right.scope, start)
    return Relation(joined(left.node, right.node, kind, texts, env.types), scope)


def _require_one_side(both: Relation, width: int, condition: Sequence[str], origin: exp.Expr, env: Environment) -> None:
    """Refuses a subquery in ON that reads, or is compared with, columns of both sides: Spark refuses it too."""
    joiner = _SubqueryJoiner(both, env)
    for call in (call for text in condition for call in placeholders(parse_expr(text))):
        plan, outer = joiner.plan(call)
        read = refs(generate(call)) | plan_outer_refs(plan, outer.depth)
        if len({position < width for position in read}) > 1:
            raise unsupported(_OF_BOTH_TABLES, origin, "move the condition to WHERE")


def _reads_left(text: str, left: Relation, right: Relation, origin: exp.Expr, env: Environment) -> bool:
    """Whether a conjunct and its subqueries read the left side only; False if the right side only."""
    read = refs(text)
    width = len(left.node.columns)
    for side, fits in ((left, max(read, default=0) < width), (right, min(read, default=width) >= width)):
        if fits:
            try:
                join_subqueries(side, [text if side is left else shift(text, -width)], env)
            except UnknownName:
                continue  # the subquery reads columns of the other side
            return side is left
    reason = "in an outer join it may use columns of one table only; filter that table in a subquery in FROM"
    raise unsupported(_OF_BOTH_TABLES, origin, reason)


class _SubqueryJoiner:
    """Joins subqueries to `node`, one after the other. The subqueries refer to the relation as it was at the start."""

    def __init__(self, relation: Relation, env: Environment) -> None:
        if not relation.node.columns:  # SELECT without FROM: a join needs a row with at least one column
            relation = replace(relation, node=Project(relation.node, ("1",), (Column("1", "int"),)))
        self._base, self._env = relation, env
        self.node: Node = relation.node
        self._values: dict[str, str] = {}  # the expression for each subquery that is joined already

    def filter_by(self, text: str) -> bool:
        """Adds a semi or anti join if the conjunct is just [NOT] EXISTS or [NOT] IN; returns whether it is."""
        tree = parse_expr(text).unnest()
        negated = isinstance(tree, exp.Not)
        call = tree.this.unnest() if negated else tree
        if not is_placeholder(call) or len(placeholders(call)) > 1:
            return False
        subquery = self._env.subqueries.of(call)
        if subquery.use == "scalar":
            return False
        plan, outer = self.plan(call)
        if subquery.use == "exists":
            self.node = filter_exists(self.node, plan, outer, negated=negated)
        else:
            membership = self._membership(call, plan, outer)
            self.node = membership.filter_not_in() if negated else membership.filter_in()
        return True

    def value(self, text: str, *, is_filter: bool) -> str:
        """The expression with its placeholders replaced; `is_filter` if rows where it is not true are dropped."""
        tree = exp.Paren(this=parse_expr(text).copy())
        for call in placeholders(tree):
            drop_nulls = is_filter and is_strict(call)
            identity = f"{generate(call)} {drop_nulls} {_is_negated(call)}"
            if identity not in self._values:
                self._values[identity] = self._join(call, drop_nulls=drop_nulls)
            call.replace(operand(parse_expr(self._values[identity])))
        return generate(tree.this)

    def _join(self, call: exp.Expr, *, drop_nulls: bool) -> str:
        """Joins one subquery; returns its value as an expression over `node`."""
        plan, outer = self.plan(call)
        use = self._env.subqueries.of(call).use
        if use == "scalar":
            self.node, text = join_scalar(self.node, plan, outer, drop_nulls=drop_nulls)
        elif use == "exists":
            self.node, text = mark_exists(self.node, plan, outer)
        else:
            membership = self._membership(call, plan, outer)
            self.node, text = membership.mark_true_or_unknown() if _is_negated(call) else membership.mark_true()
        return text

    def plan(self, call: exp.Expr) -> tuple[Node, Decorrelation]:
        outer = Outer(self._base.scope, self._base.node.columns, self._env.noted)
        query = self._env.subqueries.of(call).query
        plan = self._env.query(query, replace(self._env, outer=outer))
        return plan, Decorrelation(self._base.node, outer.depth, self._env.types, query)

    def _membership(self, call: exp.Expr, plan: Node, outer: Decorrelation) -> Membership:
        operands = [generate(o.unnest()) for o in call.expressions[1:]]
        if len(operands) != len(plan.columns):
            counts = counted(len(operands), "value"), counted(len(plan.columns), "column")
            message = f"IN compares {counts[0]} with a subquery of {counts[1]}"
            raise SqlError(message=message, **location(outer.origin))
        return Membership(self.node, operands, outer.lift(plan), outer.types)


def _is_negated(node: exp.Expr) -> bool:
    """Whether an odd number of NOTs is directly above `node`, with only AND, OR and parentheses in between."""
    negated = False
    while isinstance(node.parent, _LOGICAL):
        node = node.parent
        negated ^= isinstance(node, exp.Not)
    return negated
