"""The plan: immutable nodes, each a relation and the operator that makes it.

Columns are known by position. Inside an expression, column `i` of the node's input is written `_i`;
expressions are Spark SQL text over those names. So two views that say the same under other aliases
have equal nodes, and equal nodes have equal fingerprints: that is all that sharing needs.

`key` is a set of output positions that is unique in the relation (None: the relation is a bag).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, get_type_hints

import msgspec

from tailrace.errors import TailraceError
from tailrace.types import Column

JoinKind = Literal["inner", "left", "right", "full", "semi", "anti"]
Key = tuple[int, ...]
Order = tuple[tuple[int, bool, bool], ...]  # position, ascending, NULLs first


class PlanError(TailraceError):
    """A node that contradicts itself: a fault of Tailrace, not of the user's SQL."""

    template = "inconsistent plan: {message}"


@dataclass(frozen=True)
class Node:
    """A relation. Subclasses give `inputs`, `columns` and `key`."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(getattr(self, name) for name in _INPUTS[type(self)])

    @property
    def columns(self) -> tuple[Column, ...]:
        raise NotImplementedError

    @property
    def key(self) -> Key | None:
        raise NotImplementedError

    @cached_property
    def fingerprint(self) -> str:
        """Equal for equal relations whatever their columns and aliases are called."""
        parts = [type(self).__name__, self._identity(), *(i.fingerprint for i in self.inputs)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]

    def _identity(self) -> list[Any]:
        raise NotImplementedError

    def _require(self, positions: tuple[int, ...], of: Node) -> None:
        if any(not 0 <= p < len(of.columns) for p in positions):
            raise PlanError(message=f"{type(self).__name__} refers to {positions} of {len(of.columns)} columns")


_INPUT = {"input": True}


@dataclass(frozen=True)
class Scan(Node):
    """Columns of a base table; `positions` are those of the table that are read.

    `colocated`: the store places rows on nodes by the hash of their primary key, as shards are placed.
    """

    table: str
    table_id: int
    table_columns: tuple[Column, ...]
    table_key: Key
    positions: tuple[int, ...]
    colocated: bool = True

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(self.table_columns[p] for p in self.positions)

    @cached_property
    def key(self) -> Key | None:
        return _mapped(self.table_key, {p: i for i, p in reversed(list(enumerate(self.positions)))})

    def _identity(self) -> list[Any]:
        return [self.table_id, self.positions]


@dataclass(frozen=True)
class OneRow(Node):
    """One row without columns: what constants are computed from. It never changes."""

    @property
    def columns(self) -> tuple[Column, ...]:
        return ()

    @property
    def key(self) -> Key | None:
        return ()

    def _identity(self) -> list[Any]:
        return []


@dataclass(frozen=True)
class Filter(Node):
    """Rows for which `condition` is true."""

    input: Node = field(metadata=_INPUT)
    condition: str

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns

    @property
    def key(self) -> Key | None:
        return self.input.key

    def _identity(self) -> list[Any]:
        return [self.condition]


@dataclass(frozen=True)
class Project(Node):
    """One expression over the input's row for each output column."""

    input: Node = field(metadata=_INPUT)
    expressions: tuple[str, ...]
    output: tuple[Column, ...]

    def __post_init__(self) -> None:
        if len(self.expressions) != len(self.output):
            raise PlanError(message="a projection needs a name and type for each expression")

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.output

    @cached_property
    def key(self) -> Key | None:
        if self.input.key is None:
            return None
        kept: dict[int, int] = {}
        for position, expression in enumerate(self.expressions):
            source = column_of(expression)
            if source is not None:
                kept.setdefault(source, position)
        return _mapped(self.input.key, kept)

    def _identity(self) -> list[Any]:
        return [self.expressions, [c.type for c in self.output]]


@dataclass(frozen=True)
class Generate(Node):
    """Each input row beside every row that `generator` (explode, inline, stack, ...) makes of it.

    `output` are the generated columns. `unique` are positions among these that tell the rows made of one input
    row apart (None: there may be equal ones).
    """

    input: Node = field(metadata=_INPUT)
    generator: str
    output: tuple[Column, ...]
    unique: Key | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns + self.output

    @cached_property
    def key(self) -> Key | None:
        if self.input.key is None or self.unique is None:
            return None
        return self.input.key + tuple(len(self.input.columns) + p for p in self.unique)

    def _identity(self) -> list[Any]:
        return [self.generator, [c.type for c in self.output], self.unique]


