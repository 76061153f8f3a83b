"""Verifies a view: recomputes it with plain Spark SQL at its cut and time and compares the rows.

    missing = rows of the recomputation that the view lacks
    extra   = rows of the view that the recomputation lacks

Both sides are multisets: a row that is stored once instead of twice is one missing row. DOUBLE and FLOAT columns are
equal within 1e-9 relative, because their sums depend on the order of addition; everything else is exact. Views that the
view reads are recomputed from the tables too, so an error in them is found as well.

SQL may leave open which of several tied rows comes first. If such a view differs from Spark's result, it is compared
with the result of its plan, which breaks ties the same way in every epoch (`planned.py`); the report says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tailrace import types
from tailrace.catalog.definition import ViewDef
from tailrace.plan.binding import BoundQuery
from tailrace.spark.frames import WEIGHT_COLUMN, query_rows, view_rows
from tailrace.spark.session import session
from tailrace.store.base import Store
from tailrace.store.pins import Pin
from tailrace.verify.equality import TOLERANCE, alike
from tailrace.verify.planned import leaves_ties_open, planned_rows
from tailrace.verify.report import Report

EXAMPLES = 10
_EQUAL_FLOATS = (
    "({a} <=> {b} OR (abs({a}) < double('infinity') AND abs({b}) < double('infinity')"
    " AND abs({a} - {b}) <= {t} * greatest(abs({a}), abs({b}))))"
)


def verify(spark: SparkSession, store: Store, view: ViewDef, query: BoundQuery, pin: Pin) -> Report:
    """Compares a view, as stored at the pinned epoch, with its SQL over the tables at that epoch's cut."""
    fresh = session(spark)
    report = _compare(fresh, store, query_rows(fresh, store, query, pin.cut, pin.time), view, pin)
    if report.ok or view.root is None or not leaves_ties_open(view.root):
        return report
    computed = planned_rows(fresh, store, view.root, query, pin)
    return replace(_compare(fresh, store, computed, view, pin), by="plan")


def _compare(fresh: SparkSession, store: Store, computed: DataFrame, view: ViewDef, pin: Pin) -> Report:
    stored = view_rows(fresh, store, view, pin.epoch)
    differing = differences(computed, stored, view)
    rows = stored.agg(F.coalesce(F.sum(WEIGHT_COLUMN), F.lit(0))).collect()[0][0]
    missing, extra, examples = counted(differing, view)
    return Report(view.name, not missing and not extra, missing, extra, rows, pin.cut, pin.epoch, examples)


def differences(computed: DataFrame, stored: DataFrame, view: ViewDef) -> DataFrame:
    """Rows `c0`, `c1`, ... that only one side has. Their weight is positive if the view lacks them, else negative.

    If the view has no key, the result may include rows that differ only within the tolerance; `counted` pairs them.
    """
    names, floats = _positional(len(view.columns)), _float_positions(view)
    comparable = [f"{_without_maps(n, c.type)} AS {n}" for n, c in zip(names, view.columns, strict=True)]
    computed = computed.toDF(*names).selectExpr(*comparable, f"1L AS {WEIGHT_COLUMN}")
    stored = stored.toDF(*names, WEIGHT_COLUMN).selectExpr(*comparable, WEIGHT_COLUMN)
    if floats and view.key is not None:
        return _join_by_key(computed, stored, view.key, floats, len(names))
    return _sum_weights(computed, stored, names)


def counted(differing: DataFrame, view: ViewDef) -> tuple[int, int, dict[str, list[dict[str, Any]]]]:
    """The numbers of missing and extra rows, with examples."""
    names, floats = [c.name for c in view.columns], _float_positions(view)
    return _count_tolerantly(differing, floats, names) if floats and view.key is None else _count(differing, names)


def _float_positions(view: ViewDef) -> list[int]:
    return [i for i, c in enumerate(view.columns) if types.is_float(c.type)]


def _positional(count: int) -> list[str]:
    return [f"c{i}" for i in range(count)]


