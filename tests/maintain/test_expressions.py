"""Every expression that is compiled for Arrow has the type and the value that Spark gives it, bit for bit."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest
from edges import COLUMNS, TYPES, Texts, rows, values
from pyspark.sql import SparkSession

from tailrace.maintain.expressions import compile
from tailrace.maintain.slots import plan_slots
from tailrace.plan.arrangements import rule
from tailrace.plan.nodes import Aggregate, Call, Scan
from tailrace.source.session import session
from tailrace.types import Column, arrow, name

PER_JOB = 100  # as many as Spark compiles into one class

ACCEPTED = """
    i | -i | -1 | 1L | 1.5 | 1e0 | .5 | 5. | 'x' | TRUE | DATE '2000-02-29' | TIMESTAMP '2000-02-29 01:02:03' | CAST(NULL AS INT)
    i + j | i - j | i * j | y + y | y * h | h - i | i + l | l * m | -l | -y | y % h | i % j | l % m | l DIV m | y DIV i | i / j
    i + f | l + f | l + x | f * f | f * x | x / z | f / f | x % z | f % f | x - z | -x | -f | i + 1 | l + 1L | y + 1 | 2147483648 + i
    p + q | p - q | p * q | p / q | p % q | -p | p + 1 | 1 - p | p * 100 | p / 7 | p + i | l * p | p * 1.5 | 100.00 * p / q | 0.2 * p
    p * (1 - q) | p * (1 - q) * (1 + q) | w + v | w - w | w * w | v * v | v / w | w / v | k * k | k / k | v * k | w + 1 | v - 1 | v + v
    n / r | r / n | r * n * p | n * n * n | p / 0 | p % 0 | p + x | x * p | f * p | p / f | p / 7.0 | n + -1 | n + -(1) | r % n | n % r
    i = j | i <> j | l < i | l <= m | y > i | f = x | x = z | x < z | x <= z | x > z | x >= z | f <=> f | x <=> z | l = x | i > f | l > f
    p = q | p < n | p > 1 | p >= i | l < p | p = 1.50 | i > 1.5 | i = 1.5 | i <= 1.0 | p > x | x > 0.1 | f > 0.1 | x = 0 | f = 0.3
    p <=> NULL | i = NULL | s = 'a' | s < u | s >= 'b' | s <=> u | d = e | d >= '1994-01-01' | d < DATE '1995-01-01' | t > a | d < t | t = d
    t >= '2000-01-01' | t < '2000-01-01 12:00:00' | t <=> a | b = c | b < c | b <=> c | o = o | o < o | x != z | 'a' = s | '1994-01-01' = d
    b AND c | b OR c | NOT b | b AND NULL | NULL OR b | NOT (b AND NOT c) OR c | b AND i > 0 OR l < 0 | NOT i = j | !b
    i BETWEEN 0 AND 10 | p BETWEEN 0.05 AND 7 | x BETWEEN z AND 1 | d BETWEEN '1994-01-01' AND DATE '2001-12-31' | s BETWEEN 'a' AND 'b'
    i NOT BETWEEN j AND 7 | r BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 | d BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
    i IN (1, 2, 7) | i NOT IN (1, NULL) | l IN (1, i, m) | p IN (1, 1.50, q) | s IN ('a', 'BRAZIL') | s NOT IN ('a', u) | x IN (0, z, 1.5)
    d IN (DATE '1970-01-01', e) | y IN (1, 300) | b IN (TRUE) | i IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 100) | t IN (a) | i IN (NULL)
    substring(s, 1, 2) IN ('13', 'ab', 'PR') | p IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12) | s IN ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'ü', '')
    i IS NULL | x IS NOT NULL | s IS NULL | (i > 0) IS NULL | b IS TRUE | b IS NOT TRUE | b IS FALSE | b IS NOT FALSE | b IS UNKNOWN
    i IS DISTINCT FROM j | x IS NOT DISTINCT FROM z | p IS DISTINCT FROM 1 | s IS DISTINCT FROM NULL | isnull(s) | isnotnull(i) | isnan(x) | isnan(f)
    CASE WHEN i > 0 THEN 1 ELSE 0 END | CASE WHEN i > 0 THEN 1 WHEN l > 0 THEN 2L END | CASE i WHEN 1 THEN 'a' WHEN j THEN s ELSE u END
    CASE WHEN s = 'BRAZIL' THEN p ELSE 0 END | CASE WHEN b THEN p WHEN c THEN w ELSE 1.5 END | CASE WHEN b THEN p ELSE x END | CASE WHEN b THEN NULL ELSE i END
    CASE WHEN s LIKE 'PROMO%' THEN p * (1 - q) ELSE 0 END | CASE WHEN b THEN d ELSE t END | CASE x WHEN z THEN 1 WHEN 0 THEN 2 END | CASE WHEN NULL THEN 1 ELSE i END
    if(b, i, l) | if(NULL, 1, i) | if(TRUE, s, u) | coalesce(i, l, 0) | nvl(p, 0) | ifnull(s, '') | nullif(i, j) | nullif(x, z) | nullif(p, 0) | nvl2(i, s, u)
    coalesce(NULL, i) | coalesce(p, 0) | coalesce(p, x) | coalesce(d, t) | greatest(i, l) | least(x, z) | greatest(x, z, 0) | least(p, q, 1) | greatest(s, u) | least(d, e) | greatest(f, x) | greatest(b, c)
    CAST(l AS INT) | CAST(l AS TINYINT) | CAST(i AS SMALLINT) | CAST(y AS BIGINT) | CAST(l AS FLOAT) | CAST(l AS DOUBLE) | CAST(i AS FLOAT) | CAST(x AS INT) | CAST(x AS BIGINT)
    CAST(x AS TINYINT) | CAST(x AS SMALLINT) | CAST(f AS INT) | CAST(f AS BIGINT) | CAST(f AS DOUBLE) | CAST(x AS FLOAT) | CAST(i AS DECIMAL(9,0)) | CAST(l AS DECIMAL(20,0))
    CAST(l AS DECIMAL(38,19)) | CAST(i AS DECIMAL(12,2)) | CAST(p AS DECIMAL(5,1)) | CAST(w AS DECIMAL(38,2)) | CAST(w AS DECIMAL(10,0)) | CAST(v AS DECIMAL(38,10)) | CAST(k AS DECIMAL(10,5))
    CAST(n AS DECIMAL(38,6)) | CAST(n AS DECIMAL(38,37)) | CAST(p AS DOUBLE) | CAST(w AS DOUBLE) | CAST(v AS DOUBLE) | CAST(k AS DOUBLE) | CAST(p AS INT) | CAST(v AS BIGINT) | CAST(w AS TINYINT) | CAST(n AS SMALLINT)
    CAST(b AS INT) | CAST(b AS DOUBLE) | CAST(i AS BOOLEAN) | CAST(x AS BOOLEAN) | CAST(i AS STRING) | CAST(y AS STRING) | CAST(l AS STRING) | CAST(b AS STRING) | CAST(p AS STRING) | CAST(n AS STRING) | CAST(v AS STRING)
    CAST(d AS STRING) | CAST(date_add(d, 2000000) AS STRING) | CAST(date_sub(d, 2000000) AS STRING) | CAST(d AS TIMESTAMP) | CAST(t AS DATE) | CAST('1994-01-01' AS DATE) | CAST('2000-01-01' AS TIMESTAMP) | i::BIGINT | CAST(i AS DECIMAL)
    int(l) | bigint(x) | double(p) | string(i) | date(t) | boolean(i) | CAST(9223372036854775808 AS BIGINT) | -9223372036854775808 | 12345678901234567890 + i
    d + INTERVAL '90' DAY | d - INTERVAL '3' MONTH | d + INTERVAL 1 YEAR | d - INTERVAL '1' YEARS | INTERVAL '1' DAY + d | d + 5 | d - 5 | 5 + d | d + y | d - i % 1000 | d + INTERVAL '-3' MONTH
    DATE '1998-12-01' - INTERVAL '90' DAY | d <= DATE '1998-12-01' - INTERVAL '90' DAY | d < DATE '1993-07-01' + INTERVAL '3' MONTH | DATE '1994-01-01' + INTERVAL '1' YEAR | t + INTERVAL '1' DAY
    t - INTERVAL '36' HOUR | t + INTERVAL 90 MINUTE | t - INTERVAL '1' SECOND | t + INTERVAL '13' MONTH | t - INTERVAL 1 YEAR | date_add(d, 3) | date_sub(d, y) | dateadd(d, 1) | datediff(d, e) | date_diff(e, d) | datediff(t, d)
    add_months(d, 1) | add_months(d, -1) | last_day(d) | last_day(t) | year(d) | month(d) | day(d) | dayofmonth(d) | quarter(d) | dayofweek(d) | dayofyear(d) | weekday(d) | weekofyear(d) | year(t) | month(t) | hour(t) | minute(t) | second(t)
    EXTRACT(YEAR FROM d) | extract(month from t) | EXTRACT(QUARTER FROM d) | extract(week from d) | EXTRACT(DAY FROM d) | extract(dow from d) | extract(doy from d) | EXTRACT(HOUR FROM t) | year(date_add(d, 30000000)) | year(date_sub(d, 30000000)) | weekofyear(date_sub(d, 30000000))
    s LIKE 'PROMO%' | s NOT LIKE '%special%requests%' | s LIKE '%a' | s LIKE 'a_b' | s LIKE '_' | s LIKE '__' | s LIKE '' | s LIKE '%' | s LIKE 'a' | s LIKE '%b%' | s LIKE 'a%b' | s LIKE '%.%' | s LIKE '_%' | s LIKE 'a#_b' ESCAPE '#' | s LIKE '#%' ESCAPE '#' | s LIKE '%#%%' ESCAPE '#' | s LIKE '%ñ_' | s LIKE '(%' | s LIKE '%_ x'
    substring(s FROM 1 FOR 2) | substring(s, 0, 2) | substring(s, -2, 1) | substring(s, -5, 3) | substring(s, -400, 3) | substring(s, 2) | substring(s, -2) | substr(s, 3, 100) | substring(s, 2, -1) | substring(s, 2147483647, 2147483647) | substring(s, -2147483648, 2147483647) | left(s, 2) | left(s, -1) | right(s, 2) | right(s, 0) | right(s, 500)
    length(s) | char_length(s) | length(o) | octet_length(s) | s || u | s || 'x' || u | concat(s, u, '-') | concat(s) | trim(s) | ltrim(s) | rtrim(s) | trim(BOTH FROM s) | trim(LEADING FROM s) | trim(TRAILING FROM s) | btrim(s) | startswith(s, 'a') | endswith(s, 'b') | contains(s, 'ñ') | contains(s, '') | startswith(s, '')
    abs(i) | abs(y) | abs(x) | abs(p) | abs(v) | floor(x) | ceil(x) | ceiling(f) | floor(p) | ceil(p) | floor(w) | ceil(w) | floor(k) | ceil(k) | floor(v) | floor(i) | ceil(l) | round(p) | round(p, 1) | round(p, 2) | round(p, 5) | round(w, 3) | round(k) | round(n, 0) | round(i) | round(l, 2) | round(v, 1) | sign(i) | sign(x) | signum(f) | sqrt(x) | sqrt(i) | negative(i) | mod(i, j)
    s = 'it''s' | s = 'it\\'s' | (((i))) + 1 | (i + 1) * (j - 1) = l | x > 10 AND s = 'x' | CAST(p AS DECIMAL(25,2)) / CAST(l AS DECIMAL(20,0)) | (w - floor(w)) * CAST(_weight AS DECIMAL(9,0)) | CAST(floor(w) * CAST(_weight AS DECIMAL(9,0)) AS DECIMAL(38,0))
