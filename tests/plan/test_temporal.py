"""Conditions on the time become borders of the row, or are refused with a reason."""

from __future__ import annotations

import pytest

from tailrace.plan.nodes import Filter, Project, Scan, TemporalFilter
from tailrace.plan.physical.lower import lower_plan
from tailrace.plan.sql.times import at_time
from tailrace.plan.temporal import Borders, NotTemporal, borders, is_temporal, row_sides, split_temporal
from tailrace.types import Column

T = "UNIX_MICROS(CAST(_1 AS TIMESTAMP))"
DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("_1 > now()", [Borders(end=T)]),
        ("_1 >= now()", [Borders(end=f"{T} + 1")]),
        ("_1 < now()", [Borders(start=f"{T} + 1")]),
        ("now() >= _1", [Borders(start=T)]),
        ("_1 = now()", [Borders(T, f"{T} + 1")]),
        ("_1 > now() - INTERVAL 1 DAY", [Borders(end=f"{T} + {DAY}")]),
        ("_1 > INTERVAL 1 DAY + now()", [Borders(end=f"{T} - {DAY}")]),
        ("now() - _1 < INTERVAL 1 DAY", [Borders(end=f"{T} + {DAY}")]),
        ("now() - INTERVAL 2 DAYS - _1 >= -INTERVAL 1 DAY", [Borders(start=f"{T} + {DAY}")]),
        (
            "_1 BETWEEN now() AND now() + INTERVAL 1.5 SECONDS",
            [Borders(end=f"{T} + 1"), Borders(start=f"{T} - 1500000")],
        ),
        ("NOT (_1 > now())", [Borders(start=T)]),
        ("NOT _1 <= current_timestamp()", [Borders(end=T)]),
        ("_1 >= current_date()", [Borders(end=f"{T} - PMOD({T}, {DAY}) + {DAY}")]),
        ("_1 < current_date() - 1", [Borders(start=f"{T} + {DAY} - PMOD({T} + {DAY}, {DAY}) + {DAY}")]),
    ],
)
def test_borders(condition: str, expected: list[Borders]) -> None:
    assert is_temporal(condition)
    assert borders(condition) == expected


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("_1 > now() OR _2 > 0", "ANDed"),
        ("_1 <> now()", "comparison"),
        ("now() > current_date()", "one side"),
        ("_1 > now() - INTERVAL 1 MONTH", "ts \\+ INTERVAL '1' MONTH > now"),
        ("_1 > now() - _2 * INTERVAL 1 DAY", "not a fixed number"),
        ("_1 > date_trunc('MONTH', now())", "no inverse"),
        ("hour(now()) = 3", "no inverse"),
        ("_1 > CAST(now() AS STRING)", "cast to STRING"),
        ("_1 > CAST(now() - INTERVAL 1 HOUR AS DATE)", "part of a day"),
        ("_1 BETWEEN _2 AND now()", "two comparisons"),
        ("now() - _1 > _2", "constant interval"),
        ("_1 - now() > INTERVAL 1 HOUR", "subtract the row's value"),
    ],
)
def test_refusals(condition: str, reason: str) -> None:
    with pytest.raises(NotTemporal, match=reason):
        borders(condition)


def test_the_compared_values_are_found() -> None:
    assert row_sides("_1 + INTERVAL 1 HOUR > now()") == ["_1 + INTERVAL '1' HOUR"]
    assert row_sides("now() - _2 < INTERVAL 1 HOUR") == ["_2"]


def test_the_time_must_be_called() -> None:
    assert split_temporal("_1 > now() AND _2 = 'now()'") == (["_2 = 'now()'"], ["_1 > NOW()"])


def test_lowering_makes_one_node_of_all_conditions() -> None:
    columns = (Column("id", "int"), Column("t", "timestamp"))
    scan = Scan("t", 1, columns, (0,), (0, 1))
    node = lower_plan(Filter(scan, "_0 > 1 AND _1 > now() AND now() >= _1 AND _1 < now() + INTERVAL 1 HOUR"))
    assert isinstance(node, TemporalFilter)
    assert (node.columns, node.key) == (columns, (0,))
    assert isinstance(node.input, Project)
    assert node.input.expressions[2:] == (f"GREATEST({T}, {T} - 3599999999)", T)
    assert isinstance(node.input.input, Filter)
    assert node.input.input.condition.startswith("(_0 > 1) AND (")
    assert node.input.input.condition.count("IS NOT NULL") == 2


def test_only_calls_are_fixed_to_a_time() -> None:
    sql = "SELECT 'now()', now FROM t WHERE a > NOW ( ) AND d = current_date -- now()"
    fixed = (
        "SELECT 'now()', now FROM t WHERE a > timestamp_micros(5) AND d = CAST(timestamp_micros(5) AS DATE) -- now()"
    )
    assert at_time(sql, 5) == fixed
    assert at_time("SELECT a FROM t", 5) == "SELECT a FROM t"
