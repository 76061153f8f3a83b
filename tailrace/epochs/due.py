"""Which temporal filters are due: those with rows whose border in time an epoch crosses.

The states are sorted by border, so asking costs one seek for each state in each shard.
"""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.rules.temporal import count_crossed, first_border
from tailrace.store.base import Store


def next_border(store: Store, epoch: int, states: Iterable[int]) -> int | None:
    """The earliest border in states of temporal filters, as of an epoch. Reads the first key of each in every shard."""
    borders = [border for _, border in _first_borders(store, epoch, states)]
    return min(borders, default=None)


def count_due(store: Store, epoch: int, states: Iterable[int], upto: int) -> dict[int, int]:
    """The number of rows whose border is not after `upto`, for each state that has such rows, as of an epoch."""
    due: dict[int, int] = {}
    wanted = {state for state, border in _first_borders(store, epoch, states) if border <= upto}
    for index in range(store.shards) if wanted else ():
        with store.shard(index).at(epoch) as snapshot:
            for state in wanted:
                due[state] = due.get(state, 0) + count_crossed(snapshot, state, upto)
    return due


def _first_borders(store: Store, epoch: int, states: Iterable[int]) -> list[tuple[int, int]]:
    """The earliest border of each state in each shard where it has one."""
    states = list(states)
    found = []
    for index in range(store.shards) if states else ():
        with store.shard(index).at(epoch) as snapshot:
            firsts = ((state, first_border(snapshot, state)) for state in states)
            found += [(state, border) for state, border in firsts if border is not None]
    return found
