"""What an audit finds, each with what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from tailrace.store.base import Cut

Kind = Literal[
    "missing",  # rows or entries that should be there
    "extra",  # some that should not
    "different",  # the right key with the wrong values
    "damaged",  # what cannot be read, or contradicts the rest
    "orphan",  # what belongs to nothing
]

REPAIR = "`tailrace audit --repair` computes it anew and writes what differs"
EXAMPLES = 10


@dataclass(frozen=True)
class Finding:
    """Something wrong: where, what kind, how often, some examples, and what to do.

    `views` are those that may be wrong because of it, now or after the next epoch. `repairable` says whether
    `--repair` mends it. `place` says to the repair what it is about.
    """

    where: str
    kind: Kind
    count: int
    advice: str
    examples: tuple[Any, ...] = ()
    views: tuple[str, ...] = ()
    repairable: bool = True
    place: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.where}: {self.count:,} {self.kind}"


@dataclass(frozen=True)
class AuditReport:
    """What an audit found at an epoch, and what a repair has mended of it. `ok` means that nothing is wrong (any more).

    `rows` are the view rows that were compared, `entries` those of internal states.
    """

    epoch: int
    cut: Cut
    views: tuple[str, ...]
    rows: int
    entries: int
    seconds: float
    findings: tuple[Finding, ...] = ()
    repaired: tuple[Finding, ...] = field(default=())

    @property
    def ok(self) -> bool:
        return not self.findings

    def after(self, before: AuditReport) -> AuditReport:
        """This report, of an audit after a repair, with what the one before had found and this one does not."""
        left = {(f.where, f.kind) for f in self.findings}
        return replace(self, repaired=tuple(f for f in before.findings if (f.where, f.kind) not in left))

    def to_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self)}


def affected_views(findings: Sequence[Finding]) -> set[str]:
    """The views that may be wrong because of these."""
    return {name for finding in findings for name in finding.views}
