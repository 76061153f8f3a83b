"""Parsing of SQL text into statements."""

from __future__ import annotations

import pytest

from tailrace.errors import SqlError, SyntaxFault, Unsupported
from tailrace.plan.sql.statements import (
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Query,
    Show,
    Statement,
    parse,
    parse_query,
)
from tailrace.types import Column


def one(sql: str) -> Statement:
    (statement,) = parse(sql)
    return statement


def test_create_table_with_every_type() -> None:
    types = {
        "BOOLEAN": "boolean", "TINYINT": "tinyint", "SMALLINT": "smallint", "INT": "int", "INTEGER": "int",
        "BIGINT": "bigint", "FLOAT": "float", "REAL": "float", "DOUBLE": "double", "DECIMAL": "decimal(10,0)",
        "DECIMAL(12, 2)": "decimal(12,2)", "numeric(5)": "decimal(5,0)", "STRING": "string", "TEXT": "string",
        "VARCHAR(20)": "string", "CHAR(3)": "string", "BINARY": "binary", "DATE": "date",
        "TIMESTAMP": "timestamp", "TIMESTAMP_NTZ": "timestamp_ntz",
    }  # fmt: skip
    columns = ", ".join(f"c{i} {t}" for i, t in enumerate(types))
    made = one(f"CREATE TABLE Every (Id BIGINT PRIMARY KEY, {columns})")
    assert isinstance(made, CreateTable)
    assert made.name == "every"
    assert made.key == ("Id",)
    assert made.columns == (
        Column("Id", "bigint"),
        *(Column(f"c{i}", t) for i, t in enumerate(types.values())),
    )


def test_create_table_with_a_composite_key() -> None:
    made = one("create table if not exists `My Table` (a int not null, B string null, primary  key (b, A))")
    assert made == CreateTable("my table", (Column("a", "int"), Column("B", "string")), ("B", "a"), True)


def test_create_view_keeps_the_text_of_its_query() -> None:
    made = one("-- hi\nCREATE MATERIALIZED VIEW IF NOT EXISTS Spend AS\n  SELECT  cust\n  FROM orders -- all\n;")
    assert isinstance(made, CreateView)
    assert (made.name, made.if_not_exists, made.or_replace) == ("spend", True, False)
    assert made.query_sql == "SELECT  cust\n  FROM orders"
    made = one("create or replace materialized view v as with x as (select a from t) select * from x")
    assert isinstance(made, CreateView)
    assert made.or_replace
    assert made.query_sql.startswith("with x")


def test_other_statements() -> None:
    text = """
        drop table if exists T; DROP MATERIALIZED VIEW v; drop view `V W`; show tables;
        SHOW  materialized   views; show views; describe t; desc table `Q`; select 1, 'a;b' from t; ;
        values (1); with x as (select 1) table x
    """
    assert parse(text) == [
        Drop("table", "t", True),
        Drop("view", "v", False),
        Drop("view", "v w", False),
        Show("tables"),
        Show("views"),
        Show("views"),
        Describe("t"),
        Describe("q"),
        Query("select 1, 'a;b' from t"),
        Query("values (1)"),
        Query("with x as (select 1) table x"),
    ]
    assert parse(" ; -- nothing") == []


def test_nested_types() -> None:
    text = """CREATE TABLE t (id INT PRIMARY KEY, a ARRAY<ARRAY<LONG>>, s STRUCT<x: INT, Y string, z:DEC(4, 1)>,
              q STRUCT<`a b`: INT, `c,:<` STRING>,
              m MAP<STRING, STRUCT<v: ARRAY<VARCHAR(3)>>>, i INTERVAL DAY TO SECOND)"""
    [table] = parse(text)
    assert isinstance(table, CreateTable)
    assert [c.type for c in table.columns] == [
        "int",
        "array<array<bigint>>",
        "struct<x:int,Y:string,z:decimal(4,1)>",
        "struct<`a b`:int,`c,:<`:string>",
        "map<string,struct<v:array<string>>>",
        "interval day to second",
    ]


@pytest.mark.parametrize(
    ("sql", "says", "location"),
    [
        ("create table t (a int)", "no primary key", (1, 16)),
        ("create table t (a int primary key, A string)", "two columns named 'A'", (1, 36)),
        ("create table t (a int primary key, primary key (a))", "two primary keys", (1, 36)),
        ("create table t (a int, primary key (b))", "'b' is not a column of 't'", (1, 37)),
        ("create table t (a int, primary key (a, a))", "names a column twice", (1, 16)),
        ("create table t (a decimal(39,2) primary key)", "1 <= p <= 38", (1, 19)),
        ("create table t (a int primary key, b struct<c: int, C: int>)", "two fields named 'C'", (1, 53)),
        ("create table t (a int primary key, b array<int)", "expected >", (1, 47)),
        ("create table t (a int primary key, b map<int>)", "expected ,", (1, 45)),
        ("create table t (_weight int primary key)", "'_weight'", (1, 17)),
        (f"create table {'x' * 129} (a int primary key)", "129 characters", (1, 14)),
        (f"create table t ({'x' * 129} int primary key)", "129 characters", (1, 17)),
        ("create table `` (a int primary key)", "must not be empty", (1, 14)),
        ("create table `a\0b` (a int primary key)", "or contain NUL", (1, 14)),
    ],
)
def test_faults(sql: str, says: str, location: tuple[int, int]) -> None:
    with pytest.raises(SqlError) as caught:
        parse(sql)
    assert says in str(caught.value)
    assert (caught.value.line, caught.value.column) == location


