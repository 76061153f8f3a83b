"""Writes names as SQL."""

from __future__ import annotations

import re

from sqlglot.tokenizer_core import TokenType

from tailrace.plan.sql import dialect
from tailrace.types import quoted

CONSTRAINT_STARTS = ("PRIMARY", "CONSTRAINT", "FOREIGN", "UNIQUE", "CHECK")  # in a column list, these begin no column
_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def name_sql(name: str) -> str:
    """A name as SQL, in backticks only where needed."""
    is_simple = _SIMPLE.match(name) and name.upper() not in CONSTRAINT_STARTS
    if is_simple and [t.token_type for t in dialect.tokens(name)] == [TokenType.VAR]:
        return name
    return quoted(name)
