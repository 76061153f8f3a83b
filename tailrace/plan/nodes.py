"""The nodes of a plan: immutable operators, each of which defines a relation.

Columns are identified by position. Expressions are Spark SQL text, in which `_i` is column `i` of the node's input. So
equal queries with different aliases have equal nodes, and equal nodes have equal fingerprints: views share states by
fingerprint.

`key` are output positions whose values are unique in the relation (None: the relation is a bag).
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
    """An inconsistent node: a bug in Tailrace, not in the user's SQL."""

    template = "inconsistent plan: {message}"


@dataclass(frozen=True)
class Node:
    """A relation. Subclasses define `columns`, `key` and `_identity`."""

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
        """Equal for equal relations; independent of column names and aliases."""
        parts = [type(self).__name__, self._identity(), *(i.fingerprint for i in self.inputs)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]

    def _identity(self) -> list[Any]:
        """The parameters that, with the inputs, determine the relation."""
        raise NotImplementedError

    def _require(self, positions: tuple[int, ...], of: Node) -> None:
        """Raises PlanError unless all positions exist in `of`."""
        if any(not 0 <= p < len(of.columns) for p in positions):
            raise PlanError(message=f"{type(self).__name__} refers to {positions} of {len(of.columns)} columns")


_INPUT = {"input": True}


@dataclass(frozen=True)
class Scan(Node):
    """The columns of a table at `positions`.

    `colocated`: the store assigns rows to nodes by the hash of their primary key, which also assigns shards.
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
        return _map_key(self.table_key, {p: i for i, p in reversed(list(enumerate(self.positions)))})

    def _identity(self) -> list[Any]:
        return [self.table_id, self.positions]


@dataclass(frozen=True)
class OneRow(Node):
    """One row without columns: the input of constant relations. It never changes."""

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
    """The rows for which `condition` is true."""

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
    """Computes each output column by an expression over the input row."""

    input: Node = field(metadata=_INPUT)
    expressions: tuple[str, ...]
    output: tuple[Column, ...]

    def __post_init__(self) -> None:
        if len(self.expressions) != len(self.output):
            raise PlanError(message="a projection needs one output column for each expression")

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
        return _map_key(self.input.key, kept)

    def _identity(self) -> list[Any]:
        return [self.expressions, [c.type for c in self.output]]


@dataclass(frozen=True)
class Generate(Node):
    """Each input row combined with every row that `generator` (explode, inline, stack, ...) makes from it.

    `output` are the generated columns. `unique` are positions in `output` that distinguish the rows generated from one
    input row (None: there may be duplicates).
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
    """Pairs of rows whose `left_on` and `right_on` columns are equal; outer, semi and anti joins by `kind`.

    Without join columns it is the cross product. `null_safe[i]` makes the i-th equality `<=>`. A semi or anti join has
    only the columns of the left side. `condition` is a further predicate over the columns of both sides, resolved by
    `physical/lower.py`. An inner join has none: a Filter above it does the same.
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
            raise PlanError(message="an inner join must not have a condition")
        self._require(self.left_on, self.left)
        self._require(self.right_on, self.right)
        if not len(self.left_on) == len(self.right_on) == len(self.null_safe):
            raise PlanError(message="the join keys have different lengths")

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
            return None  # an unmatched row could be NULL in all columns of both keys
        return left + tuple(len(self.left.columns) + p for p in right)

    def _identity(self) -> list[Any]:
        identity = [self.kind, self.left_on, self.right_on, self.null_safe]
        return identity if self.condition is None else [*identity, self.condition]


@dataclass(frozen=True)
class Call:
    """One call of an aggregate function over input positions, and its type in Spark.

    `sql` is the whole call over `_i` names: `SUM(_3)`, `COUNT(DISTINCT _1)`, `COUNT(*)`.
    """

    function: str
    args: tuple[int, ...]
    distinct: bool
    sql: str
    type: str


@dataclass(frozen=True)
class Aggregate(Node):
    """One row per distinct value of the `groups` columns; always exactly one row if `groups` is empty.

    Output: the group columns, then one column per call. Without calls it is SELECT DISTINCT.
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
    """The rows of all branches, with duplicates. All branches have the same types.

    `unique` is the key of the union, given by the code that makes the branches; it cannot be derived from them.
    """

    branches: tuple[Node, ...]
    unique: Key | None = None

    def __post_init__(self) -> None:
        if len({tuple(c.type for c in b.columns) for b in self.branches}) != 1:
            raise PlanError(message="the branches of UNION ALL have different types")

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
    """One call of a window function over input positions: `sql` is the call, `frame` the frame clause of its OVER."""

    function: str
    args: tuple[int, ...]
    sql: str
    frame: str
    type: str


