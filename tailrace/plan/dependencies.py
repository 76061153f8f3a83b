"""Functional dependencies: which columns of a relation determine its rows, whatever the tables hold.

    table with key k             k → row                    row → every column
    filter a = f(b)              b → a                      a = constant:  → a
    inner join a = b             a → b, b → a               (left row, right row) → row
    left join a = b              a → right row, if b is the key of the right side
    GROUP BY a, b                (a, b) → row               what a and b determine below stays true above
    row_number() = n by a        (a, n) → row
    UNION ALL                    nothing

Every column and every row of each node is a variable; an operator that copies a column uses the same one. A relation
has at most one row for given values of some columns if these determine its row.

Values are equal here as in a GROUP BY: 0.0 and -0.0 are one value. So an expression over a DOUBLE or FLOAT is not
determined by it: `CAST(x AS STRING)` tells the two zeros apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import NamedTuple

from tailrace.plan.expressions import conjuncts, equality, refs
from tailrace.plan.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
    Key,
    Node,
    Project,
    TopK,
    Window,
    column_of,
)
from tailrace.plan.typing import Types
from tailrace.types import INTEGERS, Column, is_scalar


def has_at_most_one_row(node: Node, fixed: Iterable[int], types: Types) -> bool:
    """Whether there is at most one row for given values of the `fixed` columns."""
    return _Dependencies(node, types).determine_row(fixed)


def smallest_key(root: Node, types: Types) -> Key | None:
    """The key of a view: leading columns that determine its rows, none of which can be left out.

    A view whose plan has a key uses some of its columns. At least one is kept, even if it is the same in all rows: a
    read by key has a value to give. None if even all columns together may be equal in two rows.
    """
    dependencies = _Dependencies(root, types)
    key = root.key
    if key is None:
        key = tuple(i for i, c in enumerate(root.columns) if is_scalar(c.type))
        if not key or not dependencies.determine_row(key):
            return None
    for position in reversed(key):
        others = tuple(p for p in key if p != position)
        if others and dependencies.determine_row(others):
            key = others
    return key


class _Relation(NamedTuple):
    """The variables of a node: one for its row, one for each column."""

    row: int
    columns: list[int]

    def at(self, positions: Iterable[int]) -> list[int]:
        return [self.columns[p] for p in positions]


class _Dependencies:
    """The dependencies between all variables of a plan."""

    def __init__(self, root: Node, types: Types) -> None:
        self._types, self._numbers = types, count()
        self._sizes: list[int] = []  # of each dependency: how many variables it needs
        self._gives: list[list[int]] = []  # the variables that it determines
        self._needed_by: dict[int, list[int]] = {}  # variable: the dependencies that need it
        self._always = self._new()  # determined from the start
        self._root = self._relation(root, self._always)

    def determine_row(self, positions: Iterable[int]) -> bool:
        """Whether these columns determine the root's row."""
        known = {self._always, *self._root.at(positions)}
        missing, waiting = self._sizes.copy(), list(known)
        while waiting:
            for number in self._needed_by.get(waiting.pop(), ()):
                missing[number] -= 1
                new = [v for v in self._gives[number] if v not in known] if not missing[number] else []
                known.update(new)
                waiting += new
        return self._root.row in known

    def _new(self) -> int:
        return next(self._numbers)

    def _add(self, needs: Iterable[int], gives: Sequence[int]) -> None:
        distinct = set(needs)
        for variable in distinct:
            self._needed_by.setdefault(variable, []).append(len(self._sizes))
        self._sizes.append(len(distinct))
        self._gives.append(list(gives))

    def _relation(self, node: Node, present: int) -> _Relation:
        """Adds a node's dependencies. A constant depends on `present`, because an outer join may pad it with NULL."""
        relation = self._operator(node, present)
        self._add([relation.row], relation.columns)
        if node.key is not None:
            self._add([present, *relation.at(node.key)], [relation.row])
        return relation

    def _operator(self, node: Node, present: int) -> _Relation:
        match node:
            case Filter(source, condition):
                relation = self._relation(source, present)
                for part in conjuncts(condition):
                    self._equate(part, source.columns, relation, present)
                return relation
            case Project():
                return self._project(node, present)
            case Generate(source):
                below = self._relation(source, present)
                generated = self._above(below.columns, len(node.output), [below.row])
                if node.unique is not None:
                    made = generated.at(len(below.columns) + p for p in node.unique)
                    self._add([below.row, *made], [generated.row])
                return generated
            case Join():
                return self._join(node, present)
            case Aggregate(source, groups, calls):
                return self._above(self._relation(source, present).at(groups), len(calls), [])
            case Window() | TopK():
                return self._number(node, present)
        return self._above([], len(node.columns), [])  # Scan, OneRow, UnionAll: only their keys are known

    def _above(self, copied: list[int], new: int, determined: list[int]) -> _Relation:
        """A relation with copied and new columns, whose row determines those and further variables."""
        row = self._new()
        self._add([row], determined)
        return _Relation(row, copied + [self._new() for _ in range(new)])

    def _project(self, node: Project, present: int) -> _Relation:
        below = self._relation(node.input, present)
        columns = []
        for expression in node.expressions:
            copied = column_of(expression)
            columns.append(self._new() if copied is None else below.columns[copied])
            if copied is None and _is_exact(expression, node.input.columns):
                self._add([present, *below.at(refs(expression))], columns[-1:])
        return _Relation(below.row, columns)

    def _equate(self, condition: str, columns: Sequence[Column], relation: _Relation, present: int) -> None:
        """An equality of a column with a constant or with other columns determines it."""
        sides = equality(condition)
        for side, other in () if sides is None else (sides[:2], sides[1::-1]):
            position = column_of(side)
            if position is None or not _is_exact(other, columns):
                continue
            kind, (other_kind,) = columns[position].type, self._types.of(columns, [other])
            common = self._types.compared(kind, other_kind)
            # Not if the column is cast to compare it: a string column may hold '1' and '01', and both equal 1.
            if common == kind or (kind in INTEGERS and common in INTEGERS):
                self._add([present, *relation.at(refs(other))], [relation.columns[position]])

    def _number(self, node: Window | TopK, present: int) -> _Relation:
        below = self._relation(node.input, present)
        columns = below.columns + [self._new() for _ in range(len(node.columns) - len(below.columns))]
        partition = [present, *below.at(node.partition)]
        if isinstance(node, Window):
            numbers = (i for i, c in enumerate(node.calls, len(below.columns)) if c.function == "row_number")
            for number in numbers:
                self._add([*partition, columns[number]], [below.row])
        elif node.numbered:
            self._add([*partition, columns[-1]], [below.row])
        if isinstance(node, TopK) and node.limit is not None and node.limit <= 1:
            self._add(partition, [below.row])
        return _Relation(below.row, columns)

    def _join(self, node: Join, present: int) -> _Relation:
        if node.kind in ("semi", "anti"):
            return self._relation(node.left, present)
        pads_left, pads_right = node.kind in ("right", "full"), node.kind in ("left", "full")
        # Whether there is a match determines the constants of a side that may be padded.
        left_present = self._new() if pads_left else present
        right_present = self._new() if pads_right else present
        left, right = self._relation(node.left, left_present), self._relation(node.right, right_present)
        width, condition = len(node.left.columns), node.condition or "TRUE"
        compared = refs(condition)
        is_exact = _is_exact(condition, node.left.columns + node.right.columns)
        if not pads_left and is_exact:
            read = [*left.at(node.left_on), *left.at(p for p in compared if p < width)]
            self._match([present, *read], right_present, left.at(node.left_on), right.at(node.right_on))
        if not pads_right and is_exact:
            read = [*right.at(node.right_on), *right.at(p - width for p in compared if p >= width)]
            self._match([present, *read], left_present, right.at(node.right_on), left.at(node.left_on))
        columns = (self._pad(left) if pads_left else left.columns) + (self._pad(right) if pads_right else right.columns)
        joined = self._above(columns, 0, [left.row, right.row])
        self._add([left.row, right.row], [joined.row])
        return joined

    def _match(self, read: list[int], matched: int, on: list[int], other_on: list[int]) -> None:
        """For a side whose rows are all kept: what the join reads of a row decides whether it has a match.

        If it has one, each of its join columns determines that of the match.
        """
        self._add(read, [matched])
        for variable, other in zip(on, other_on, strict=True):
            self._add([matched, variable], [other])

    def _pad(self, side: _Relation) -> list[int]:
        """The columns of a side that may be NULL because there is no match."""
        padded = [self._new() for _ in side.columns]
        for inner, outer in zip(side.columns, padded, strict=True):
            self._add([inner], [outer])
        return padded


def _is_exact(expression: str, columns: Sequence[Column]) -> bool:
    """Whether equal values of the columns that an expression reads give equal values of the expression."""
    kinds = [columns[p].type for p in refs(expression)]
    return column_of(expression) is not None or not any("double" in kind or "float" in kind for kind in kinds)
