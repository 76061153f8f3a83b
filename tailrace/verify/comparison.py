"""Recompute a view with plain Spark SQL at its cut, and compare.

    missing = rows of the recomputation that the view lacks        extra = rows of the view that it lacks

Both are multisets: a row that should be there twice and is there once is one missing row. DOUBLE and
FLOAT columns are equal within 1e-9 relative, as their sums depend on the order; everything else is exact.
Views that the view reads are recomputed too, from the tables: an error below cannot hide itself.

SQL may leave open which of several equal rows come first. A view that differs from Spark's choice is then
compared with its plan's choice, which is one for all epochs (`planned.py`); the report says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tailrace import types
from tailrace.catalog.definition import ViewDef
from tailrace.plan.binding import Query
from tailrace.spark.frames import WEIGHT_COLUMN, query_rows, view_rows
from tailrace.spark.session import session
from tailrace.store.base import Cut, Store
from tailrace.store.pins import Pin
from tailrace.verify.equality import TOLERANCE, alike
from tailrace.verify.planned import leaves_ties_open, planned_rows

EXAMPLES = 10
_ALIKE = (
    "({a} <=> {b} OR (abs({a}) < double('infinity') AND abs({b}) < double('infinity')"
    " AND abs({a} - {b}) <= {t} * greatest(abs({a}), abs({b}))))"
)


@dataclass(frozen=True)
class Report:
    """What a verification found. `ok` means that there is nothing missing and nothing extra.

    `by` is what the view was compared with: its SQL, or its plan where the SQL has several right answers.
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


def verify(spark: SparkSession, store: Store, view: ViewDef, query: Query, pin: Pin) -> Report:
    """Compare a view, as stored at the pinned epoch, with its SQL over the tables at that epoch's cut."""
    fresh = session(spark)
    report = _compared(fresh, store, query_rows(fresh, store, query, pin.cut), view, pin)
    if report.ok or view.root is None or not leaves_ties_open(view.root):
        return report
    computed = planned_rows(fresh, store, view.root, query, pin.cut)
    return replace(_compared(fresh, store, computed, view, pin), by="plan")


def _compared(fresh: SparkSession, store: Store, computed: DataFrame, view: ViewDef, pin: Pin) -> Report:
    stored = view_rows(fresh, store, view, pin.epoch)
    differing = differences(computed, stored, view)
    rows = stored.agg(F.coalesce(F.sum(WEIGHT_COLUMN), F.lit(0))).collect()[0][0]
    missing, extra, examples = counted(differing, view)
    return Report(view.name, not missing and not extra, missing, extra, rows, pin.cut, pin.epoch, examples)


def differences(computed: DataFrame, stored: DataFrame, view: ViewDef) -> DataFrame:
    """Rows `c0`, `c1`, ... that one side has and the other lacks: their weight is positive where the view lacks them.

    Of a view without a key, DOUBLE and FLOAT columns may still differ within the tolerance.
    """
    names, floats = _positional(len(view.columns)), _floats(view)
    computed = computed.toDF(*names).withColumn(WEIGHT_COLUMN, F.lit(1).cast("bigint"))
    stored = stored.toDF(*names, WEIGHT_COLUMN)
    if floats and view.key is not None:
        return _differing_by_key(computed, stored, view.key, floats, len(names))
    return _differing(computed, stored, [c.type for c in view.columns])


def counted(differing: DataFrame, view: ViewDef) -> tuple[int, int, dict[str, list[dict[str, Any]]]]:
    """How many rows are missing and how many extra, with examples."""
    names, floats = [c.name for c in view.columns], _floats(view)
    return _tolerant(differing, floats, names) if floats and view.key is None else _counted(differing, names)


def _floats(view: ViewDef) -> list[int]:
    return [i for i, c in enumerate(view.columns) if types.is_float(c.type)]


def _positional(count: int) -> list[str]:
    return [f"c{i}" for i in range(count)]


