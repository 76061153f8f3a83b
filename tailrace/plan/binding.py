"""A view's SQL, run by Spark as it stands over the tables at a cut."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.codec.schema import TableDef


@dataclass(frozen=True)
class BoundQuery:
    """SQL, and what its names stand for: tables, and views whose own SQL takes their place."""

    sql: str
    reads: tuple[tuple[str, TableDef | BoundQuery], ...]

    @property
    def tables(self) -> dict[int, TableDef]:
        """All tables under it, by id."""
        found: dict[int, TableDef] = {}
        for _, source in self.reads:
            found.update(source.tables if isinstance(source, BoundQuery) else {source.id: source})
        return found