@dataclass(frozen=True)
class Window(Node):
    """The input's columns, then one per call: its value over the row's partition, sorted by `order`.

    Rows that `order` leaves equal are sorted by `ties` (`plan/ties.py`) for functions that depend on single rows.
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
    """The rows of each partition from `offset` on, at most `limit` (None: all), sorted by `order`, then by `ties`.

    `numbered` appends the row number in the partition, starting at 1.
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
            raise PlanError(message="a numbered TopK needs a limit")

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


@dataclass(frozen=True)
class TemporalFilter(Node):
    """The rows that are valid at the time of the epoch: those with from <= time < until.

    The last two columns of the input are these borders (BIGINT, microseconds since 1970, never NULL); they are dropped.
    Only lowered plans have this node (`physical/lower.py`); before, it is a Filter that reads the time.
    """

    input: Node = field(metadata=_INPUT)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.input.columns[:-2]

    @property
    def key(self) -> Key | None:
        return self.input.key

    def _identity(self) -> list[Any]:
        return []


KINDS: dict[str, type[Node]] = {
    k.__name__: k
    for k in (Scan, OneRow, Filter, Project, Generate, Join, Aggregate, UnionAll, Window, TopK, TemporalFilter)
}


def column_of(expression: str) -> int | None:
    """The position of the column that an expression merely copies: 3 for `_3`, None for any other expression."""
    return int(expression[1:]) if expression[:1] == "_" and expression[1:].isdigit() else None


def _never_null(node: Node) -> bool:
    """Whether the node's key is made of primary keys, so that it is not empty and none of its columns is ever NULL."""
    match node:
        case Scan():
            return True
        case Filter(source) | Project(source) | Window(source) | TemporalFilter(source):
            return _never_null(source)
        case TopK(source):
            return source.key is not None and _never_null(source)
        case Join(left, right, kind):
            return _never_null(left) and (kind in ("semi", "anti") or (kind == "inner" and _never_null(right)))
    return False


def _map_key(key: Key, positions: dict[int, int]) -> Key | None:
    """The key at new positions; None if a key column has none."""
    return tuple(positions[p] for p in key) if all(p in positions for p in key) else None


def walk(node: Node) -> Iterator[Node]:
    """All nodes of a plan, inputs first. A node that is the input of two nodes comes twice."""
    for child in node.inputs:
        yield from walk(child)
    yield node


def map_inputs(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with `change` applied to its inputs; the node itself if no input changes."""
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
    """A node as JSON values. `from_json` is the inverse."""
    if isinstance(value, Node | Call | WindowCall):
        return {"node": type(value).__name__} | {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Column):
        return [value.name, value.type]
    if isinstance(value, tuple):
        return [to_json(v) for v in value]
    return value


def from_json(value: Any) -> Node:
    """The node that `to_json` encoded. Raises `ValueError` if the value is invalid."""
    name = value.get("node") if isinstance(value, dict) else None
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"unknown plan node {str(name)[:40]!r}")
    inputs: dict[str, Any] = {n: from_json(value[n]) for n in _INPUTS[kind]}
    if kind is UnionAll:
        inputs = {"branches": tuple(from_json(v) for v in msgspec.convert(value["branches"], list[Any]))}
    rest = {n: v for n, v in value.items() if n != "node" and n not in inputs}
    checked = msgspec.convert(rest, _parameters(kind))
    return kind(**inputs, **{n: getattr(checked, n) for n in checked.__struct_fields__})


def _parameters(kind: type[Node]) -> type[msgspec.Struct]:
    """A msgspec type that validates the fields of a node kind, except its inputs. Created on first use."""
    if kind not in _PARAMETERS:
        _PARAMETERS[kind] = _define_parameters(kind)
    return _PARAMETERS[kind]


def _define_parameters(kind: type[Node]) -> type[msgspec.Struct]:
    hints = get_type_hints(kind)
    own = [f for f in fields(kind) if f.name not in _input_fields(kind) and f.name != "branches"]
    specs = [(f.name, hints[f.name]) if f.default is MISSING else (f.name, hints[f.name], f.default) for f in own]
    return msgspec.defstruct(kind.__name__, specs, forbid_unknown_fields=True, kw_only=True)


def _input_fields(kind: type[Node]) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind) if f.metadata.get("input"))


_PARAMETERS: dict[type[Node], type[msgspec.Struct]] = {}
_INPUTS = {kind: _input_fields(kind) for kind in KINDS.values()}