@pytest.mark.parametrize(
    ("sql", "construct", "location"),
    [
        ("create table t (a int primary key,\n b array<time>)", "type TIME", (2, 10)),
        ("create table t (a int primary key, b array)", "type ARRAY", (1, 38)),
        ("create table t (a int primary key, b struct<>)", "type STRUCT", (1, 38)),
        ("create table t (a int primary key, b struct<c int not null>)", "NOT on field 'c'", (1, 51)),
        (
            "create table t (a int primary key, b map<map<int, int>, int>)",
            "a map whose keys contain maps",
            (1, 42),
        ),
        ("create table t (a int primary key, b interval year)", "type INTERVAL YEAR", (1, 38)),
        ("create table t (a int primary key, b interval hour)", "type INTERVAL HOUR", (1, 38)),
        ("create table t (a int primary key, b interval)", "type INTERVAL", (1, 38)),
        ("create table t (a int primary key, b variant)", "type VARIANT", (1, 38)),
        ("create table t (a array<int> primary key)", "ARRAY<INT> as a key", (1, 30)),
        ("create table t (a map<int, int>, primary key (a))", "MAP<INT,INT> as a key", (1, 47)),
        (f"create table t (a int primary key, b {'array<' * 40}int{'>' * 40})", "type ARRAY", (1, 236)),
        ("create table t (a int primary key, b foo)", "type FOO", (1, 38)),
        ("create table t (a int primary key, b int not null)", "NOT NULL on column 'b'", (1, 42)),
        ("create table t (a int primary key, b int default 3)", "DEFAULT on column 'b'", (1, 42)),
        ("create table t (a int primary key, unique (a))", "constraint UNIQUE", (1, 36)),
        ("create table t (a int primary key) using parquet", "USING in CREATE TABLE", (1, 36)),
        ("create table t as select 1", "CREATE TABLE ... AS", (1, 16)),
        ("create table db.t (a int primary key)", "a qualified name", (1, 14)),
        ("create or replace table t (a int primary key)", "CREATE OR REPLACE TABLE", (1, 8)),
        ("create view v as select 1", "CREATE VIEW", (1, 8)),
        ("create materialized view v (a) as select 1", "a column list of a view", (1, 28)),
        ("create index i on t (a)", "CREATE INDEX", (1, 8)),
        ("create", "CREATE", None),
        ("drop database d", "DROP DATABASE", (1, 6)),
        ("show create table t", "SHOW CREATE TABLE T", None),
        ("select 1;\n insert into t values (1)", "INSERT", (2, 2)),
        ("update t set a = 1", "UPDATE", (1, 1)),
        ("delete from t", "DELETE", (1, 1)),
        ("alter table t add b int", "ALTER", (1, 1)),
        ("merge into t using u on true when matched then delete", "MERGE", (1, 1)),
        ("explain select 1", "EXPLAIN", (1, 1)),
    ],
)
def test_unsupported(sql: str, construct: str, location: tuple[int, int] | None) -> None:
    with pytest.raises(Unsupported) as caught:
        parse(sql)
    assert caught.value.construct == construct
    assert location is None or (caught.value.line, caught.value.column) == location


@pytest.mark.parametrize(
    ("sql", "location"),
    [
        ("foo bar", (1, 1)),
        ("drop table", (1, 11)),
        ("drop table a b", (1, 14)),
        ("create table t (a int primary key", (1, 34)),
        ("create table t (a int primary key, b)", (1, 37)),
        ("create table 'x' (a int primary key)", (1, 14)),
        ("create materialized view v as", (1, 30)),
        ("create materialized view v as drop table x", (1, 42)),
        ("create materialized view v as\nselect a,, b from t", (2, 10)),
        ("create materialized view v as\nselect a, from t", (2, 11)),
        ("create materialized view v as select a from t where b = = 3", (1, 57)),
        ("create materialized view v as select (a from t", (1, 41)),
        ("select a from t where c = 'abc", (1, 27)),
        ("select a /* never ends", (1, 10)),
        ("select `a from t", (1, 8)),
    ],
)
def test_syntax(sql: str, location: tuple[int, int]) -> None:
    with pytest.raises(SyntaxFault) as caught:
        parse(sql)
    assert (caught.value.line, caught.value.column) == location
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select a from", "expected the name of a table or view after 'from', found the end of the text"),
        ("select a from where b", "expected the name of a table or view after 'from', found 'where'"),
        ("select a b c from t", "unexpected 'c'"),
        ("select (1 from t", "expected ), found 'from'"),
        ("select a from (select 1", "expected ), found the end of the text"),
        ("select cast(a as ) from t", "expected a type after CAST, found ')'"),
        ("select case when a then 2 from t", "expected END after CASE, near '2'"),
        ("select a from t where", "something is missing after 'where'"),
        ("select a from t where group by a", "something is missing after 'where'"),
    ],
)
def test_syntax_errors_in_plain_words(sql: str, message: str) -> None:
    with pytest.raises(SyntaxFault) as caught:
        parse_query(sql)
    assert caught.value.message == message


def test_a_deeply_nested_query_is_an_error_not_a_crash() -> None:
    with pytest.raises(SqlError):
        parse_query("select " + "(" * 5000 + "a" + ")" * 5000 + " from t")
