"""ROLLUP, CUBE and GROUPING SETS: several groupings of the same rows at once.

    ROLLUP (a, b)   = GROUPING SETS ((a, b), (a), ())        CUBE (a, b) = GROUPING SETS ((a, b), (a), (b), ())
    GROUP BY x, S   = every set of S with x in it            GROUP BY S, T = every set of S with every set of T

Each row is taken once per set (a Generate of the sets' numbers), the columns that are not of the set are made NULL,
and the aggregate is grouped by all of them and the number: a NULL of a column's own and one of the set stay apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product

from sqlglot import exp

from tailrace.delta import column
from tailrace.plan.sql.dialect import generate
from tailrace.plan.expressions import parse_expr
from tailrace.plan.nodes import Generate, Node, Project
from tailrace.plan.sql.refuse import unsupported
from tailrace.types import Column

GROUPING = ("grouping", "grouping_id")
_MOST = 4096
_HIVE = "grouping__id"  # what Hive calls grouping_id(), and Spark knows too
_Set = tuple[exp.Expr, ...]
_ANALYTIC = (exp.Rollup, exp.Cube, exp.GroupingSets)


def has_sets(group: exp.Expr) -> bool:
    return any(group.args.get(k) for k in ("rollup", "cube", "grouping_sets")) or any(
        isinstance(e, _ANALYTIC) for e in group.expressions
    )


def read_sets(group: exp.Expr) -> tuple[list[exp.Expr], list[_Set]]:
    """The expressions of GROUP BY in the order that grouping_id() counts them, and the sets of them."""
    plain = group.expressions
    for kind, sets_of in (("rollup", _rollup), ("cube", _cube)):
        if group.args.get(kind):  # GROUP BY a, b WITH ROLLUP
            return plain, list(sets_of([_members(e) for e in plain]))
    if group.args.get("grouping_sets"):  # GROUP BY a, b GROUPING SETS (...)
        return plain, [s for e in group.args["grouping_sets"] for s in _sets(e)]
    parts = [list(_sets(e)) for e in plain]
    count = 1
    for part in parts:
        count *= len(part)
    if count > _MOST:
        raise unsupported(f"GROUP BY with {count} grouping sets", group, f"at most {_MOST} are maintained")
    members = [member for e in plain for member in _leaves(e)]
    return members, [tuple(chain(*chosen)) for chosen in product(*parts)]


def _sets(tree: exp.Expr) -> Iterator[_Set]:
    """The sets that one element of GROUP BY stands for."""
    if isinstance(tree, exp.Rollup):
        yield from _rollup([_members(e) for e in tree.expressions])
    elif isinstance(tree, exp.Cube):
        yield from _cube([_members(e) for e in tree.expressions])
    elif isinstance(tree, exp.GroupingSets):
        for element in tree.expressions:
            yield from _sets(element) if isinstance(element, _ANALYTIC) else (_members(element),)
    else:
        yield (tree,)


def _rollup(members: Sequence[_Set]) -> Iterator[_Set]:
    for length in range(len(members), -1, -1):
        yield tuple(chain(*members[:length]))


def _cube(members: Sequence[_Set]) -> Iterator[_Set]:
    for length in range(len(members), -1, -1):
        for chosen in combinations(members, length):
            yield tuple(chain(*chosen))


def _members(tree: exp.Expr) -> _Set:
    """(a, b) within ROLLUP, CUBE or GROUPING SETS is a and b together."""
    return tuple(tree.expressions) if isinstance(tree, exp.Tuple) else (tree.unnest(),)


def _leaves(tree: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(tree, _ANALYTIC):
        for element in tree.expressions:
            yield from _leaves(element) if isinstance(element, _ANALYTIC) else _members(element)
    else:
        yield tree


@dataclass(frozen=True)
class Sets:
    """Grouping sets as sets of indices of the `count` group columns."""

    count: int
    members: tuple[frozenset[int], ...]

    @property
    def ids(self) -> list[int]:
        """grouping_id() of each set: a bit per column, the first one's the highest, 1 where it is not of the set."""
        places = range(self.count)
        return [sum(1 << (self.count - 1 - i) for i in places if i not in s) for s in self.members]

    @property
    def numbers(self) -> list[int]:
        """What each set is known by: its grouping_id(), unless a set is there twice."""
        ids = self.ids
        return ids if len(set(ids)) == len(ids) else list(range(len(ids)))

    def applied(self, node: Node) -> Node:
        """Over a node whose first columns are the group columns: these as each set has them, the number of the set,
        and all columns of the node."""
        width = len(node.columns)
        listed = ", ".join(f"{n}L" for n in self.numbers)
        number = Column("grouping_id", "bigint")
        each = Generate(node, generate(parse_expr(f"EXPLODE(ARRAY({listed}))")), (number,), (0,))
        grouped = [self._of_set(i, column(width)) for i in range(self.count)]
        expressions = (*grouped, column(width), *(column(i) for i in range(width)))
        return Project(each, expressions, (*node.columns[: self.count], number, *node.columns))

    def _of_set(self, index: int, number: str) -> str:
        having = [n for n, members in zip(self.numbers, self.members, strict=True) if index in members]
        if len(having) == len(self.members):
            return column(index)
        listed = ", ".join(f"{n}L" for n in having)
        return generate(parse_expr(f"CASE WHEN {number} IN ({listed}) THEN {column(index)} END"))

    def grouping_id(self) -> str:
        """SQL of grouping_id() over the aggregate's output, where the number follows the group columns."""
        number = column(self.count)
        if self.numbers == self.ids:
            return number
        whens = " ".join(f"WHEN {n}L THEN {i}L" for n, i in zip(self.numbers, self.ids, strict=True))
        return f"CASE {number} {whens} END"

    def grouping(self, index: int) -> str:
        """SQL of grouping(column): 1 where the column is not of the row's set."""
        shift = self.count - 1 - index
        return f"CAST(SHIFTRIGHT({self.grouping_id()}, {shift}) & 1L AS TINYINT)"


def with_calls(tree: exp.Expr, is_column: Callable[[exp.Column], bool]) -> exp.Expr:
    """Hive's `grouping__id` as a call of grouping_id()."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.name.lower() == _HIVE and not node.table and not is_column(node):
            return exp.Anonymous(this="grouping_id", expressions=[])
        return node

    return tree.transform(rewrite)
