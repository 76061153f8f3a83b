"""Subqueries in expressions: each placeholder joined to the relation it is used over.

A whole conjunct `[NOT] EXISTS (...)` or `x [NOT] IN (...)` is a semi or anti join. Any other subquery adds
columns to the relation, behind those that names stand for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from tailrace.errors import SqlError, UnknownName
from tailrace.plan.build.context import Environment, Relation
from tailrace.plan.build.decorrelate import Decorrelation
from tailrace.plan.build.membership import Membership, exists, exists_mark
from tailrace.plan.build.placeholders import has_placeholder, is_placeholder, placeholders
from tailrace.plan.build.scalar import is_strict, scalar
from tailrace.plan.expressions import operand, parse_expr, refs, remap, shift
from tailrace.plan.joining import filtered, joined
from tailrace.plan.nodes import Join, JoinKind, Node, Project
from tailrace.plan.outer import Outer, read_outside
from tailrace.plan.sql.dialect import generate, location
from tailrace.plan.sql.refuse import unsupported
from tailrace.types import Column

_LOGICAL = (exp.And, exp.Or, exp.Paren, exp.Not)


def restricted(
    relation: Relation, condition: Sequence[str], origin: exp.Expr, clause: str, env: Environment
) -> Relation:
    """The rows for which all conjuncts hold."""
    plain = [c for c in condition if not has_placeholder(c)]
    if len(plain) == len(condition):
        return replace(relation, node=filtered(relation.node, plain))
    # What reads the query around this one stays above: what subqueries read of this one then does not depend on it.
    inside = [c for c in plain if "`^" not in c]
    work = _Work(replace(relation, node=filtered(relation.node, inside)), env)
    rest = [c for c in plain if c not in inside]
    for text in condition:
        if has_placeholder(text) and not work.join_whole(text):
            rest.append(text)
    texts = [work.value(t, filters=True) if has_placeholder(t) else t for t in rest]
    for text in texts:
        env.require_boolean(work.node.columns, text, origin, clause)
    return replace(relation, node=filtered(work.node, texts))


def attached(relation: Relation, texts: Sequence[str], env: Environment) -> tuple[Relation, list[str]]:
    """The relation with the columns that the expressions' subqueries need, and the expressions over it."""
    if not any(map(has_placeholder, texts)):
        return relation, list(texts)
    work = _Work(relation, env)
    values = [work.value(t, filters=False) if has_placeholder(t) else t for t in texts]
    return replace(relation, node=work.node), values


def joined_on(
    left: Relation, right: Relation, kind: JoinKind, condition: Sequence[str], origin: exp.Expr, env: Environment
) -> Relation:
    """A join with subqueries in its condition; in outer joins each must be of one side alone."""
    left, right = (replace(side, scope=replace(side.scope, outer=env.outer)) for side in (left, right))
    width = len(left.node.columns)
    if kind == "inner":
        pairs = Join(left.node, right.node, "inner", (), (), ())
        both = Relation(pairs, left.scope.beside(right.scope, width))
        _require_one_side(both, width, condition, origin, env)
        return restricted(both, condition, origin, "ON", env)
    of_left, of_right, plain = [], [], []
    for text in condition:
        if not has_placeholder(text):
            plain.append(text)
        elif _is_of_left(text, left, right, origin, env):
            of_left.append(text)
        else:
            of_right.append(shift(text, -width))
    left, of_left = attached(left, of_left, env)
    right, of_right = attached(right, of_right, env)
    start = len(left.node.columns)
    moved = {p: p if p < width else p - width + start for p in range(width + len(right.node.columns))}
    texts = [*(remap(c, moved) for c in plain), *of_left, *(shift(t, start) for t in of_right)]
    pairs = Join(left.node, right.node, "inner", (), (), ())
    for text in texts:
        env.require_boolean(pairs.columns, text, origin, "ON")
    scope = left.scope if kind in ("semi", "anti") else left.scope.beside(right.scope, start)
    return Relation(joined(left.node, right.node, kind, texts, env.types), scope)


