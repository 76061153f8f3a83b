"""Placement: on which shard each delta row is produced, and the zones between which rows are shuffled.

A stateful operator works in the shard that its key hashes to, so its output rows are produced there. Operators that
follow and keep those columns can run there too: such a run of operators is a zone.
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
    TemporalFilter,
    TopK,
    UnionAll,
    Window,
    column_of,
)
from tailrace.types import holds_map, is_scalar


def placement(node: Node) -> Key | None:
    """Output positions whose hash, in this order, is the shard on which a delta row of `node` is produced.

    None: on any shard. An empty tuple: all rows are produced on one shard.
    """
    match node:
        case Scan():
            # A colocated store logs a change on the node that its primary key hashes to.
            if not node.colocated:
                return None
            return _map_positions(node.table_key, {p: i for i, p in reversed(list(enumerate(node.positions)))})
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
        case TemporalFilter():
            return border_place(node)
        case UnionAll(branches):
            places = {placement(b) for b in branches}
            return places.pop() if len(places) == 1 else None
    return None


def _projected(positions: Key | None, expressions: Sequence[str]) -> Key | None:
    return _map_positions(positions, {column_of(e): i for i, e in reversed(list(enumerate(expressions)))})


def _map_positions(positions: Key | None, to: dict[int | None, int] | dict[int, int]) -> Key | None:
    if positions is None or not all(p in to for p in positions):
        return None
    return tuple(to[p] for p in positions)


def _join_placement(node: Join) -> Key | None:
    if node.kind == "full" or node.condition is not None:
        # FULL: the columns of either side may be padding, NULL instead of the join key that placed the row.
        # With a condition the join is lowered to several joins.
        return None
    if node.kind == "right":
        return tuple(len(node.left.columns) + p for p in node.right_on)
    return node.left_on


def origin(node: Node) -> Key | None:
    """Output positions whose hash is the node that logged the changes of one table under `node`.

    For a join: of the left table, or else of the right one. If only that table changed, no shuffle is needed.
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


def border_place(node: TemporalFilter) -> Key:
    """Positions by which the state of a temporal filter is sharded: as its input, or else by key or whole rows."""
    source = node.input
    place = placement(source)
    if place is not None:
        return place
    candidates = range(len(node.columns)) if source.key is None else source.key
    return tuple(p for p in candidates if is_scalar(source.columns[p].type))


def view_place(root: Node, key: Key | None) -> Key:
    """Positions by which a view is sharded: those that place its delta rows if they are key columns, else its key.

    Unsafe with other columns: rows with the same key could be on two shards.
    """
    if key is None:
        scalars = tuple(i for i, c in enumerate(root.columns) if is_scalar(c.type))
        return scalars or tuple(i for i, c in enumerate(root.columns) if not holds_map(c.type))  # Spark hashes no maps
    for place in (placement(root), origin(root)):
        if place and set(place) <= set(key):
            return place
    return key


@dataclass(frozen=True)
class Zone:
    """Operators between two shuffles; `first` is the one that begins the zone."""

    number: int
    first: Node


def zones(root: Node) -> dict[str, Zone]:
    """The zone of each node of a plan, by the node's fingerprint. Zones are numbered in execution order."""
    zone_of: dict[str, Zone] = {}
    _assign_zone(root, zone_of)
    return zone_of


def _assign_zone(node: Node, zone_of: dict[str, Zone]) -> Zone:
    if node.fingerprint not in zone_of:
        below = [_assign_zone(child, zone_of) for child in node.inputs]
        stays = below and all(zone == below[0] for zone in below) and not begins_zone(node)
        number = 1 + max((zone.number for zone in zone_of.values()), default=0)
        zone_of[node.fingerprint] = below[0] if stays else Zone(number, node)
    return zone_of[node.fingerprint]


def begins_zone(node: Node) -> bool:
    """Whether the inputs of a node must be shuffled, because they are not placed by the node's key."""
    match node:
        case Join():
            return True
        case Aggregate(source, groups):
            return placement(source) != groups
        case Window(source, partition) | TopK(source, partition):
            return placement(source) != partition
        case TemporalFilter(source):
            return placement(source) is None
    return False
