"""Templates of expressions by the kind of their result, as `text : kinds of arguments`, and literals."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Template:
    """`text` with one slot per argument. The grade of an expression is the maximum of its template's and arguments'."""

    text: str
    arguments: tuple[str, ...]
    grade: int = 0


def parse_templates(lines: str, grade: int = 0) -> list[Template]:
    templates = []
    for line in lines.strip().splitlines():
        text, _, kinds = line.rpartition(" : ")
        templates.append(Template(text.strip(), tuple(kinds.split()), grade))
    return templates


_COMPARISONS = """
    ({} = {}) : K K
    ({} < {}) : K K
    ({} <= {}) : K K
    ({} <> {}) : K K
    ({} <=> {}) : K K
    ({} BETWEEN {} AND {}) : K K K
    ({} IN ({}, {})) : K K K
    ({} NOT IN ({}, {})) : K K K
    ({} IS DISTINCT FROM {}) : K K
"""


def comparisons(kind: str) -> list[Template]:
    return parse_templates(_COMPARISONS.replace("K", kind))


_COMPARED = ("int", "dec", "dbl", "str", "date", "ts", "ntz", "bin")

TEMPLATES: dict[str, list[Template]] = {
    "int": parse_templates("""
        ({} + {}) : int int
        ({} - {}) : int int
        (- {}) : int
        abs({}) : int
        ({} % 3) : int
        pmod({}, 4) : int
        ({} div 2) : int
        length({}) : str
        ascii({}) : str
        instr({}, 'b') : str
        year({}) : date
        month({}) : date
        dayofweek({}) : date
        datediff({}, {}) : date date
        hour({}) : ts
        minute({}) : ntz
        extract(DAY FROM {}) : date
        size({}) : arr:int
        size({}) : arr:str
        CAST({} AS INT) : bool
        CAST({} AS INT) : str
        CAST({} AS BIGINT) : dec
        CAST({} AS SMALLINT) : int
        floor({}) : dec
        element_at({}, 1) : arr:int
        aggregate({}, 0L, (acc, e) -> acc + e) : arr:int
        length({}) : bin
        coalesce(try_cast({} AS INT), 0) : str
        locate('a', {}) : str
    """) + parse_templates("""
        ({} * {}) : int int
        ({} & {}) : int int
        shiftleft({}, 2) : int
        CAST({} AS INT) : dbl
        floor({}) : dbl
        ceil({}) : dbl
        crc32({}) : bin
        hash({}, {}) : str int
        unix_timestamp({}) : ts
    """, grade=1),
    "dec": parse_templates("""
        ({} + {}) : dec dec
        ({} - {}) : dec dec
        ({} * 2) : dec
        ({} * {}) : dec int
        (- {}) : dec
        abs({}) : dec
        round({}, 1) : dec
        CAST({} AS DECIMAL(12,2)) : int
        CAST({} AS DECIMAL(10,3)) : dec
        ({} / 4) : dec
        ({} / {}) : dec dec
        CAST({} AS DECIMAL(12,3)) : dbl
        ({} % 3) : dec
        ({} + {}) : dec int
        CAST({} AS DECIMAL(5,1)) : str
    """),
    "dbl": parse_templates("""
        ({} + {}) : dbl dbl
        ({} - {}) : dbl dbl
        ({} * 2) : dbl
        (- {}) : dbl
        abs({}) : dbl
    """) + parse_templates("""
        ({} * {}) : dbl dbl
        ({} / {}) : dbl dbl
        ({} / {}) : int int
        round({}, 1) : dbl
        sqrt(abs({})) : dbl
        CAST({} AS DOUBLE) : int
        CAST({} AS DOUBLE) : dec
        CAST({} AS FLOAT) : dbl
        pow({}, 2) : dbl
        nanvl({}, {}) : dbl dbl
        ({} + {}) : dbl int
        CAST({} AS DOUBLE) : str
    """, grade=1),
    "str": parse_templates("""
        concat({}, {}) : str str
        ({} || {}) : str str
        upper({}) : str
        lower({}) : str
        trim({}) : str
        substr({}, 1, 2) : str
        substring({} FROM 2) : str
        replace({}, 'a', 'zz') : str
        lpad({}, 3, '.') : str
        reverse({}) : str
        CAST({} AS STRING) : int
        CAST({} AS STRING) : date
        CAST({} AS STRING) : dec
        CAST({} + 0.0D AS STRING) : dbl
        CAST({} AS STRING) : bool
        date_format({}, 'yyyy-MM') : date
        CAST({} AS STRING) : ts
        concat_ws('-', {}, {}) : str str
        left({}, 1) : str
        initcap({}) : str
        split({}, 'a')[0] : str
        hex({}) : bin
        element_at({}, 1) : arr:str
        array_join({}, '+') : arr:str
        translate({}, 'ab', 'ba') : str
        CAST({} AS STRING) : ntz
        md5({}) : bin
        regexp_replace({}, '[ab]', '*') : str
        overlay({} PLACING '_' FROM 1) : str
    """),
    "bool": parse_templates("""
        ({} AND {}) : bool bool
        ({} OR {}) : bool bool
        (NOT {}) : bool
        ({} IS NULL) : any
        ({} IS NOT NULL) : any
        ({} LIKE '%a%') : str
        ({} LIKE 'a_') : str
        ({} RLIKE '^[ab]+$') : str
        startswith({}, 'a') : str
        ({} IS TRUE) : bool
        ({} IS NOT FALSE) : bool
        contains({}, 'b') : str
        array_contains({}, 1) : arr:int
        exists({}, e -> e > 1) : arr:int
        (CAST({} AS INT) > 0) : str
        ({} < {}) : int dec
        ({} = {}) : int dbl
        ({} >= {}) : dec dbl
        ({} > {}) : ts date
    """) + [t for kind in _COMPARED for t in comparisons(kind)],
    "date": parse_templates("""
        date_add({}, 1) : date
        date_sub({}, CAST(pmod({}, 5) AS INT)) : date int
        last_day({}) : date
        trunc({}, 'MM') : date
        add_months({}, 1) : date
        CAST({} AS DATE) : ts
        make_date(2026, CAST(1 + pmod({}, 12) AS INT), 1) : int
        ({} + INTERVAL 2 DAYS) : date
        to_date({}) : str
        CAST({} AS DATE) : ntz
        next_day({}, 'MON') : date
    """),
    "ts": parse_templates("""
        date_trunc('HOUR', {}) : ts
        CAST({} AS TIMESTAMP) : date
        ({} + INTERVAL '90' MINUTE) : ts
        ({} - INTERVAL '1' DAY) : ts
        CAST({} AS TIMESTAMP) : ntz
    """),
    "ntz": parse_templates("""
        ({} + INTERVAL '1' HOUR) : ntz
        CAST({} AS TIMESTAMP_NTZ) : ts
        CAST({} AS TIMESTAMP_NTZ) : date
    """),
    "bin": parse_templates("""
        CAST({} AS BINARY) : str
        ({} || {}) : bin bin
        encode({}, 'UTF-8') : str
    """),
    "arr:int": parse_templates("""
        array({}, {}) : int int
        sequence(1, pmod(coalesce({}, 0), 4)) : int
        transform({}, e -> e + 1) : arr:int
        filter({}, e -> e > 1) : arr:int
        array_distinct({}) : arr:int
        array({}) : int
        sort_array({}) : arr:int
        slice({}, 1, 1) : arr:int
    """),
    "arr:str": parse_templates("""
        split({}, '') : str
        array({}, {}) : str str
        array_distinct({}) : arr:str
        transform({}, e -> upper(e)) : arr:str
        array({}, {}, {}) : str str str
        array_remove({}, 'a') : arr:str
    """),
}  # fmt: skip

LITERALS: dict[str, tuple[str, ...]] = {
    "bool": (
        "TRUE",
        "FALSE",
        "CAST(NULL AS BOOLEAN)",
    ),
    "int": (
        "0",
        "1",
        "2",
        "3",
        "-1",
        "5L",
        "CAST(NULL AS INT)",
        "1000",
    ),
    "dec": (
        "1.00",
        "2.5",
        "-2.50",
        "0.0",
        "CAST(NULL AS DECIMAL(4,2))",
    ),
    "dbl": (
        "1.0D",
        "0.25D",
        "-3.75D",
        "0.0D",
        "CAST(NULL AS DOUBLE)",
    ),
    "str": (
        "'a'",
        "'b'",
        "''",
        "'ab'",
        "'it''s'",
        "CAST(NULL AS STRING)",
        "'1'",
    ),
    "bin": (
        "X'61'",
        "CAST('ab' AS BINARY)",
    ),
    "date": (
        "DATE '2026-01-31'",
        "DATE '2026-02-01'",
        "CAST(NULL AS DATE)",
    ),
    "ts": (
        "TIMESTAMP '2026-01-31 23:00:00'",
        "TIMESTAMP '2026-02-01 00:00:00'",
    ),
    "ntz": (
        "TIMESTAMP_NTZ '2026-01-31 23:00:00'",
        "CAST(NULL AS TIMESTAMP_NTZ)",
    ),
    "arr:int": (
        "array(1, 2, 2)",
        "array(3, CAST(NULL AS INT))",
        "CAST(NULL AS ARRAY<INT>)",
        "CAST(array() AS ARRAY<INT>)",
    ),
    "arr:str": (
        "array('a', 'b')",
        "split('b,a,b', ',')",
    ),
}
