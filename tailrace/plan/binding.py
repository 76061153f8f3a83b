"""A view's SQL with its table and view names resolved, so that Spark can run it over the tables at a cut."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.codec.schema import TableDef


@dataclass(frozen=True)
class BoundQuery:
    """SQL, and the table or view that each name in it refers to. A view is given by its own query."""

    sql: str
    reads: tuple[tuple[str, TableDef | BoundQuery], ...]

    @property
    def tables(self) -> dict[int, TableDef]:
        """All tables that it reads, directly or through views, by id; each with all columns that are known below."""
        tables: dict[int, TableDef] = {}
        for _, source in self.reads:
            for number, table in (source.tables if isinstance(source, BoundQuery) else {source.id: source}).items():
                if number not in tables or len(table.columns) > len(tables[number].columns):
                    tables[number] = table
        return tables
