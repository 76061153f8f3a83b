"""Reads `tests/fixtures/plan/*.sql`: blocks of a `--` title, a query and, after `=>`, the expected plan."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FIXTURES = Path(__file__).parent.parent / "fixtures" / "plan"


@dataclass(frozen=True)
class Case:
    title: str
    sql: str
    plan: str


def cases(name: str) -> list[Case]:
    result = []
    for block in (FIXTURES / f"{name}.sql").read_text().split("\n\n"):
        lines = [line for line in block.splitlines() if line.strip()]
        title = " ".join(line[2:].strip() for line in lines if line.startswith("--"))
        sql = "\n".join(line for line in lines if not line.startswith(("--", "=>")))
        plan = "".join(line[2:].strip() for line in lines if line.startswith("=>"))
        if sql:
            result.append(Case(title, sql, plan))
    return result
