"""The tables of docs/sql.md are true: examples are maintained by the rules, and refused by the names, that they say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from oracle import Model, Row

import tailrace as tr
from tailrace.errors import Unsupported
from tailrace.plan.explain import COSTS
from tailrace.plan.sql.functions import AGGREGATES, ESTIMATES

PAGE = (Path(__file__).parent.parent / "docs" / "sql.md").read_text()


@dataclass(frozen=True)
class Construct:
    name: str
    examples: list[str]
    rules: list[str]
    cost: str


def tables(*heading: str) -> Iterator[list[str]]:
    """The rows of all tables with this heading, cell by cell."""
    inside = False
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")] if line.startswith("|") else []
        if cells == list(heading):
            inside = True
        elif inside and cells and not line.startswith("|---"):
            yield [*cells, *[""] * (len(heading) - len(cells))]
        inside = inside and bool(cells)


def queries(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


CONSTRUCTS = [
    Construct(name, queries(examples), rules.split(", "), cost)
    for name, examples, rules, cost, _ in tables("construct", "example", "rule", "cost follows", "limits")
]
REFUSED = [(queries(query)[0], named) for query, named, _ in tables("query", "the error names", "instead")]

# One call per aggregate of Spark, over table a. What depends on the order of rows is put in order; what is rounded has
# its last digits from the order of sums.
AGGREGATE_CALLS: dict[str, str] = {
    "any": "any(n > 1)",
    "approx_count_distinct": "approx_count_distinct(n)",
    "array_agg": "sort_array(array_agg(n))",
    "avg": "avg(n)",
    "bit_and": "bit_and(n)",
    "bit_or": "bit_or(n)",
    "bit_xor": "bit_xor(n)",
    "bitmap_construct_agg": "hex(bitmap_construct_agg(bitmap_bit_position(id)))",
    "bitmap_and_agg": "hex(bitmap_and_agg(unhex(lpad(hex(n), 2, '0'))))",
    "bitmap_or_agg": "hex(bitmap_or_agg(unhex(lpad(hex(n), 2, '0'))))",
    "bool_and": "bool_and(n > 1)",
    "bool_or": "bool_or(n > 1)",
    "collect_list": "sort_array(collect_list(g))",
    "collect_set": "array_sort(collect_set(g))",
    "collect_union": "sort_array(collect_union(array(n, k)))",
    "corr": "round(corr(n, y), 9)",
    "count": "count(g)",
    "count_if": "count_if(n > 1)",
    "count_min_sketch": "hex(count_min_sketch(n, 0.5d, 0.5d, 1))",
    "covar_pop": "round(covar_pop(n, y), 9)",
    "covar_samp": "round(covar_samp(n, y), 9)",
    "every": "every(n > 1)",
    "kurtosis": "round(kurtosis(n), 9)",
    "listagg": "listagg(g, ',') WITHIN GROUP (ORDER BY g)",
    "max": "max(array(n))",
    "max_by": "max_by(g, id)",
    "mean": "mean(x)",
    "median": "median(n)",
    "min": "min(struct(n))",
    "min_by": "min_by(g, id)",
    "mode": "mode(n, true)",
    "percentile": "percentile(n, array(0.25, 0.75))",
    "percentile_cont": "percentile_cont(0.5) WITHIN GROUP (ORDER BY n DESC)",
    "percentile_disc": "percentile_disc(0.5) WITHIN GROUP (ORDER BY n)",
    "regr_avgx": "regr_avgx(n, y)",
    "regr_avgy": "regr_avgy(n, y)",
    "regr_count": "regr_count(n, y)",
    "regr_intercept": "round(regr_intercept(n, y), 9)",
    "regr_r2": "round(regr_r2(n, y), 9)",
    "regr_slope": "round(regr_slope(n, y), 9)",
    "regr_sxx": "round(regr_sxx(n, y), 9)",
    "regr_sxy": "round(regr_sxy(n, y), 9)",
    "regr_syy": "round(regr_syy(n, y), 9)",
    "skewness": "round(skewness(n), 9)",
    "some": "some(n > 1)",
    "std": "std(n)",
    "stddev": "stddev(n)",
    "stddev_pop": "stddev_pop(n)",
    "stddev_samp": "stddev_samp(n)",
    "string_agg": "string_agg(g, '') WITHIN GROUP (ORDER BY g DESC)",
    "sum": "sum(x)",
    "theta_sketch_agg": "theta_sketch_estimate(theta_sketch_agg(n))",
    "try_avg": "try_avg(n)",
    "try_sum": "try_sum(n)",
    "var_pop": "var_pop(n)",
    "var_samp": "var_samp(n)",
    "variance": "variance(n)",
}
# Aggregates of the sketches that another aggregate makes, over one of each group.
MERGED = ("theta_intersection_agg", "theta_union_agg")
# Without a defined order, with none that they could be given; of a type that the store does not hold; of metric views.
LEFT_OUT = {"any_value", "first", "first_value", "last", "last_value", "measure", "schema_of_variant_agg"}


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    database = tr.open(tmp_path / "store", create=True, spark=spark, map_size=1 << 30)
    (declared,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    database.sql(declared)
    yield database
    database.close()


def a_row(i: int) -> Row:
    """Of every column NULLs and duplicates; sums of y are exact."""
    return {
        "id": i,
        "k": None if i % 7 == 3 else i % 4,
        "g": None if i % 5 == 4 else "ab3"[i % 3],
        "x": None if i % 6 == 5 else Decimal(i * 37 % 11 - 3) / 2,
        "n": None if i % 8 == 6 else i % 5,
        "y": None if i % 9 == 7 else i * 0.25 - 1,
        "d": None if i % 4 == 3 else date(2026, 1, 30) + timedelta(days=i % 3),
    }


def b_row(i: int) -> Row:
    words = None if i % 4 == 1 else " ".join("one two three"[: 3 + i * 2].split())
    return {"id": i, "k": None if i % 6 == 5 else i % 5, "x": None if i % 5 == 2 else Decimal(i - 4), "words": words}


def fill(model: Model) -> None:
    model.put("a", [a_row(i) for i in range(16)])
    model.put("b", [b_row(i) for i in range(8)])
    model.put("c", [{"k": k, "name": name} for k, name in ((0, "zero"), (1, None), (2, "two"))])


def change(model: Model) -> None:
    """Rows are deleted, moved to other groups, doubled and new; the last NULL of b.k goes, keys of c come and go."""
    model.delete("a", [0, 3, 5, 11])
    model.put("a", [{**a_row(i + 2), "id": i} for i in (1, 7, 8)] + [{**a_row(2), "id": 20}])
    model.update("a", {"id": 9, "x": None, "g": "a"})
    model.delete("b", [0, 4])
    model.put("b", [{**b_row(6), "id": 5}, {**b_row(2), "id": 12, "k": 3}])
    model.delete("c", [0])
    model.put("c", [{"k": 3, "name": "three"}])


def operators(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan["inputs"]:
        yield from operators(below)


def unlike(db: tr.Database, name: str, construct: Construct) -> str | None:
    """What `explain` says of a view, if it is not the construct's rules and costs."""
    plan = list(operators(db.explain(name, json=True)["plan"]))
    told = {rule: cost for operator in plan for rule, cost in operator["rules"].items()}
    costs = dict.fromkeys(told.get(rule, f"no {rule}") for rule in construct.rules)
    fits = "; ".join(costs) == construct.cost and all(operator["rules"] for operator in plan)
    return None if fits else f"{construct.name}: {db.view(name).sql}\n{db.explain(name)}"


