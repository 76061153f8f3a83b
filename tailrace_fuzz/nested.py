"""Nested columns and intervals: a table that has them, values for them, and expressions that read or make them.

They are apart from the other templates, and used only where such a column is in scope: a scenario without this table
stays as it is.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tailrace_fuzz.schemas import Field, TableSchema
from tailrace_fuzz.templates import Template, comparisons, parse_templates

TABLE = TableSchema(
    "n",
    (Field("id", "INT"),),
    (
        Field("g", "INT"),
        Field("x", "DOUBLE"),
        Field("t", "TIMESTAMP"),
        Field("ints", "ARRAY<INT>"),
        Field("words", "ARRAY<STRING>"),
        Field("pair", "STRUCT<a: INT, b: STRING>"),
        Field("m", "MAP<STRING, INT>"),
        Field("i", "INTERVAL DAY TO SECOND"),
    ),
)
NESTED = ("arr:int", "arr:str", "struct", "map")
ORDERED = ("struct", "ivl")
"""Kinds that occur only with this table, and that Spark compares."""

DOMAINS: dict[str, list[Any]] = {
    "ARRAY<INT>": [[], [1], [1, 2, 2], [None], [3, None]],
    "ARRAY<STRING>": [[], ["a"], ["a", ""], [None, "b"]],
    "STRUCT<a: INT, b: STRING>": [{"a": a, "b": b} for a in (1, 2, None) for b in ("a", None)],
    "MAP<STRING, INT>": [[], [("k", 1)], [("k", 1), ("z", None)], [("z", None), ("k", 1)], [("", 3)]],
    "INTERVAL DAY TO SECOND": [timedelta(), timedelta(hours=1), timedelta(days=-2, microseconds=5)],
}

TEMPLATES: dict[str, list[Template]] = {
    "int": parse_templates("""
        {}.a : struct
        {}['k'] : map
        element_at({}, 'z') : map
        size({}) : map
        extract(HOUR FROM {}) : ivl
        array_max({}) : arr:int
    """),
    "str": parse_templates("""
        {}.b : struct
        to_json({}) : struct
        map_keys({})[0] : map
        CAST({} AS STRING) : ivl
        array_min({}) : arr:str
    """),
    "bool": parse_templates("""
        map_contains_key({}, 'k') : map
        ({} IS NULL) : map
        ({} IS NULL) : struct
        array_contains({}, {}) : arr:str str
        ({} < INTERVAL '1' HOUR) : ivl
    """) + [t for kind in ("struct", "ivl", "arr:int") for t in comparisons(kind)],
    "ts": parse_templates("""
        ({} + {}) : ts ivl
        ({} - {}) : ts ivl
    """),
    "arr:int": parse_templates("""
        map_values({}) : map
        concat({}, {}) : arr:int arr:int
        array({}.a) : struct
    """),
    "arr:str": parse_templates("""
        sort_array(map_keys({})) : map
        concat({}, {}) : arr:str arr:str
    """),
    "struct": parse_templates("""
        named_struct('a', CAST({} AS INT), 'b', {}) : int str
        named_struct('a', {}.a, 'b', {}) : struct str
    """),
    "map": parse_templates("""
        map('k', CAST({} AS INT)) : int
        map_filter({}, (k, v) -> v > 0) : map
        map_from_arrays(array('k', 'y'), array({}.a, 2)) : struct
        transform_values({}, (k, v) -> v + 1) : map
    """),
    "ivl": parse_templates("""
        ({} + {}) : ivl ivl
        ({} - {}) : ts ts
        ({} * 2) : ivl
        (- {}) : ivl
    """),
}  # fmt: skip

LITERALS: dict[str, tuple[str, ...]] = {
    "struct": ("named_struct('a', 1, 'b', 'a')", "CAST(NULL AS STRUCT<a: INT, b: STRING>)"),
    "map": ("map('k', 7)", "CAST(map() AS MAP<STRING, INT>)", "CAST(NULL AS MAP<STRING, INT>)"),
    "ivl": ("INTERVAL '1 02:03:04' DAY TO SECOND", "CAST(NULL AS INTERVAL DAY TO SECOND)"),
}