def _require_one_side(both: Relation, width: int, condition: Sequence[str], origin: exp.Expr, env: Environment) -> None:
    """Spark itself has no answer where a subquery in ON, or what it is compared with, reads both sides."""
    work = _Work(both, env)
    for call in (call for text in condition for call in placeholders(parse_expr(text))):
        plan, outer = work.planned(call)
        read = refs(generate(call)) | read_outside(plan, outer.depth)
        if len({position < width for position in read}) > 1:
            raise unsupported("a subquery in ON over both sides", origin, "put it in WHERE")


def _is_of_left(text: str, left: Relation, right: Relation, origin: exp.Expr, env: Environment) -> bool:
    read = refs(text)
    width = len(left.node.columns)
    for side, fits in ((left, max(read, default=0) < width), (right, min(read, default=width) >= width)):
        if fits:
            try:
                attached(side, [text if side is left else shift(text, -width)], env)
            except UnknownName:
                continue  # a correlated subquery of the other side
            return side is left
    reason = "in an outer join a subquery may read one side; filter that side in a subquery in FROM"
    raise unsupported("a subquery in ON over both sides", origin, reason)


class _Work:
    """A relation that grows by joins. Subqueries read it as it was at the start."""

    def __init__(self, relation: Relation, env: Environment) -> None:
        if not relation.node.columns:  # SELECT without FROM: rows of no columns cannot be arranged for a join
            relation = replace(relation, node=Project(relation.node, ("1",), (Column("1", "int"),)))
        self._base, self._env = relation, env
        self.node: Node = relation.node
        self._known: dict[str, str] = {}

    def join_whole(self, text: str) -> bool:
        """A conjunct that is a subquery's predicate and nothing else, as a semi or anti join."""
        tree = parse_expr(text).unnest()
        negated = isinstance(tree, exp.Not)
        call = tree.this.unnest() if negated else tree
        if not is_placeholder(call) or len(placeholders(call)) > 1:
            return False
        subquery = self._env.held.of(call)
        if subquery.use == "scalar":
            return False
        plan, outer = self.planned(call)
        if subquery.use == "exists":
            self.node = exists(self.node, plan, outer, negated=negated)
        else:
            member = self._membership(call, plan, outer)
            self.node = member.without() if negated else member.within()
        return True

    def value(self, text: str, *, filters: bool) -> str:
        """The expression with its subqueries' values in it; `filters` if it is to be true of the rows kept."""
        tree = exp.Paren(this=parse_expr(text).copy())
        for call in placeholders(tree):
            needed = filters and is_strict(call)
            name = f"{generate(call)} {needed} {_is_negated(call)}"
            if name not in self._known:
                self._known[name] = self._joined(call, needed=needed)
            call.replace(operand(parse_expr(self._known[name])))
        return generate(tree.this)

    def _joined(self, call: exp.Expr, *, needed: bool) -> str:
        plan, outer = self.planned(call)
        use = self._env.held.of(call).use
        if use == "scalar":
            self.node, text = scalar(self.node, plan, outer, needed=needed)
        elif use == "exists":
            self.node, text = exists_mark(self.node, plan, outer)
        else:
            member = self._membership(call, plan, outer)
            self.node, text = member.mark_unless_false() if _is_negated(call) else member.mark()
        return text

    def planned(self, call: exp.Expr) -> tuple[Node, Decorrelation]:
        around = Outer(self._base.scope, self._base.node.columns)
        query = self._env.held.of(call).query
        plan = self._env.query(query, replace(self._env, outer=around))
        return plan, Decorrelation(self._base.node, around.depth, self._env.types, query)

    def _membership(self, call: exp.Expr, plan: Node, outer: Decorrelation) -> Membership:
        operands = [generate(o.unnest()) for o in call.expressions[1:]]
        if len(operands) != len(plan.columns):
            message = f"{len(operands)} values IN a subquery of {len(plan.columns)} columns"
            raise SqlError(message=message, **location(outer.origin))
        return Membership(self.node, operands, outer.lift(plan), outer.types)


def _is_negated(node: exp.Expr) -> bool:
    """Whether an odd number of NOTs is above, with nothing but AND and OR between."""
    negated = False
    while isinstance(node.parent, _LOGICAL):
        node = node.parent
        negated ^= isinstance(node, exp.Not)
    return negated
