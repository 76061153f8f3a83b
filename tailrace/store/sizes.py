"""How much disk space each part of a store takes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Bytes on disk. All parts add up to `total`.

    tables   rows, by table id
    states   entries of states (rows of views, arrangements, accumulators), by state
    log      changes that are kept for views and snapshots
    undo     values that epochs replaced, kept for readers of earlier epochs
    other    documents, marks and what the files need themselves
    free     space that later writes reuse; files never become smaller

    `log`, `undo`, `other` and `free` are exact. What tables take together and what states take together is exact, too;
    the share of each is estimated from its number of rows or entries and a sample of them.
    """

    tables: dict[int, int]
    states: dict[int, int]
    log: int
    undo: int
    other: int
    free: int

    @property
    def total(self) -> int:
        return self.used + self.free

    @property
    def used(self) -> int:
        return sum(self.tables.values()) + sum(self.states.values()) + self.log + self.undo + self.other
