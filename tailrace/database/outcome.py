"""The outcome of one SQL statement: what it did, or the rows that it returned and how fresh they are."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tailrace.database.freshness import Freshness


@dataclass(frozen=True)
class Outcome:
    """The outcome of a statement.

    statement      its first words, such as `CREATE TABLE orders`
    line, column   where it begins in the text, from 1
    message        what it did, such as `created table orders`; empty if it returned rows
    rows           what it returned
    freshness      the state that it read, if it is a query that reads views
    """

    statement: str
    line: int
    column: int
    message: str = ""
    rows: pa.Table | None = None
    freshness: Freshness | None = None