@dataclass(frozen=True)
class Join(Node):
    """Rows of both sides whose `left_on` and `right_on` columns are equal, and what `kind` adds.

    With no columns to be equal it is the cross product. `null_safe[i]` makes the i-th equality `<=>`.
    A semi or anti join has the left side's columns only. `condition` is what a pair must fulfil besides, over the
    columns of both sides; an inner join has a Filter instead (see `physical/lower.py` for how it is maintained).
    """

    left: Node = field(metadata=_INPUT)
    right: Node = field(metadata=_INPUT)
    kind: JoinKind
    left_on: tuple[int, ...]
    right_on: tuple[int, ...]
    null_safe: tuple[bool, ...]
    condition: str | None = None

    def __post_init__(self) -> None:
        if self.condition is not None and self.kind == "inner":
            raise PlanError(message="an inner join has no condition but its keys")
        self._require(self.left_on, self.left)
        self._require(self.right_on, self.right)
        if not len(self.left_on) == len(self.right_on) == len(self.null_safe):
            raise PlanError(message="join keys of different length")

    @property
    def columns(self) -> tuple[Column, ...]:
        if self.kind in ("semi", "anti"):
            return self.left.columns
        return self.left.columns + self.right.columns

    @cached_property
    def key(self) -> Key | None:
        left, right = self.left.key, self.right.key
        if self.kind in ("semi", "anti"):
            return left
        if left is None or right is None:
            return None
        if self.kind in ("inner", "left") and set(right) <= set(self.right_on):
            return left
        if self.kind in ("inner", "right") and set(left) <= set(self.left_on):
            return tuple(len(self.left.columns) + p for p in right)
        if self.kind == "full" and not (_never_null(self.left) or _never_null(self.right)):
            return None  # an unmatched row of either side could be all NULL in both keys
        return left + tuple(len(self.left.columns) + p for p in right)

    def _identity(self) -> list[Any]:
        identity = [self.kind, self.left_on, self.right_on, self.null_safe]
        return identity if self.condition is None else [*identity, self.condition]


@dataclass(frozen=True)
class Call:
    """One aggregate: Spark's function over input positions, and the type Spark gives it.

    `sql` is the whole call over `_i` names, as Spark runs it: `SUM(_3)`, `COUNT(DISTINCT _1)`, `COUNT(*)`.
    """

    function: str
    args: tuple[int, ...]
    distinct: bool
    sql: str
    type: str


@dataclass(frozen=True)
class Aggregate(Node):
    """One row per distinct value of the `groups` columns (one row in all, always, when there are none).

    Output: the group columns, then one column per call. No calls at all is SELECT DISTINCT.
    """

    input: Node = field(metadata=_INPUT)
    groups: tuple[int, ...]
    calls: tuple[Call, ...]

    def __post_init__(self) -> None:
        self._require(self.groups, self.input)
        for call in self.calls:
            self._require(call.args, self.input)

    @property
    def columns(self) -> tuple[Column, ...]:
        groups = tuple(self.input.columns[p] for p in self.groups)
        return groups + tuple(Column(c.sql.lower(), c.type) for c in self.calls)

    @property
    def key(self) -> Key | None:
        return tuple(range(len(self.groups)))

    def _identity(self) -> list[Any]:
        return [self.groups, [[c.sql, c.type] for c in self.calls]]


@dataclass(frozen=True)
class UnionAll(Node):
    """The rows of all branches, duplicates kept. Branches have the same types.

    `unique` is a key that whoever made the branches knows of.
    """

    branches: tuple[Node, ...]
    unique: Key | None = None

    def __post_init__(self) -> None:
        if len({tuple(c.type for c in b.columns) for b in self.branches}) != 1:
            raise PlanError(message="UNION ALL of different types")

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.branches

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.branches[0].columns

    @property
    def key(self) -> Key | None:
        return self.unique

    def _identity(self) -> list[Any]:
        return [] if self.unique is None else [self.unique]


@dataclass(frozen=True)
class WindowCall:
    """One window function over input positions: `sql` is the call, `frame` what follows ORDER BY in its OVER."""

    function: str
    args: tuple[int, ...]
    sql: str
    frame: str
    type: str


@dataclass(frozen=True)
class Window(Node):
    """The input's columns, and one more per call: its value over the row's partition, in `order`.

    What the order leaves open, functions that look at single rows see in the order of `ties` (see `order.py`).
    """

    input: Node = field(metadata=_INPUT)
    partition: tuple[int, ...]
    order: Order
    calls: tuple[WindowCall, ...]

    def __post_init__(self) -> None:
        self._require(self.partition, self.input)
        self._require(tuple(p for p, _, _ in self.order), self.input)
        for call in self.calls:
            self._require(call.args, self.input)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns + tuple(Column(c.sql.lower(), c.type) for c in self.calls)

    @property
    def key(self) -> Key | None:
        return self.input.key

    def _identity(self) -> list[Any]:
        return [self.partition, self.order, [[c.sql, c.frame, c.type] for c in self.calls]]


