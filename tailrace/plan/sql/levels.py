"""Rewrites subqueries that read columns two or more levels outside them, which Spark SQL does not have.

    FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND EXISTS (SELECT 1 FROM c WHERE c.k = a.n))

The query in the middle, here the one over b, joins the distinct values of the outer columns that it and its subqueries
read. It keeps those of the outer row, so the innermost query reads a column of the query directly around it:

    SELECT 1 FROM b CROSS JOIN (SELECT DISTINCT a.k AS k_, a.n AS n_ FROM a) AS outer_
    WHERE b.k = k_ AND EXISTS (SELECT 1 FROM c WHERE c.k = n_) AND k_ <=> a.k AND n_ <=> a.n

Exactly one row of `outer_` is kept, also for NULLs. So the middle query has the same rows as before, each as often, and
its aggregates, windows and LIMIT see the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from tailrace.errors import Unsupported
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import generate, location, parse

_NUMBER = "number"
_LINK = "outer depth"  # of a column that must belong to the query of this depth
_NAME = "_outer"
_MIDDLE = "SELECT 1 FROM b CROSS JOIN (SELECT DISTINCT 1) AS `{}`"
_IN_FROM = "compute it in a subquery in FROM of the query in between"
_OUT_OF_FROM = "move the subquery to WHERE or the select list of the query around it"
_SELECT_IT = "select the column in the query in between, or join its table inside the subquery"
_ROW_CLAUSES = ("where", "joins")  # evaluated before rows are grouped
_SETS = (exp.Cube, exp.Rollup, exp.GroupingSets)
_MADE_NAME = re.compile(r"_outer_*\d+_")

Value = tuple[int | str, ...]


class OuterReference(NamedTuple):
    """A column of a query that belongs to a query around it.

    `number` identifies it in the tree. It is the column (or its field) `value` of relation `qualifier` in the query
    that has `depth` queries around it.
    """

    number: int
    depth: int
    value: Value
    qualifier: str | None


def has_deep_subqueries(query: exp.Expr) -> bool:
    """Whether a column is inside a subquery of a subquery, so that it may belong to a query two levels outside."""
    return any(len(_subqueries_around(c)) > 1 for c in query.find_all(exp.Column))


def number_columns(query: exp.Expr) -> None:
    """Gives each column of the tree a number, which its copies keep."""
    for number, column in enumerate(query.find_all(exp.Column)):
        column.meta[_NUMBER] = number


def column_number(column: exp.Column) -> int | None:
    return column.meta.get(_NUMBER)


def free_name(query: exp.Expr) -> str:
    """A beginning of names that no name of the query has."""
    names = [i.name.lower() for i in query.find_all(exp.Identifier)]
    beginning = _NAME
    while any(n.startswith(beginning) for n in names):
        beginning += "_"
    return beginning


def shorten(query: exp.Expr, references: Sequence[OuterReference], name: str) -> exp.Expr | None:
    """The query with references one level shorter; None if none goes further than one level.

    These are references to one outer query from one query in the middle. `name` becomes the alias of its new relation.
    Raises `Unsupported` if the middle query cannot be rewritten.
    """
    shortened = query.copy()
    columns = {c.meta[_NUMBER]: c for c in shortened.find_all(exp.Column)}
    _require_links(columns, references)
    placed = [_Placed(columns[r.number], r) for r in references]
    deep = [p for p in placed if p.levels > 1]
    if not deep:
        return None
    first = min(deep, key=lambda p: p.reference.depth)
    middle = _Middle(first, {id(p.column) for p in placed})
    middle.replace([p for p in placed if p.reference.depth == first.reference.depth], name)
    if parse(generate(shortened)) != [shortened]:
        raise _unsupported(first.column, _SELECT_IT)
    return shortened


def _require_links(columns: Mapping[int, exp.Column], references: Sequence[OuterReference]) -> None:
    """Refuses a condition made by an earlier step whose name means another column where it was put.

    A subquery in ON or a LATERAL subquery does not see the relations after it, but WHERE does.
    """
    depths = {r.number: r.depth for r in references}
    for number, column in columns.items():
        if _LINK in column.meta and depths.get(number) != column.meta[_LINK]:
            raise _unsupported(column, "the query in between has a column of this name, too; rename one of them")


class _Placed:
    """An outer reference and its place in the tree."""

    def __init__(self, column: exp.Column, reference: OuterReference) -> None:
        self.column, self.reference = column, reference
        self.subqueries = _subqueries_around(column)

    @property
    def levels(self) -> int:
        """How many subqueries are between the column and the query that it belongs to."""
        return len(self.subqueries) - self.reference.depth


class _Middle:
    """The query between a deep reference and the query that it refers to. `references` are ids of outer references."""

    def __init__(self, deep: _Placed, references: Collection[int]) -> None:
        self._column, self._depth, self._references = deep.column, deep.reference.depth, references
        self._boundary = deep.subqueries[self._depth]
        self._select = self._select_around(deep.subqueries[self._depth + 1])
        self._outer = self._select_around(self._boundary)

    def _select_around(self, subquery: exp.Expr) -> exp.Select:
        query = subquery.find_ancestor(exp.Query)
        if not isinstance(query, exp.Select):
            raise self._refusal(_OUT_OF_FROM)
        return query

    def replace(self, references: Sequence[_Placed], name: str) -> None:
        """Joins the values of the outer columns to the query, and lets it and its subqueries read these."""
        inside = [p for p in references if self._is_replaced(p)]
        deep = [p for p in inside if p.levels > 1]
        if any(_is_in_nested_join(p.column, self._select) for p in deep):
            raise self._refusal(_OUT_OF_FROM)
        if any(_is_call_of_star(star) for star in self._select.find_all(exp.Star)):
            raise self._refusal("name the columns instead of * in the call of a function")
        values: dict[Value, exp.Column] = {}
        names: dict[Value, str] = {}
        for p in inside:
            if p.reference.value not in values:
                values[p.reference.value] = p.column
                named = f"{name}_{_MADE_NAME.sub('', p.column.name)}"
                names[p.reference.value] = named if named not in names.values() else f"{named}{len(names)}"
        domain = self._domain({p.reference.qualifier for p in inside}, values, names, name)
        self._add(domain, first=any(_clause(p.column, self._select)[0] == "joins" for p in deep))
        self._group_by([_column(n, name) for n in names.values()], deep)
        for star in (e for e in self._select.expressions if isinstance(e, exp.Star)):
            star.set("except_", [*(star.args.get("except_") or ()), *(_column(n) for n in names.values())])
        links = []
        for value, column in values.items():
            links.append(exp.NullSafeEQ(this=_column(names[value], name), expression=column.copy()))
            links[-1].expression.meta[_LINK] = self._depth
        for p in inside:
            p.column.replace(_column(names[p.reference.value], name))
        _add_conditions(self._select, links)

    def _is_replaced(self, placed: _Placed) -> bool:
        """Whether a reference to the outer query is replaced: in a subquery of the middle one, or in its WHERE."""
        if placed.levels > 1:
            return placed.subqueries[placed.reference.depth + 1].find_ancestor(exp.Query) is self._select
        is_own = placed.column.find_ancestor(exp.Query) is self._select
        return is_own and _clause(placed.column, self._select)[0] == "where"

    def _domain(
        self,
        qualifiers: set[str | None],
        values: Mapping[Value, exp.Column],
        names: Mapping[Value, str],
        name: str,
    ) -> exp.Join:
        """CROSS JOIN (SELECT DISTINCT <values> FROM <the outer query's FROM>) AS name."""
        join: exp.Join = parse(_MIDDLE.format(name))[0].args["joins"][0].pop()
        select = join.this.this
        items = [exp.Alias(this=c.copy(), alias=exp.to_identifier(names[v], quoted=True)) for v, c in values.items()]
        select.set("expressions", items)
        for argument, part in self._outer_from(qualifiers).items():
            select.set(argument, part)
        self._refuse_shadowed(select)
        return join

    def _outer_from(self, qualifiers: set[str | None]) -> dict[str, object]:
        """FROM of the outer query as far as its subquery sees it; only the relation that is read, if that is enough.

        It may have more values than the outer query, but none may be missing. Of WHERE it has the conditions that
        need no other query: a row that does not meet them is dropped, whatever its subqueries return.
        """
        argument, part = _clause(self._boundary, self._outer)
        joins = [join.copy() for join in self._outer.args.get("joins") or ()]
        laterals = [lateral.copy() for lateral in self._outer.args.get("laterals") or ()]
        if argument in ("from_", "laterals") or _is_in_nested_join(self._boundary, self._outer):
            raise self._refusal(_OUT_OF_FROM)
        if argument == "joins":
            index = next(i for i, j in enumerate(self._outer.args["joins"]) if j is part)
            joins, laterals = joins[:index], []
            if not isinstance(part.this, exp.Lateral):  # in ON, which sees all pairs
                joins.append(exp.Join(this=part.this.copy(), kind="CROSS"))
        source = self._outer.args["from_"].copy()
        relations = [source.this, *(join.this for join in joins)]
        sides = ["", *((join.args.get("side") or "").upper() for join in joins)]
        for index, relation in enumerate(relations):
            is_read = qualifiers == {relation.alias_or_name.lower()} and isinstance(relation, exp.Table | exp.Subquery)
            keeps_rows = sides[index] == "" and not {"RIGHT", "FULL"} & set(sides[index + 1 :])
            if is_read and keeps_rows and not relation.args.get("joins"):
                return {"from_": exp.From(this=relation)}
        where = self._outer.args.get("where")
        if argument == "joins" or where is None:
            return {"from_": source, "joins": joins, "laterals": laterals}
        conditions = [c.copy() for c in _conjuncts(where.this) if self._is_plain(c)]
        condition = exp.Where(this=_all(conditions)) if conditions else None
        return {"from_": source, "joins": joins, "laterals": laterals, "where": condition}

    def _is_plain(self, condition: exp.Expr) -> bool:
        """Whether a condition needs no other query."""
        return not any(isinstance(n, exp.Query) or id(n) in self._references for n in condition.walk())

    def _refuse_shadowed(self, domain: exp.Select) -> None:
        """Refuses a name of the outer FROM that means another relation in the middle query, because of its WITH."""
        names = {table.name.lower() for table in domain.find_all(exp.Table)}
        query: exp.Expr | None = self._select
        while query is not None and query is not self._outer:
            clause = query.args.get("with_")
            defined = {cte.alias.lower() for cte in clause.expressions} if clause is not None else set()
            if taken := names & defined:
                raise self._refusal(f"{min(taken)!r} in WITH hides a relation of the outer query; give it another name")
            query = query.parent

    def _add(self, domain: exp.Join, *, first: bool) -> None:
        """Adds the new relation to FROM: before the others if a subquery in ON or a LATERAL subquery reads it."""
        joins = list(self._select.args.get("joins") or ())
        source = self._select.args.get("from_")
        if source is None:
            self._select.set("from_", exp.From(this=domain.this))
        elif not first:
            self._select.set("joins", [*joins, domain])
        elif any((join.args.get("side") or "").upper() in ("RIGHT", "FULL") for join in joins):
            raise self._refusal("the query in between has a RIGHT or FULL JOIN; move the subquery from ON to WHERE")
        else:
            self._select.set("joins", [exp.Join(this=source.this, kind="CROSS"), *joins])
            self._select.set("from_", exp.From(this=domain.this))

    def _group_by(self, columns: Sequence[exp.Column], deep: Sequence[_Placed]) -> None:
        """Groups by the values, too, if the query is grouped and a clause evaluated afterwards reads them."""
        group = self._select.args.get("group")
        having, order = self._select.args.get("having"), self._select.args.get("order")
        clauses = [*self._select.expressions, *([] if order is None else [order])]
        grouped = group is not None or having is not None or any(map(_has_aggregate, clauses))
        if not grouped or all(_clause(p.column, self._select)[0] in _ROW_CLAUSES for p in deep):
            return
        if group is None:
            raise self._refusal(f"the query in between is an aggregate without GROUP BY; {_IN_FROM}")
        others = [k for k, v in group.args.items() if v and k != "expressions"]
        if others or any(isinstance(e, _SETS) for e in group.expressions):
            raise self._refusal("the query in between groups by more than expressions; move the subquery to WHERE")
        group.set("expressions", [*group.expressions, *columns])

    def _refusal(self, reason: str) -> Unsupported:
        return _unsupported(self._column, reason)


def _unsupported(column: exp.Column, reason: str) -> Unsupported:
    construct = f"column {column.name!r} of a query two levels outside its subquery"
    return Unsupported(construct=construct, reason=reason, **location(column))


def _subqueries_around(node: exp.Expr) -> list[exp.Expr]:
    """The subqueries that a node is inside, outermost first. A subquery in FROM counts only if it is LATERAL."""
    found: list[exp.Expr] = []
    current: exp.Expr | None = node
    while current is not None:
        if isinstance(current, exp.Query) and _is_subquery(current):
            found.append(current)
        current = current.parent
    return found[::-1]


def _is_subquery(query: exp.Query) -> bool:
    """Whether a query is one of its own: in an expression, or LATERAL with something on its left."""
    parent = query.parent
    if isinstance(parent, exp.Lateral):
        return isinstance(parent.parent, exp.Join)
    if isinstance(parent, exp.Join | exp.Subquery | exp.SetOperation):
        return query.arg_key not in ("this", "expression")
    return not isinstance(parent, exp.From | exp.CTE | None)


def _clause(node: exp.Expr, select: exp.Select) -> tuple[str, exp.Expr]:
    """The clause of a query that a node is in, and the part of it."""
    while node.parent is not select:
        assert node.parent is not None
        node = node.parent
    return str(node.arg_key), node


def _is_in_nested_join(node: exp.Expr, select: exp.Select) -> bool:
    """Whether a node is in FROM, in a join inside another item: FROM a JOIN b JOIN c ON <here> ON ..."""
    argument, part = _clause(node, select)
    if argument != "joins":
        return argument == "from_"
    while node.parent is not part:
        assert node.parent is not None
        node = node.parent
    return node.arg_key == "this" and not isinstance(node, exp.Lateral)


def _is_call_of_star(star: exp.Star) -> bool:
    """Whether * is an argument of a function other than count(*)."""
    parent = star.parent
    return isinstance(parent, exp.Anonymous) and parent.name.lower() != "count"


def _column(name: str, table: str | None = None) -> exp.Column:
    return exp.column(name, table=table, quoted=True)


def _has_aggregate(clause: exp.Expr) -> bool:
    """Whether a clause has an aggregate of its own, not in a subquery."""
    return functions.has_aggregate(clause.transform(lambda n: exp.Null() if isinstance(n, exp.Query) else n))


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(condition, exp.And):
        yield from _conjuncts(condition.this)
        yield from _conjuncts(condition.expression)
    else:
        yield condition


def _all(conditions: Sequence[exp.Expr]) -> exp.Expr:
    first, *rest = (exp.Paren(this=c) if isinstance(c, exp.Or) else c for c in conditions)
    for condition in rest:
        first = exp.And(this=first, expression=condition)
    return first


def _add_conditions(select: exp.Select, conditions: Sequence[exp.Expr]) -> None:
    where = select.args.get("where")
    present = [] if where is None else [where.this]
    select.set("where", exp.Where(this=_all([*present, *conditions])))
