"""Rewrites comparisons with ANY, SOME and ALL of a subquery, which Spark SQL does not have.

    x > ANY (Q)     EXISTS (SELECT 1 FROM (Q) AS _any(_value) WHERE x > _value)         as a condition
    x > ALL (Q)     NOT EXISTS (SELECT 1 FROM (Q) AS _any(_value) WHERE NOT COALESCE(x > _value, FALSE))
    x = ANY (Q)     x IN (Q)                                    x <> ALL (Q)    x NOT IN (Q)

A condition need not distinguish false from unknown. In any other place the result may be NULL, as in the SQL standard:

    x > ALL (Q)     CASE WHEN <some comparison is false> THEN FALSE WHEN <some is NULL> THEN NULL ELSE TRUE END
"""

from __future__ import annotations

from sqlglot import exp

from tailrace.errors import Unsupported
from tailrace.plan.expressions import operand, parse_expr
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import generate, location, parse

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_LOGICAL = (exp.And, exp.Or, exp.Paren, exp.Not)
_CONDITIONS = (exp.Where, exp.Having, exp.Qualify)
_ROWS = "EXISTS (SELECT 1 FROM (SELECT 0) AS `_any`(`_value`) WHERE TRUE)"
_VALUE = "`_any`.`_value`"


def rewrite_quantified(query: exp.Expr) -> exp.Expr:
    """The query without ANY, SOME and ALL of subqueries; the same object if it has none.

    Raises `Unsupported` if the rewritten query could not be given to Spark as text.
    """
    if not any(map(_is_quantified, query.walk())):
        return query
    rewritten = query.copy()
    # Inner ones first: a subquery may contain another one.
    for node in [n for n in reversed(list(rewritten.walk(bfs=True))) if _is_quantified(n)]:
        node.replace(exp.Paren(this=_rewrite(node)))
    if parse(generate(rewritten)) != [rewritten]:
        raise _unsupported(query, "its query cannot be rewritten; write EXISTS or NOT EXISTS")
    return rewritten


def _is_quantified(node: exp.Expr) -> bool:
    return isinstance(node, _COMPARISONS) and _is_quantifier(node.expression)


def _is_quantifier(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Any | exp.All) and isinstance(node.this, exp.Query)


def _rewrite(node: exp.Expr) -> exp.Expr:
    value, is_any, query = node.this, isinstance(node.expression, exp.Any), node.expression.this
    if functions.has_aggregate(value):
        raise _unsupported(node, "compute the compared aggregate in a subquery in FROM")
    is_condition, negated = _context(node)
    if is_condition and isinstance(node, exp.EQ if is_any else exp.NEQ):
        searched = value.copy() if isinstance(value, exp.Tuple) else operand(value)
        found = exp.In(this=searched, query=exp.Subquery(this=query.unnest().copy()))
        return found if is_any else exp.Not(this=found)
    compared = type(node)(this=operand(value), expression=parse_expr(_VALUE).copy())
    if is_condition:
        # Where the condition is negated, unknown must count as true: its negation is then false.
        if is_any:
            return _exists(query, _coalesce(compared, if_null=True) if negated else compared)
        failing = exp.Not(this=exp.Paren(this=compared) if negated else _coalesce(compared, if_null=False))
        return exp.Not(this=_exists(query, failing))
    deciding = compared if is_any else exp.Not(this=exp.Paren(this=compared))
    unknown = exp.Is(this=exp.Paren(this=compared.copy()), expression=exp.Null())
    return exp.Case(
        ifs=[
            exp.If(this=_exists(query, deciding), true=exp.Boolean(this=is_any)),
            exp.If(this=_exists(query, unknown), true=exp.Null()),
        ],
        default=exp.Boolean(this=not is_any),
    )


def _context(node: exp.Expr) -> tuple[bool, bool]:
    """Whether the node is a part of a condition that drops rows unless it is true, and whether it is negated there."""
    negated = False
    while isinstance(node.parent, _LOGICAL):
        node = node.parent
        negated ^= isinstance(node, exp.Not)
    parent = node.parent
    is_on = isinstance(parent, exp.Join) and parent.args.get("on") is node
    return is_on or isinstance(parent, _CONDITIONS), negated


def _exists(query: exp.Expr, condition: exp.Expr) -> exp.Expr:
    """EXISTS over the values of the subquery."""
    exists = parse_expr(_ROWS).copy()
    values, where = exists.find(exp.Subquery), exists.find(exp.Where)
    assert values is not None
    assert where is not None
    values.set("this", query.unnest().copy())
    where.set("this", condition)
    return exists


def _coalesce(condition: exp.Expr, *, if_null: bool) -> exp.Expr:
    return exp.Anonymous(this="COALESCE", expressions=[condition, exp.Boolean(this=if_null)])


def _unsupported(node: exp.Expr, reason: str) -> Unsupported:
    quantifier = next(n for n in node.walk() if _is_quantifier(n))
    return Unsupported(construct=f"{quantifier.key.upper()} (subquery)", reason=reason, **location(quantifier))