@dataclass(frozen=True)
class TopK(Node):
    """Of each partition the rows from `offset` on, `limit` of them (None: all), in `order`, then by `ties`.

    `numbered` appends each row's number in its partition, from 1.
    """

    input: Node = field(metadata=_INPUT)
    partition: tuple[int, ...]
    order: Order
    offset: int
    limit: int | None
    numbered: bool

    def __post_init__(self) -> None:
        self._require(self.partition, self.input)
        self._require(tuple(p for p, _, _ in self.order), self.input)
        if self.numbered and self.limit is None:
            raise PlanError(message="every number of a partition may change: a Window, not a TopK")

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns + ((Column("row_number()", "int"),) if self.numbered else ())

    @property
    def key(self) -> Key | None:
        if self.input.key is not None or not self.numbered:
            return self.input.key
        return (*self.partition, len(self.input.columns))

    def _identity(self) -> list[Any]:
        return [self.partition, self.order, self.offset, self.limit, self.numbered]


KINDS: dict[str, type[Node]] = {
    k.__name__: k for k in (Scan, OneRow, Filter, Project, Generate, Join, Aggregate, UnionAll, Window, TopK)
}


def column_of(expression: str) -> int | None:
    """The position an expression merely copies: 3 for `_3`, None for anything more."""
    return int(expression[1:]) if expression[:1] == "_" and expression[1:].isdigit() else None


def _never_null(node: Node) -> bool:
    """Whether the node's key has columns and none of them is ever NULL: it is made of primary keys."""
    match node:
        case Scan():
            return True
        case Filter(source) | Project(source) | Window(source):
            return _never_null(source)
        case TopK(source):
            return source.key is not None and _never_null(source)
        case Join(left, right, kind):
            return _never_null(left) and (kind in ("semi", "anti") or (kind == "inner" and _never_null(right)))
    return False


def _mapped(key: Key, positions: dict[int, int]) -> Key | None:
    return tuple(positions[p] for p in key) if all(p in positions for p in key) else None


def walk(node: Node) -> Iterator[Node]:
    """Inputs before the nodes that use them; a node shared by two users comes twice."""
    for child in node.inputs:
        yield from walk(child)
    yield node


def map_inputs(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node over changed inputs; the node itself if no input changes."""
    inputs = [change(child) for child in node.inputs]
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
        return node
    if isinstance(node, UnionAll):
        return replace(node, branches=tuple(inputs))
    changes: dict[str, Any] = dict(zip(_INPUTS[type(node)], inputs, strict=True))
    return replace(node, **changes)


def tables(root: Node) -> frozenset[int]:
    """The ids of all tables that a plan reads."""
    return frozenset(n.table_id for n in walk(root) if isinstance(n, Scan))


def to_json(value: Any) -> Any:
    """A node as JSON values; `from_json` gives an equal node back."""
    if isinstance(value, Node | Call | WindowCall):
        return {"node": type(value).__name__} | {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Column):
        return [value.name, value.type]
    if isinstance(value, tuple):
        return [to_json(v) for v in value]
    return value


def from_json(value: Any) -> Node:
    """The node that `to_json` wrote; `ValueError` says what is wrong with the value."""
    name = value.get("node") if isinstance(value, dict) else None
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"no plan node is called {str(name)[:40]!r}")
    inputs: dict[str, Any] = {n: from_json(value[n]) for n in _INPUTS[kind]}
    if kind is UnionAll:
        inputs = {"branches": tuple(from_json(v) for v in msgspec.convert(value["branches"], list[Any]))}
    rest = {n: v for n, v in value.items() if n != "node" and n not in inputs}
    checked = msgspec.convert(rest, _PARAMETERS[kind])
    return kind(**inputs, **{n: getattr(checked, n) for n in checked.__struct_fields__})


def _parameters(kind: type[Node]) -> type[msgspec.Struct]:
    """The fields of a kind of node that are not its inputs, as msgspec validates them."""
    hints = get_type_hints(kind)
    own = [f for f in fields(kind) if f.name not in _input_fields(kind) and f.name != "branches"]
    listed = [(f.name, hints[f.name]) if f.default is MISSING else (f.name, hints[f.name], f.default) for f in own]
    return msgspec.defstruct(kind.__name__, listed, forbid_unknown_fields=True, kw_only=True)


def _input_fields(kind: type[Node]) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind) if f.metadata.get("input"))


_PARAMETERS = {kind: _parameters(kind) for kind in KINDS.values()}
_INPUTS = {kind: _input_fields(kind) for kind in KINDS.values()}
