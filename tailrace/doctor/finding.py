"""What a check of the doctor has found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Finding:
    """One line of the report: what was checked, how it is, and what to do about it (empty if it is ok).

    ok     nothing to do
    warn   works, but slowly, less safely, or not for long
    fail   some verbs do not work
    """

    level: Level
    check: str
    found: str
    advice: str = ""


def judge(ok: bool, check: str, found: str, advice: str, otherwise: Level = "fail") -> Finding:
    """`ok` if the condition holds, else the other level with the advice."""
    return Finding("ok", check, found) if ok else Finding(otherwise, check, found, advice)
