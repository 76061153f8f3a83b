"""Comparisons with ANY, SOME and ALL of a subquery are rewritten for Spark without a change of their meaning."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tailrace.errors import Unsupported
from tailrace.plan.sql.statements import CreateView, parse

VALUES = {"empty": [], "some": [1, 2], "nulls": [1, None, 3], "null": [None]}
COMPARED = [None, 0, 1, 2, 3, 4]
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def rewritten(sql: str) -> str:
    (statement,) = parse(f"CREATE MATERIALIZED VIEW v AS {sql}")
    assert isinstance(statement, CreateView)
    return statement.query_sql


def quantified(left: int | None, word: str, quantifier: str, values: Sequence[int | None]) -> bool | None:
    """The standard's answer: ANY is true if a comparison is, ALL is false if one is; else unknown if one is."""
    answers = [None if left is None or v is None else OPERATORS[word](left, v) for v in values]
    decides = quantifier != "ALL"
    return decides if decides in answers else None if None in answers else not decides


@pytest.mark.parametrize("quantifier", ["ANY", "SOME", "ALL"])
def test_three_valued_logic(spark: SparkSession, quantifier: str) -> None:
    left = ", ".join(f"({'CAST(NULL AS INT)' if v is None else v})" for v in COMPARED)
    items, conditions, expected = [], [], []
    for name, values in VALUES.items():
        rows = ", ".join("(CAST(NULL AS INT))" if v is None else f"({v})" for v in values)
        query = f"SELECT y FROM VALUES {rows} AS u(y)" if values else "SELECT 1 AS y WHERE FALSE"
        for word in OPERATORS:
            comparison = f"x {word} {quantifier} ({query})"
            items.append(f"{comparison} AS `{name} {word}`")
            conditions += [comparison, f"NOT ({comparison})", f"(x = 4 OR NOT {comparison})"]
            expected.append([quantified(x, word, quantifier, values) for x in COMPARED])
    answers = spark.sql(rewritten(f"SELECT x, {', '.join(items)} FROM VALUES {left} AS t(x)")).collect()
    by_value = {row[0]: list(row[1:]) for row in answers}
    assert [by_value[x] for x in COMPARED] == [[column[i] for column in expected] for i in range(len(COMPARED))]
    parts = [
        rewritten(f"SELECT {number} AS number, x FROM VALUES {left} AS t(x) WHERE {condition}")
        for number, condition in enumerate(conditions)
    ]
    kept = {(row[0], row[1]) for row in spark.sql(" UNION ALL ".join(f"({part})" for part in parts)).collect()}
    for number, column in enumerate(expected):
        for x, answer in zip(COMPARED, column, strict=True):
            wanted = [answer is True, answer is False, x == 4 or answer is False]
            assert [(3 * number + i, x) in kept for i in range(3)] == wanted, (conditions[3 * number], x)


def test_other_queries_keep_their_text() -> None:
    for sql in ("SELECT  any(b)  AS x FROM t", "select a from t where c LIKE ANY ('a', 'b')  -- as written"):
        assert rewritten(sql) == sql.split("  --")[0]


def test_nested_and_paired() -> None:
    sql = "SELECT a FROM t WHERE (a, b) = ANY (SELECT a, b FROM u WHERE u.a < ALL (SELECT x FROM w))"
    assert rewritten(sql) == (
        "SELECT a FROM t WHERE ((a, b) IN (SELECT a, b FROM u WHERE (NOT EXISTS(SELECT 1 FROM (SELECT x FROM w)"
        " AS `_any`(`_value`) WHERE NOT COALESCE(u.a < `_any`.`_value`, FALSE)))))"
    )


def test_an_aggregate_cannot_be_compared() -> None:
    with pytest.raises(Unsupported, match="compute the compared aggregate in a subquery in FROM") as caught:
        rewritten("SELECT b FROM t GROUP BY b HAVING SUM(a) > ALL (SELECT x FROM w)")
    assert caught.value.construct == "ALL (subquery)"
    assert (caught.value.line, caught.value.column) == (1, 74)
