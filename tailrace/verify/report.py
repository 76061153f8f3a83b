"""The report of a verification."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from tailrace.store.base import Cut


@dataclass(frozen=True)
class Report:
    """The result of a verification. `ok` means that no row is missing and no row is extra.

    `by` says what the view was compared with: its SQL, or its plan if the SQL has several right answers.
    `failure` is why the view has failed, if it has: then `epoch` and `cut` are its last good ones.
    """

    view: str
    ok: bool
    missing: int
    extra: int
    rows: int
    cut: Cut
    epoch: int
    examples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    by: Literal["sql", "plan"] = "sql"
    failure: str = ""
