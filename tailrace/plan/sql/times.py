"""The time in SQL: which functions read it, and how a text is fixed to one time.

Inside a view, `now()` and its kin are the time of the epoch (microseconds since 1970, UTC like Spark's session).
"""

from __future__ import annotations

import re

from sqlglot import exp

from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import parse

# The functions, each with the Spark SQL of its value at the time {0}.
_VALUES = {
    "now": "timestamp_micros({0})",
    "current_timestamp": "timestamp_micros({0})",
    "localtimestamp": "CAST(timestamp_micros({0}) AS TIMESTAMP_NTZ)",
    "current_date": "CAST(timestamp_micros({0}) AS DATE)",
    "curdate": "CAST(timestamp_micros({0}) AS DATE)",
}
DAYS = ("current_date", "curdate")
_MENTIONED = re.compile(rf"\b({'|'.join(_VALUES)})\b", re.I)
_PARENTHESES = re.compile(r"\s*\(\s*\)")


def is_time(node: exp.Expr) -> bool:
    """Whether the node calls a function that reads the time."""
    return functions.name(node) in functions.TIMES and not node.expressions


def reads_time(tree: exp.Expr) -> bool:
    return any(map(is_time, tree.walk()))


def mentions_time(text: str) -> bool:
    """Whether a text may read the time: false for most texts, without parsing them."""
    return _MENTIONED.search(text) is not None


def at_time(sql: str, time: int) -> str:
    """The query with the time written into it. Everything else keeps its exact text."""
    if not mentions_time(sql):
        return sql
    calls = [node for tree in parse(sql) for node in tree.walk() if is_time(node)]
    for node in sorted(calls, key=lambda n: int(n.meta["start"]), reverse=True):
        start, end = node.meta["start"], node.meta["end"] + 1
        parentheses = _PARENTHESES.match(sql, end)
        value = _VALUES[functions.name(node) or ""].format(time)
        sql = sql[:start] + value + sql[parentheses.end() if parentheses else end :]
    return sql
