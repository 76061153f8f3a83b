"""Views with window() and session_window(): compared with Spark's own windows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from oracle import compare_all_along, wide_store

from tailrace.errors import SqlError, Unsupported

VIEWS = [
    "SELECT window, count(*) AS c FROM a GROUP BY window(t, '2 hours')",
    "SELECT window.start, window.end, g, sum(n) AS s FROM a GROUP BY g, window(t, '90 minutes')",
    "SELECT window.start AS s, count(*) AS c FROM a WHERE n > 0 GROUP BY window(t, '2 hours', '30 minutes')",
    "SELECT window(t, '3 hours', '2 hours', '15 minutes').end AS e, min(x) AS m FROM a"
    " GROUP BY window(t, '3 hours', '2 hours', '15 minutes')",
    "SELECT window(d, '2 days') AS w, max(n) AS m FROM a GROUP BY w HAVING count(*) > 1",
    "SELECT window(d, '1 week') AS w, count(*) AS c FROM a GROUP BY 1",
    "SELECT window_time(window) AS at, c FROM"
    " (SELECT window, count(*) AS c FROM a GROUP BY window(t, '1 hour 30 minutes'))",
    "SELECT window.start, count(*) AS c FROM a"
    " GROUP BY window(CAST(t AS TIMESTAMP_NTZ), '1 hour', '1 hour', '-7 minutes')",
    "SELECT id, window(t, '1 hour') AS w FROM a",
    "SELECT id, window(t, '2 hours', '1 hour').start AS s FROM a",
    "SELECT w.start, count(*) AS c FROM (SELECT id, window(t, '1 hour') AS w FROM a) GROUP BY w",
]


SESSIONS = [
    "SELECT session_window.start, session_window.end, count(*) AS c FROM a GROUP BY session_window(t, '1 hour')",
    "SELECT g, session_window AS w, sum(n) AS s FROM a GROUP BY g, session_window(t, '90 minutes')",
    "SELECT h, session_window(t, '59 minutes') AS w, count(*) AS c FROM a GROUP BY 1, session_window(t, '59 minutes')"
    " HAVING count(*) > 1",
    "SELECT n % 2 AS odd, session_window.end AS e, min(x) AS m FROM a WHERE n >= 0"
    " GROUP BY n % 2, session_window(d, '1 day')",
]


@pytest.mark.parametrize("spread", [False, True])
def test_sessions_are_those_of_spark(tmp_path: Path, spark: Any, spread: bool) -> None:
    with wide_store(tmp_path / "s", spark, "a") as db:
        compare_all_along(db, SESSIONS, random.Random(6), "a", spread=spread, epochs=2)


@pytest.mark.parametrize("spread", [False, True])
def test_windows_are_those_of_spark(tmp_path: Path, spark: Any, spread: bool) -> None:
    with wide_store(tmp_path / "s", spark, "a") as db:
        compare_all_along(db, VIEWS, random.Random(5), "a", spread=spread)
        assert db.view("v1").key == ["g", "start"]


@pytest.mark.parametrize(
    ("sql", "error", "words"),
    [
        ("SELECT count(*) AS c FROM a GROUP BY window(t, '1 month')", SqlError, "weeks or smaller"),
        ("SELECT count(*) AS c FROM a GROUP BY window(t, '1 hour', '2 hours')", SqlError, "slide <= size"),
        (
            "SELECT count(*) AS c FROM a GROUP BY window(t, '1 hour', '1 hour', '1 hour')",
            SqlError,
            "less than its slide",
        ),
        ("SELECT count(*) AS c FROM a GROUP BY window(n, '1 hour')", Unsupported, "type bigint"),
        (
            "SELECT count(*) AS c FROM a GROUP BY window(t, '1 hour'), window(t, '2 hours')",
            Unsupported,
            "two different",
        ),
        ("SELECT session_window(t, '1 hour') AS w FROM a", Unsupported, "refresh = 'auto'"),
        (
            "SELECT count(*) AS c FROM a GROUP BY session_window(t, CASE WHEN n > 0 THEN '1 hour' ELSE '2 hours' END)",
            Unsupported,
            "refresh = 'auto'",
        ),
    ],
)
def test_refusals(tmp_path: Path, spark: Any, sql: str, error: type[Exception], words: str) -> None:
    with wide_store(tmp_path / "s", spark, "a") as db, pytest.raises(error, match=words):
        db.sql(f"CREATE MATERIALIZED VIEW v AS {sql}")