"""  # noqa: E501

LEFT_TO_SPARK = """
    upper(s) | lower(s) | CAST(s AS INT) | CAST(x AS STRING) | CAST(t AS STRING) | CAST(x AS DECIMAL(10,2)) | s = 1 | b = 1 | d IN ('1994-01-01') | s RLIKE 'a' | s LIKE u
    rand() | current_date() | current_date | a = b < c | w = v | + 1 | p * + 1 | p * 1L | s LIKE 'a\\\\%' | s = "a" | d - e | d + l | try_cast(i AS TINYINT) | i = 99999999999999999999.5
    i IN (SELECT 1) | unknown_column | i.f | round(x) | round(i, -1) | round(p, -1) | i & j | i ^ j | ~i | p DIV q | x DIV z | v % k | CASE WHEN b THEN i ELSE s END | coalesce(w, k) | NULL | s ILIKE 'a' | i + s
    INTERVAL '1' DAY | d + INTERVAL '1' HOUR | array(1, 2) | i AS other | count(i) | d BETWEEN SYMMETRIC e AND d | CAST('1994-1-1' AS DATE) | d = '1994' | trim('x' FROM s) | substring(s, i, 1)
"""


def texts(listed: str) -> list[str]:
    return [part.strip() for line in listed.strip().splitlines() for part in line.split(" | ")]


def differences(spark: SparkSession, table: pa.Table, types: Mapping[str, str], wanted: Sequence[str]) -> list[str]:
    """What Spark and Arrow see differently, of expressions that are all compiled."""
    ddl = ", ".join(f"`{c}` {t}" for c, t in types.items())
    frame = spark.createDataFrame(table, schema=ddl).coalesce(1)
    wrong = []
    for start in range(0, len(wanted), PER_JOB):
        part = wanted[start : start + PER_JOB]
        answers = frame.selectExpr(*(f"{text} AS c{n}" for n, text in enumerate(part)))
        kinds = [field.dataType.simpleString() for field in answers.schema]
        expected = answers.toArrow()
        for n, text in enumerate(part):
            compiled = compile(text, types)
            assert compiled is not None, text
            compiled = pickle.loads(pickle.dumps(compiled))
            if compiled.type != kinds[n]:
                wrong.append(f"{text}: type {compiled.type}, Spark's {kinds[n]}")
            elif said := difference(compiled(table), expected.column(n), arrow(compiled.type)):
                wrong.append(f"{text}: {said}")
    return wrong


def difference(found: pa.ChunkedArray, expected: pa.ChunkedArray, kind: pa.DataType) -> str | None:
    if found.type != kind or len(found) != len(expected):
        return f"{found.type} of {len(found)} rows"
    found.validate(full=True)
    expected = expected.cast(kind)
    if pa.types.is_floating(kind):
        same = np.array_equal(_bits(found), _bits(expected)) and found.is_null().equals(expected.is_null())
    else:
        same = found.equals(expected)
    if same:
        return None
    pairs = zip(found.to_pylist(), expected.to_pylist(), strict=True)
    row, pair = next((n, p) for n, p in enumerate(pairs) if repr(p[0]) != repr(p[1]))
    return f"row {row}: {pair[0]!r}, Spark's {pair[1]!r}"


def _bits(values: pa.ChunkedArray) -> np.ndarray:
    numbers = values.fill_null(0).to_numpy()
    return np.where(np.isnan(numbers), np.nan, numbers).view(f"u{numbers.dtype.itemsize}")


@pytest.fixture(scope="module")
def interpreting(spark: SparkSession) -> SparkSession:
    """Spark as it is over rows of a store: expressions compiled, not folded into a table of constants."""
    ours = session(spark)
    ours.conf.set(
        "spark.sql.optimizer.excludedRules", "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
    )
    return ours


def test_listed_expressions_are_as_in_spark(interpreting: SparkSession) -> None:
    wanted = texts(ACCEPTED)
    refused = [t for t in wanted if compile(t, TYPES) is None]
    assert refused == []
    assert differences(interpreting, rows(700, seed=1), TYPES, wanted) == []


def test_random_expressions_are_as_in_spark(interpreting: SparkSession) -> None:
    made = Texts(seed=2)
    tried = [made.any() for _ in range(1500)]
    wanted = list(dict.fromkeys(t for t in tried if compile(t, TYPES) is not None))
    assert len(wanted) > 600
    assert differences(interpreting, rows(300, seed=3), TYPES, wanted) == []


def test_what_is_not_certain_is_left_to_spark() -> None:
    assert [t for t in texts(LEFT_TO_SPARK) if compile(t, TYPES) is not None] == []


def aggregate() -> Aggregate:
    """All calls that are kept by numbers, over columns of every type."""
    scan = Scan("a", 1, tuple(COLUMNS), (0,), tuple(range(len(COLUMNS))))
    calls = [Call("count", (), False, "COUNT(*)", "bigint")]
    for place, column in enumerate(COLUMNS):
        for function in ("sum", "avg", "min", "max", "count", "count_if"):
            kind = _answer_type(function, column.type)
            call = Call(function, (place,), False, "", kind or "")
            if kind is not None and rule(call, COLUMNS) != "generic":
                calls.append(call)
    return Aggregate(scan, (), tuple(calls))


def _answer_type(function: str, kind: str) -> str | None:
    if function in ("min", "max"):
        return kind
    if function == "count" or (function == "count_if" and kind == "boolean"):
        return "bigint"
    if function == "count_if" or kind in ("string", "date", "timestamp", "boolean", "binary"):
        return None
    if kind.startswith("decimal"):
        p, s = (int(n) for n in kind[8:-1].split(","))
        more = (10, 0) if function == "sum" else (4, 4)
        return f"decimal({min(p + more[0], 38)},{min(s + more[1], 38)})"
    return "double" if function == "avg" or kind in ("float", "double") else "bigint"


def test_what_aggregates_add_and_answer_is_as_in_spark(interpreting: SparkSession) -> None:
    node = aggregate()
    slots, answers = plan_slots(node)
    types = {f"_{n}": c.type for n, c in enumerate(COLUMNS)} | {"_weight": "bigint"}
    table = rows(300, seed=4)
    inputs = table.rename_columns([f"_{n}" for n in range(len(COLUMNS))]).append_column("_weight", table["_weight"])
    assert [c.sql for c in slots.sums if compile(c.sql, types, c.type) is None] == []
    assert differences(interpreting, inputs, types, [c.sql for c in slots.sums]) == []
    stored = [Column("n", "bigint"), *(Column(f"s{n}", c.type) for n, c in enumerate(slots.sums))]
    stored += [Column(f"f{n}", "double") for n in range(len(slots.floats))]
    for n, place in enumerate(slots.values):
        stored += [Column(f"{end}{n}", COLUMNS[place].type) for end in ("lo", "hi")] + [Column(f"d{n}", "bigint")]
    kinds = {c.name: c.type for c in stored}
    pairs = zip(answers, node.calls, strict=True)
    assert [a for a, call in pairs if compile(a, kinds, call.type) is None] == []
    assert differences(interpreting, values(stored, 300, seed=5), kinds, answers) == []


def test_a_type_that_spark_does_not_give_is_refused() -> None:
    assert compile("p + 1", TYPES, "decimal(13,2)") is not None
    assert compile("p + 1", TYPES, "decimal(14,2)") is None


def test_any_shape_of_rows() -> None:
    table = rows(50, seed=6)
    compiled = compile("CASE WHEN p > 0 THEN p / q ELSE w END IS NULL OR s || u LIKE 'a%'", TYPES)
    assert compiled is not None
    whole = compiled(table)
    cut = pa.concat_tables([table.slice(0, 7), table.slice(7, 0), table.slice(7)])
    assert compiled(cut).to_pylist() == whole.to_pylist()
    assert compiled(table.slice(9, 5)).to_pylist() == whole.slice(9, 5).to_pylist()
    assert compiled(table.to_batches()[0].slice(3, 4)).to_pylist() == whole.slice(3, 4).to_pylist()
    for text in texts(ACCEPTED):
        compiled = compile(text, TYPES)
        assert compiled is not None
        assert (len(compiled(table.slice(0, 0))), name(compiled(table.slice(0, 0)).type)) == (0, compiled.type), text
