"""How long a table keeps its rows: documents beside the table's definition.

a row expires when   its time column + its time to live   is reached; a row without a time never does
"""

from __future__ import annotations

from tailrace.store.documents import Count, Document, Kind, Number


class Retention(Document, frozen=True):
    """The time column of a table, and how long its rows live after that time, in microseconds."""

    column: str
    length: Count


class Expiry(Document, frozen=True):
    """How far the runner has looked for expired rows of a table, and how many it has deleted.

    It looks from key to key: `after` (hexadecimal) is the last key looked at on `node`. `passes` counts how often it
    has looked at all rows; the last time it ended at `ended` (seconds since 1970), after `seconds`.
    """

    node: Number = 0
    after: str = ""
    began: float = 0.0
    passes: Count = 0
    ended: float = 0.0
    seconds: float = 0.0
    deleted: Count = 0

    def fits(self, nodes: int) -> bool:
        return self.node < nodes


RETENTIONS: Kind[Retention] = Kind("retention:", Retention)
EXPIRIES: Kind[Expiry] = Kind("expiry:", Expiry, expendable=True)
