"""Plans ROLLUP, CUBE and GROUPING SETS: several groupings of the same rows.

    ROLLUP (a, b)   = GROUPING SETS ((a, b), (a), ())        CUBE (a, b) = GROUPING SETS ((a, b), (a), (b), ())
    GROUP BY x, S   = every set of S, plus x                 GROUP BY S, T = every set of S plus every set of T

A Generate copies each row once per set and adds the number of the set. Columns outside the set become NULL. The
Aggregate groups by all these columns and the set's number, which keeps a NULL value of a column apart from a NULL that
means "not in this set".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product

from sqlglot import exp

from tailrace.delta import column
from tailrace.plan.expressions import parse_expr
from tailrace.plan.nodes import Generate, Node, Project
from tailrace.plan.sql.dialect import generate
from tailrace.plan.sql.refuse import unsupported
from tailrace.types import Column

GROUPING = ("grouping", "grouping_id")
_MAX_SETS = 4096
_HIVE_NAME = "grouping__id"  # Hive's name of grouping_id(), which Spark also accepts
_ExprSet = tuple[exp.Expr, ...]
_ANALYTIC = (exp.Rollup, exp.Cube, exp.GroupingSets)


def has_sets(group: exp.Expr) -> bool:
    return any(group.args.get(k) for k in ("rollup", "cube", "grouping_sets")) or any(
        isinstance(e, _ANALYTIC) for e in group.expressions
    )


def read_sets(group: exp.Expr) -> tuple[list[exp.Expr], list[_ExprSet]]:
    """The expressions of GROUP BY in the bit order of grouping_id(), and the grouping sets over them."""
    elements = group.expressions
    for kind, sets_of in (("rollup", _rollup), ("cube", _cube)):
        if group.args.get(kind):  # GROUP BY a, b WITH ROLLUP
            return elements, list(sets_of([_members(e) for e in elements]))
    if group.args.get("grouping_sets"):  # GROUP BY a, b GROUPING SETS (...)
        return elements, [s for e in group.args["grouping_sets"] for s in _sets_of(e)]
    parts = [list(_sets_of(e)) for e in elements]
    count = 1
    for part in parts:
        count *= len(part)
    if count > _MAX_SETS:
        raise unsupported(f"GROUP BY with {count} grouping sets", group, f"the limit is {_MAX_SETS}")
    members = [member for e in elements for member in _leaves(e)]
    return members, [tuple(chain(*chosen)) for chosen in product(*parts)]


def _sets_of(tree: exp.Expr) -> Iterator[_ExprSet]:
    """The grouping sets of one element of GROUP BY."""
    if isinstance(tree, exp.Rollup):
        yield from _rollup([_members(e) for e in tree.expressions])
    elif isinstance(tree, exp.Cube):
        yield from _cube([_members(e) for e in tree.expressions])
    elif isinstance(tree, exp.GroupingSets):
        for element in tree.expressions:
            yield from _sets_of(element) if isinstance(element, _ANALYTIC) else (_members(element),)
    else:
        yield (tree,)


def _rollup(members: Sequence[_ExprSet]) -> Iterator[_ExprSet]:
    for length in range(len(members), -1, -1):
        yield tuple(chain(*members[:length]))


def _cube(members: Sequence[_ExprSet]) -> Iterator[_ExprSet]:
    for length in range(len(members), -1, -1):
        for chosen in combinations(members, length):
            yield tuple(chain(*chosen))


def _members(tree: exp.Expr) -> _ExprSet:
    """The expressions of one element of ROLLUP, CUBE or GROUPING SETS; (a, b) has two that stay together."""
    return tuple(tree.expressions) if isinstance(tree, exp.Tuple) else (tree.unnest(),)


def _leaves(tree: exp.Expr) -> Iterator[exp.Expr]:
    """All expressions of one element of GROUP BY."""
    if isinstance(tree, _ANALYTIC):
        for element in tree.expressions:
            yield from _leaves(element) if isinstance(element, _ANALYTIC) else _members(element)
    else:
        yield tree


@dataclass(frozen=True)
class GroupingSets:
    """Grouping sets over `count` group columns. Each member is a set of column indices."""

    count: int
    members: tuple[frozenset[int], ...]

    @property
    def ids(self) -> list[int]:
        """grouping_id() of each set: one bit per column, first column highest, 1 if the column is not in the set."""
        return [sum(1 << (self.count - 1 - i) for i in range(self.count) if i not in s) for s in self.members]

    @property
    def numbers(self) -> list[int]:
        """A unique number for each set: its grouping_id(), or its index if any grouping_id() occurs twice."""
        ids = self.ids
        return ids if len(set(ids)) == len(ids) else list(range(len(ids)))

    def expand(self, node: Node) -> Node:
        """Copies each row of `node` once per set. The first columns of `node` must be the group columns.

        Output: the group columns (NULL if not in the set), the number of the set, all columns of `node`.
        """
        width = len(node.columns)
        numbers = ", ".join(f"{n}L" for n in self.numbers)
        number_column = Column("grouping_id", "bigint")
        copies = Generate(node, generate(parse_expr(f"EXPLODE(ARRAY({numbers}))")), (number_column,), (0,))
        groups = [self._group_expression(i, column(width)) for i in range(self.count)]
        expressions = (*groups, column(width), *(column(i) for i in range(width)))
        return Project(copies, expressions, (*node.columns[: self.count], number_column, *node.columns))

    def _group_expression(self, index: int, number: str) -> str:
        """SQL of a group column: NULL in rows of sets without it."""
        containing = [n for n, members in zip(self.numbers, self.members, strict=True) if index in members]
        if len(containing) == len(self.members):
            return column(index)
        numbers = ", ".join(f"{n}L" for n in containing)
        return generate(parse_expr(f"CASE WHEN {number} IN ({numbers}) THEN {column(index)} END"))

    def grouping_id(self) -> str:
        """SQL of grouping_id() over the Aggregate's output, where the set's number follows the group columns."""
        number = column(self.count)
        if self.numbers == self.ids:
            return number
        whens = " ".join(f"WHEN {n}L THEN {i}L" for n, i in zip(self.numbers, self.ids, strict=True))
        return f"CASE {number} {whens} END"

    def grouping(self, index: int) -> str:
        """SQL of grouping(column): 1 if the column is not in the row's set, else 0."""
        shift = self.count - 1 - index
        return f"CAST(SHIFTRIGHT({self.grouping_id()}, {shift}) & 1L AS TINYINT)"


def replace_hive_name(tree: exp.Expr, is_column: Callable[[exp.Column], bool]) -> exp.Expr:
    """Replaces Hive's `grouping__id` by a call of grouping_id()."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.name.lower() == _HIVE_NAME and not node.table and not is_column(node):
            return exp.Anonymous(this="grouping_id", expressions=[])
        return node

    return tree.transform(rewrite)
