"""Writes names as SQL."""

from __future__ import annotations

import re

from sqlglot.tokenizer_core import TokenType

from tailrace.plan.sql import dialect
from tailrace.types import quoted

_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def name_sql(name: str) -> str:
    """A name as SQL, in backticks only where needed."""
    if _SIMPLE.match(name) and [t.token_type for t in dialect.tokens(name)] == [TokenType.VAR]:
        return name
    return quoted(name)