def _without_maps(sql: str, kind: str, depth: int = 0) -> str:
    """SQL for the value with every map as a sorted array of its entries, because Spark cannot compare maps."""
    part = f"x{depth}"
    if not types.holds_map(kind):
        return sql
    if kind.startswith("map<"):
        value = _without_maps(f"{part}.value", types.fields_of(kind)[1], depth + 1)
        return f"array_sort(transform(map_entries({sql}), {part} -> struct({part}.key AS key, {value} AS value)))"
    if kind.startswith("array<"):
        return f"transform({sql}, {part} -> {_without_maps(part, kind[6:-1], depth + 1)})"
    fields = [
        f"{_without_maps(f'{sql}.{types.quoted(field.name)}', field.type, depth)} AS {types.quoted(field.name)}"
        for field in types.struct_fields(kind)
    ]
    return f"if({sql} IS NULL, NULL, struct({', '.join(fields)}))"


def _sum_weights(computed: DataFrame, stored: DataFrame, names: list[str]) -> DataFrame:
    """Rows whose weights do not cancel out."""
    both = computed.union(stored.selectExpr(*names, f"-{WEIGHT_COLUMN} AS {WEIGHT_COLUMN}"))
    return both.groupBy(*names).agg(F.sum(WEIGHT_COLUMN).alias(WEIGHT_COLUMN)).where(f"{WEIGHT_COLUMN} <> 0")


def _join_by_key(
    computed: DataFrame, stored: DataFrame, key: tuple[int, ...], floats: list[int], count: int
) -> DataFrame:
    """Rows of either side without an equal row under the same key; floats are equal within the tolerance."""
    names = _positional(count)
    a = computed.selectExpr("struct(*) AS a", *(f"c{p} AS k{p}" for p in key))
    b = stored.selectExpr("struct(*) AS b", *(f"c{p} AS j{p}" for p in key))
    on = " AND ".join(f"k{p} <=> j{p}" for p in key) or "true"
    equal = " AND ".join(
        _EQUAL_FLOATS.format(a=f"a.{n}", b=f"b.{n}", t=TOLERANCE) if i in floats else f"a.{n} <=> b.{n}"
        for i, n in enumerate(names)
    )
    joined = a.join(b, F.expr(on), "full").where(f"a IS NULL OR b IS NULL OR NOT coalesce({equal}, false)")
    missing = joined.where("a IS NOT NULL").selectExpr("a.*")
    extra = joined.where("b IS NOT NULL").selectExpr("b.*")
    return missing.selectExpr(*names, f"1L AS {WEIGHT_COLUMN}").union(
        extra.selectExpr(*names, f"-{WEIGHT_COLUMN} AS {WEIGHT_COLUMN}")
    )


def _count(differing: DataFrame, names: list[str]) -> tuple[int, int, dict[str, list[dict[str, Any]]]]:
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


def _count_tolerantly(
    differing: DataFrame, floats: list[int], names: list[str]
) -> tuple[int, int, dict[str, list[dict[str, Any]]]]:
    """Counts after pairing rows that differ only within the tolerance. Only differing rows come to the driver."""
    missing: dict[Any, list[tuple[Any, ...]]] = {}
    extra: list[tuple[Any, ...]] = []
    for row in differing.toLocalIterator():
        values, weight = tuple(row)[:-1], row[-1]
        side = missing.setdefault(_exact_part(values, floats), []) if weight > 0 else extra
        side.extend([values] * abs(weight))
    unpaired_extra = []
    for values in extra:
        candidates = missing.get(_exact_part(values, floats), [])
        partner = next((c for c in candidates if all(alike(c[i], values[i], TOLERANCE) for i in floats)), None)
        if partner is None:
            unpaired_extra.append(values)
        else:
            candidates.remove(partner)
    unpaired_missing = [values for rows in missing.values() for values in rows]
    examples = {
        kind: [dict(zip(names, r, strict=True)) for r in rows[:EXAMPLES]]
        for kind, rows in (("missing", unpaired_missing), ("extra", unpaired_extra))
        if rows
    }
    return len(unpaired_missing), len(unpaired_extra), examples


def _exact_part(values: tuple[Any, ...], floats: list[int]) -> str:
    """The values that must be equal exactly, as a key."""
    return repr([v for i, v in enumerate(values) if i not in floats])
