"""Finds where a query refers to one column of a table: the planner resolves names anyway, and here it takes notes.

The column gets a `FollowedName` before the query is planned. A star passes the name on to the queries around it; a
select item that names the column gives it a plain name again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from tailrace.plan.build.scope import Entry


class FollowedName(str):
    """The name of a column whose references and stars are noted."""

    identifiers: list[exp.Expr]
    stars: list[tuple[exp.Expr, list[Entry]]]

    def __new__(cls, name: str) -> FollowedName:
        followed = super().__new__(cls, name)
        followed.identifiers, followed.stars = [], []
        return followed


def note_reference(entry: Entry, identifier: exp.Expr) -> Entry:
    """Notes that an identifier of the query means the column `entry`."""
    if isinstance(entry.name, FollowedName):
        entry.name.identifiers.append(identifier)
    return entry


def note_star(star: exp.Expr, entries: Sequence[Entry]) -> None:
    """Notes that a star of a select list means the columns `entries`."""
    for entry in entries:
        if isinstance(entry.name, FollowedName):
            entry.name.stars.append((star, list(entries)))
