"""Where rows are: the placement of a delta on shards, and the zones between which rows are shuffled.

A stateful operator works in the shard that its key hashes to, so the rows of its delta arise there.
What follows without changing those columns can stay there: that run of operators is a zone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.plan.nodes import (
    Aggregate,
    Filter,
    Generate,
    Join,
    Key,
    Node,
    Project,
    Scan,
    TopK,
    UnionAll,
    Window,
    column_of,
)
from tailrace.types import is_scalar


def placement(node: Node) -> Key | None:
    """Output positions whose hash, in this order, decides on which shard a delta row of `node` arises.

    None: it may arise anywhere. No positions at all: all rows arise on one shard.
    """
    match node:
        case Scan():
            # Changes are logged on the node of the primary key. Other stores log them anywhere.
            if not node.colocated:
                return None
            return _moved(node.table_key, {p: i for i, p in reversed(list(enumerate(node.positions)))})
        case Filter(source) | Generate(source):
            return placement(source)
        case Project(source, expressions):
            return _projected(placement(source), expressions)
        case Join():
            return _join_placement(node)
        case Aggregate(_, groups):
            return tuple(range(len(groups)))
        case Window(partition=partition) | TopK(partition=partition):
            return partition
        case UnionAll(branches):
            places = {placement(b) for b in branches}
            return places.pop() if len(places) == 1 else None
    return None


def _projected(positions: Key | None, expressions: Sequence[str]) -> Key | None:
    return _moved(positions, {column_of(e): i for i, e in reversed(list(enumerate(expressions)))})


def _moved(positions: Key | None, to: dict[int | None, int] | dict[int, int]) -> Key | None:
    if positions is None or not all(p in to for p in positions):
        return None
    return tuple(to[p] for p in positions)


def _join_placement(node: Join) -> Key | None:
    if node.kind == "full" or node.condition is not None:
        # Either side may be the padded one, and then its columns are NULL, not what the row was placed by. With a
        # condition the join is made of several.
        return None
    if node.kind == "right":
        return tuple(len(node.left.columns) + p for p in node.right_on)
    return node.left_on


def origin(node: Node) -> Key | None:
    """Output positions whose hash tells the node in whose log the changes of one table under `node` stand.

    Of a join those of the left table, or else of the right: it can stay there if only that table changed.
    """
    match node:
        case Join(kind="inner", condition=None):
            right, width = origin(node.right), len(node.left.columns)
            return origin(node.left) or (right and tuple(width + p for p in right))
        case Filter(source):
            return origin(source)
        case Project(source, expressions):
            return _projected(origin(source), expressions)
        case Scan():
            return placement(node)
    return None


def view_place(root: Node) -> Key:
    """Positions by which a view is sharded: where its rows arise if its key says so, else its whole key.

    Columns that are not of the key would let one key be on two shards.
    """
    key = root.key
    if key is None:
        scalars = tuple(i for i, c in enumerate(root.columns) if is_scalar(c.type))
        return scalars or tuple(range(len(root.columns)))
    for place in (placement(root), origin(root)):
        if place and set(place) <= set(key):
            return place
    return key


@dataclass(frozen=True)
class Zone:
    """Operators between two shuffles. `by` are the positions, in `first`'s input, that rows are placed by."""

    number: int
    first: Node


def zones(root: Node) -> dict[str, Zone]:
    """The zone of each node of a plan, by the node's fingerprint, numbered in the order of the work."""
    found: dict[str, Zone] = {}
    _number(root, found)
    return found


def _number(node: Node, found: dict[str, Zone]) -> Zone:
    if node.fingerprint not in found:
        below = [_number(child, found) for child in node.inputs]
        stays = below and all(zone == below[0] for zone in below) and not begins_zone(node)
        number = 1 + max((zone.number for zone in found.values()), default=0)
        found[node.fingerprint] = below[0] if stays else Zone(number, node)
    return found[node.fingerprint]


def begins_zone(node: Node) -> bool:
    """Whether the inputs of a node must be shuffled: it works by a key by which they are not placed."""
    match node:
        case Join():
            return True
        case Aggregate(source, groups):
            return placement(source) != groups
        case Window(source, partition) | TopK(source, partition):
            return placement(source) != partition
    return False
