"""Findings and reports of an audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from tailrace.store.base import Cut

Kind = Literal[
    "missing",  # rows or entries that should exist
    "extra",  # rows or entries that should not exist
    "different",  # right key, wrong values
    "damaged",  # unreadable or inconsistent
    "orphan",  # a state that no view uses
]

REPAIR = "Run `tailrace audit --repair`: it recomputes the views and corrects what differs"
EXAMPLES = 10


@dataclass(frozen=True)
class Finding:
    """One kind of damage in one place, with examples and advice for the operator.

    `views` are the views that may be wrong because of it, now or after the next epoch. `repairable` says whether
    `--repair` fixes it. `place` identifies the damaged structure for the repair, e.g. ("mark", shard, state).
    """

    where: str
    kind: Kind
    count: int
    advice: str
    examples: tuple[Any, ...] = ()
    views: tuple[str, ...] = ()
    repairable: bool = True
    place: tuple[Any, ...] = ()

    @property
    def damage(self) -> str:
        """The kind, in words for people."""
        return "not used by any view" if self.kind == "orphan" else self.kind

    def __str__(self) -> str:
        return f"{self.where}: {self.damage} ({self.count:,})"


@dataclass(frozen=True)
class AuditReport:
    """The result of an audit at one epoch, or of the audit after a repair. `ok` means that no damage remains.

    `rows` is the number of view rows compared, `entries` the number of entries of internal states.
    `repaired` lists the findings of the audit before the repair that are gone. `behind` are views that have failed:
    only their rows were compared, at the epoch that they show. `skipped` are those whose epoch has no log any more:
    they are compared again when they have recovered.
    """

    epoch: int
    cut: Cut
    views: tuple[str, ...]
    rows: int
    entries: int
    seconds: float
    findings: tuple[Finding, ...] = ()
    repaired: tuple[Finding, ...] = field(default=())
    skipped: tuple[str, ...] = ()
    behind: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.findings

    def after(self, before: AuditReport) -> AuditReport:
        """Returns this report, made after a repair, with `repaired` set to the findings of `before` that are gone."""
        remaining = {(f.where, f.kind) for f in self.findings}
        return replace(self, repaired=tuple(f for f in before.findings if (f.where, f.kind) not in remaining))

    def to_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self)}


def affected_views(findings: Sequence[Finding]) -> set[str]:
    """The names of views that may be wrong because of these findings."""
    return {name for finding in findings for name in finding.views}