def _differing(computed: DataFrame, stored: DataFrame, kinds: list[str]) -> DataFrame:
    """Rows whose weights do not cancel: positive where the view lacks them."""
    names = _positional(len(kinds))
    comparable = [
        f"array_sort(map_entries({n})) AS {n}" if k.startswith("map<") else n for n, k in zip(names, kinds, strict=True)
    ]
    both = computed.selectExpr(*comparable, WEIGHT_COLUMN).union(
        stored.selectExpr(*comparable, f"-{WEIGHT_COLUMN} AS {WEIGHT_COLUMN}")
    )
    return both.groupBy(*names).agg(F.sum(WEIGHT_COLUMN).alias(WEIGHT_COLUMN)).where(f"{WEIGHT_COLUMN} <> 0")


def _differing_by_key(
    computed: DataFrame, stored: DataFrame, key: tuple[int, ...], floats: list[int], count: int
) -> DataFrame:
    """Rows without an equal partner under their key, on either side."""
    names = _positional(count)
    a = computed.selectExpr("struct(*) AS a", *(f"c{p} AS k{p}" for p in key))
    b = stored.selectExpr("struct(*) AS b", *(f"c{p} AS j{p}" for p in key))
    on = " AND ".join(f"k{p} <=> j{p}" for p in key) or "true"
    alike = " AND ".join(
        _ALIKE.format(a=f"a.{n}", b=f"b.{n}", t=TOLERANCE) if i in floats else f"a.{n} <=> b.{n}"
        for i, n in enumerate(names)
    )
    joined = a.join(b, F.expr(on), "full").where(f"a IS NULL OR b IS NULL OR NOT coalesce({alike}, false)")
    missing = joined.where("a IS NOT NULL").selectExpr("a.*")
    extra = joined.where("b IS NOT NULL").selectExpr("b.*")
    return missing.selectExpr(*names, f"1L AS {WEIGHT_COLUMN}").union(
        extra.selectExpr(*names, f"-{WEIGHT_COLUMN} AS {WEIGHT_COLUMN}")
    )


def _counted(differing: DataFrame, names: list[str]) -> tuple[int, int, dict[str, list[dict[str, Any]]]]:
    totals = differing.agg(
        F.expr(f"coalesce(sum(greatest({WEIGHT_COLUMN}, 0)), 0)"),
        F.expr(f"coalesce(sum(greatest(-{WEIGHT_COLUMN}, 0)), 0)"),
    ).collect()[0]
    missing, extra = int(totals[0]), int(totals[1])
    examples: dict[str, list[dict[str, Any]]] = {}
    for kind, condition, count in (("missing", "> 0", missing), ("extra", "< 0", extra)):
        if count:
            rows = differing.where(f"{WEIGHT_COLUMN} {condition}").drop(WEIGHT_COLUMN).limit(EXAMPLES).collect()
            examples[kind] = [dict(zip(names, row, strict=True)) for row in rows]
    return missing, extra, examples


def _tolerant(
    differing: DataFrame, floats: list[int], names: list[str]
) -> tuple[int, int, dict[str, list[dict[str, Any]]]]:
    """Of a view without a key, pair rows that differ only within the tolerance; only these come to the driver."""
    missing: dict[Any, list[tuple[Any, ...]]] = {}
    extra: list[tuple[Any, ...]] = []
    for row in differing.toLocalIterator():
        values, weight = tuple(row)[:-1], row[-1]
        side = missing.setdefault(_exact_part(values, floats), []) if weight > 0 else extra
        side.extend([values] * abs(weight))
    unmatched = []
    for values in extra:
        candidates = missing.get(_exact_part(values, floats), [])
        partner = next((c for c in candidates if all(alike(c[i], values[i], TOLERANCE) for i in floats)), None)
        if partner is None:
            unmatched.append(values)
        else:
            candidates.remove(partner)
    left = [values for rows in missing.values() for values in rows]
    examples = {
        kind: [dict(zip(names, r, strict=True)) for r in rows[:EXAMPLES]]
        for kind, rows in (("missing", left), ("extra", unmatched))
        if rows
    }
    return len(left), len(unmatched), examples


def _exact_part(values: tuple[Any, ...], floats: list[int]) -> str:
    return repr([v for i, v in enumerate(values) if i not in floats])