def test_every_example_has_its_rule_and_equals_recomputation(db: tr.Database) -> None:
    model = Model(db)
    assert len(CONSTRUCTS) > 40
    views: dict[str, Construct] = {}
    for construct in CONSTRUCTS:
        assert construct.examples, construct.name
        for sql in construct.examples:
            name = f"v{len(views)}"
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
            views[name] = construct
    assert [wrong for name, construct in views.items() if (wrong := unlike(db, name, construct))] == []
    for step in (fill, change):
        step(model)
        db.refresh()
        model.check()


def test_the_table_of_rules_has_all_that_explain_says() -> None:
    listed = {rule: cost for rule, _, cost, _ in tables("rule", "an epoch's work", "cost follows", "keeps")}
    assert listed == COSTS
    assert {rule for construct in CONSTRUCTS for rule in construct.rules} == COSTS.keys() - {"log"}


def test_what_is_refused_is_named(db: tr.Database) -> None:
    assert len(REFUSED) > 15
    for sql, named in REFUSED:
        with pytest.raises(Unsupported) as caught:
            db.sql(f"CREATE MATERIALIZED VIEW v AS {sql}")
        assert caught.value.construct == named, sql
    assert db.views() == ["totals"]


def aggregates_of(spark: Any) -> set[str]:
    """The names of all functions that Spark itself takes for aggregates, by their class or by the group it lists."""
    jvm, registry = spark._jvm, spark._jsparkSession.sessionState().functionRegistry()
    named = jvm.java.lang.Class.forName
    aggregate = named("org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction")
    found, listed = set(), registry.listFunction().iterator()
    while listed.hasNext():
        identifier = listed.next()
        info = registry.lookupFunction(identifier).get()
        by_class = ".expressions." in info.getClassName() and aggregate.isAssignableFrom(named(info.getClassName()))
        if info.getGroup() != "window_funcs" and (by_class or info.getGroup() == "agg_funcs"):
            found.add(identifier.funcName())
    return found


def test_every_aggregate_of_spark_is_known(spark: Any) -> None:
    """Each is maintained or refused by name: a new one of Spark's cannot slip through."""
    assert aggregates_of(spark) - {"grouping", "grouping_id"} == AGGREGATES
    kinds = [AGGREGATE_CALLS.keys(), {*MERGED}, LEFT_OUT, ESTIMATES.keys()]
    assert Counter(word for kind in kinds for word in kind) == Counter(AGGREGATES)


def test_every_aggregate_of_spark(db: tr.Database) -> None:
    """Each that has one answer can be used in a view; the others are refused."""
    model = Model(db)
    calls = ", ".join(f"{call} AS {word}_" for word, call in AGGREGATE_CALLS.items())
    merged = ", ".join(f"hex({word}(s)) AS {word}_" for word in MERGED)
    sketches = "SELECT k, theta_sketch_agg(n) AS s FROM a GROUP BY k"
    db.sql(f"CREATE MATERIALIZED VIEW wide AS SELECT g, {calls} FROM a GROUP BY g")
    db.sql(f"CREATE MATERIALIZED VIEW merged AS SELECT {merged} FROM ({sketches}) q")
    for word in [*LEFT_OUT - {"schema_of_variant_agg"}, *ESTIMATES]:
        for refresh in ("incremental", "full"):
            with pytest.raises(Unsupported, match=word):
                db.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh = '{refresh}') AS SELECT {word}(n) AS v FROM a")
    with pytest.raises(Unsupported, match="VARIANT"):
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT schema_of_variant_agg(parse_json(g)) AS v FROM a")
    for step in (fill, change):
        step(model)
        db.refresh()
        model.check()
