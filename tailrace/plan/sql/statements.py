"""Parses SQL text into statements. No table or view is looked up here.

Statements other than queries are few and small, so they are parsed here word by word. This gives every error a
location, and no part of a statement is accepted and then ignored. sqlglot parses the query of a view; Spark parses a
query that only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tailrace.errors import SqlError, SyntaxFault, Unsupported
from tailrace.plan.policy import POLICIES, Refresh
from tailrace.plan.sql import dialect
from tailrace.plan.sql.altering import Alter, ShowCreate, read_alter, read_show_create
from tailrace.plan.sql.columns import read_columns
from tailrace.plan.sql.durations import duration_micros
from tailrace.plan.sql.quantified import rewrite_quantified
from tailrace.plan.sql.tokens import Location, Words, check_name
from tailrace.types import Column


@dataclass(frozen=True)
class TimeToLive:
    """Rows are deleted when the time in `column` is `micros` microseconds ago."""

    column: str
    micros: int


@dataclass(frozen=True)
class CreateTable:
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    if_not_exists: bool
    ttl: TimeToLive | None = None
    defaults: Mapping[str, str] = field(default_factory=dict)
    place: Mapping[str, str] = field(default_factory=dict)
    """Options for kinds of stores, such as `hbase.table`."""


@dataclass(frozen=True)
class CreateView:
    """`query` is the syntax tree of the query. `query_sql` is the text of that tree, for Spark.

    It is the text that the user wrote, unless Spark does not have a construct in it (`plan/sql/quantified.py`).
    """

    name: str
    query_sql: str
    query: exp.Expr
    if_not_exists: bool
    or_replace: bool
    refresh: Refresh = "incremental"


@dataclass(frozen=True)
class Drop:
    kind: Literal["table", "view"]
    name: str
    if_exists: bool
    cascade: bool = False


@dataclass(frozen=True)
class Show:
    what: Literal["tables", "views"]


@dataclass(frozen=True)
class Describe:
    name: str


@dataclass(frozen=True)
class Query:
    """A query that Spark checks and runs."""

    sql: str


Statement = CreateTable | CreateView | Alter | Drop | Show | ShowCreate | Describe | Query

_QUERY_STARTS = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(")
_ALTERNATIVES = {
    "INSERT": "write rows with `tailrace put` or `tailrace load`, or with db.table(...).put_many",
    "UPDATE": "change rows with `tailrace put --update`, or with db.table(...).update",
    "DELETE": "remove rows with `tailrace delete`, or with db.table(...).delete_many",
    "MERGE": "write rows with `tailrace put` or `tailrace load`, or with db.table(...).put_many",
    "TRUNCATE": "remove rows with `tailrace delete`, or with db.table(...).delete_many",
    "REFRESH": "run `tailrace refresh` or call db.refresh(); both refresh all views together",
    "EXPLAIN": "run `tailrace explain` or call db.explain(view)",
}
_SHOWN = "write SHOW TABLES, SHOW VIEWS, SHOW CREATE TABLE or SHOW CREATE VIEW"
_OTHER_SPARK_STATEMENTS = ("SET", "USE", "GRANT", "REVOKE", "CACHE", "ANALYZE", "COMMENT", "LOAD")
_WRITING_NODES = (exp.DML, exp.MultitableInserts, exp.DDL, exp.Command)
_SUPPORTED = "Tailrace supports CREATE, ALTER, DROP, SHOW, DESCRIBE and queries"


@dataclass(frozen=True)
class Located:
    """A statement, and the line and column (from 1) where it begins."""

    statement: Statement
    line: int
    column: int


def parse(sql: str) -> list[Statement]:
    """Parses statements separated by semicolons."""
    return [located.statement for located in parse_located(sql)]


def parse_located(sql: str) -> list[Located]:
    """As `parse`, with the places of the statements."""
    return [
        Located(_parse_statement(sql, tokens), **Words(sql, tokens).location()) for tokens in _split_statements(sql)
    ]


def split(sql: str) -> list[str]:
    """The texts of statements separated by semicolons, each as written."""
    return [sql[tokens[0].start : tokens[-1].end + 1] for tokens in _split_statements(sql)]


def _split_statements(sql: str) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in dialect.tokens(sql):
        if token.token_type == TokenType.SEMICOLON:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _parse_statement(sql: str, tokens: list[Token]) -> Statement:
    words = Words(sql, tokens)
    start = words.peek()
    if start in _QUERY_STARTS:
        return Query(sql[tokens[0].start : tokens[-1].end + 1])
    reader = _READERS.get(start)
    if reader is None:
        raise _refusal(words)
    words.next()
    return reader(words)


def _refusal(words: Words) -> SqlError:
    """`Unsupported` for a statement that Spark has, `SyntaxFault` for anything else."""
    start = words.peek()
    if start not in _ALTERNATIVES and start not in _OTHER_SPARK_STATEMENTS:
        return SyntaxFault(message=f"no statement begins with {words.text!r}; {_SUPPORTED}", **words.location())
    return Unsupported(construct=start, reason=_ALTERNATIVES.get(start, _SUPPORTED), **words.location())


def _read_create(words: Words) -> CreateTable | CreateView:
    location = words.location()
    or_replace = words.accept("OR", "REPLACE")
    if words.accept("TABLE"):
        if or_replace:
            raise Unsupported(construct="CREATE OR REPLACE TABLE", reason="drop the table first", **location)
        return _read_create_table(words)
    if words.accept("MATERIALIZED", "VIEW"):
        return _read_create_view(words, or_replace)
    if words.peek() == "VIEW":
        raise Unsupported(construct="CREATE VIEW", reason="write CREATE MATERIALIZED VIEW", **words.location())
    reason = "write CREATE TABLE or CREATE MATERIALIZED VIEW"
    raise Unsupported(construct=f"CREATE {words.peek()}".strip(), reason=reason, **words.location())


def _read_create_table(words: Words) -> CreateTable:
    if_not_exists = words.accept("IF", "NOT", "EXISTS")
    name = words.read_relation()
    if words.peek() == "AS":
        reason = "create the table with its columns, then write rows with `tailrace load` or db.table(...).put_many"
        raise Unsupported(construct="CREATE TABLE ... AS", reason=reason, **words.location())
    columns, key, defaults = read_columns(words, name)
    where, options = words.location(), _read_options(words)
    if words.peek():
        reason = "a table has only columns, a primary key and WITH (ttl = ..., ttl_column = ...)"
        raise Unsupported(construct=f"{words.peek()} in CREATE TABLE", reason=reason, **words.location())
    place = {option: value for option, value in options.items() if "." in option}
    return CreateTable(name, columns, key, if_not_exists, _ttl(options, columns, where), defaults, place)


def _read_options(words: Words) -> dict[str, str]:
    """Reads `WITH (ttl = '30 days', ttl_column = 'ts')`. An option of a kind of store has a dot: `hbase.table`."""
    options: dict[str, str] = {}
    if not words.accept("WITH"):
        return options
    words.expect("(")
    while not options or words.accept(","):
        location, option = words.location(), words.read_name("table option").lower()
        if words.accept("."):
            option += f".{words.read_name('table option').lower()}"
        if (option not in ("ttl", "ttl_column") and "." not in option) or option in options:
            reason = "the options of a table are ttl, ttl_column, hbase.table and hbase.columns, each once"
            raise Unsupported(construct=f"option {option}", reason=reason, **location)
        words.expect("=")
        options[option] = words.next().text
    words.expect(")")
    return options


def _ttl(options: Mapping[str, str], columns: tuple[Column, ...], where: Location) -> TimeToLive | None:
    given = [option for option in options if "." not in option]
    if not given:
        return None
    if len(given) < 2:
        message = "a time to live needs both ttl and ttl_column, as in WITH (ttl = '30 days', ttl_column = 'ts')"
        raise SqlError(message=message, **where)
    micros = duration_micros(options["ttl"])
    if micros is None or micros <= 0:
        raise SqlError(message="ttl is a positive duration such as '30 days', in weeks or smaller units", **where)
    column = next((c for c in columns if c.name.lower() == options["ttl_column"].lower()), None)
    if column is None or column.type not in ("date", "timestamp", "timestamp_ntz"):
        message = f"ttl_column {options['ttl_column']!r} must be a column of type DATE or TIMESTAMP"
        raise SqlError(message=message, **where)
    return TimeToLive(column.name, micros)


def _read_create_view(words: Words, or_replace: bool) -> CreateView:
    if_not_exists = words.accept("IF", "NOT", "EXISTS")
    name = words.read_relation()
    if words.peek() == "(":
        reason = "name the columns with AS in the SELECT"
        raise Unsupported(construct="a column list of a view", reason=reason, **words.location())
    refresh = _read_refresh(words)
    if words.peek() not in ("AS", ""):
        reason = "a view has only a name, WITH (refresh = ...) and a query"
        raise Unsupported(construct=f"{words.peek()} in CREATE MATERIALIZED VIEW", reason=reason, **words.location())
    words.expect("AS")
    written = parse_query(words.padded_rest())
    query = rewrite_quantified(written)
    query_sql = words.rest() if query is written else dialect.generate(query)
    return CreateView(name, query_sql, query, if_not_exists, or_replace, refresh)


def _read_refresh(words: Words) -> Refresh:
    """Reads `WITH (refresh = 'incremental' | 'auto' | 'full')`, the only option of a view."""
    if not words.accept("WITH"):
        return "incremental"
    words.expect("(")
    location, option = words.location(), words.read_name("view option").lower()
    if option != "refresh":
        raise Unsupported(construct=f"option {option}", reason="the only option of a view is refresh", **location)
    words.expect("=")
    location, chosen = words.location(), words.next().text.lower()
    policy = next((p for p in POLICIES if p == chosen), None)
    if policy is None:
        known = ", ".join(f"'{p}'" for p in POLICIES)
        raise Unsupported(construct=f"refresh = {chosen!r}", reason=f"use one of {known}", **location)
    words.expect(")")
    return policy


def parse_query(sql: str) -> exp.Expr:
    """Parses the query of a view; the text must be exactly one query."""
    trees = dialect.parse(sql)
    if len(trees) != 1 or not isinstance(trees[0], exp.Query | exp.Values):
        location = dialect.location(trees[0]) if trees else {}
        raise SyntaxFault(message="a view needs exactly one query (SELECT ...)", **location)
    return trees[0]


def only_query(trees: list[exp.Expr]) -> list[exp.Expr]:
    """Raises `Unsupported` if a tree is not a query. Required before Spark runs the text: Spark could also write."""
    for tree in trees:
        if not (is_table_statement(tree) or isinstance(tree, exp.Query | exp.Values)) or tree.find(*_WRITING_NODES):
            reason = "begin with SELECT, WITH, VALUES, FROM or TABLE, and write no data"
            construct = "a statement other than a query here"
            raise Unsupported(construct=construct, reason=reason, **dialect.location(tree))
    return trees


def is_table_statement(tree: exp.Expr) -> bool:
    """Whether it is TABLE t, which sqlglot parses as a column with the alias t."""
    return isinstance(tree, exp.Alias) and bool(tree.this.name.upper() == "TABLE")


def _read_drop(words: Words) -> Drop:
    location = words.location()
    kind: Literal["table", "view"]
    if words.accept("TABLE"):
        kind = "table"
    elif words.accept("MATERIALIZED", "VIEW") or words.accept("VIEW"):
        kind = "view"
    else:
        raise Unsupported(construct=f"DROP {words.peek()}".strip(), reason="write DROP TABLE or DROP VIEW", **location)
    if_exists = words.accept("IF", "EXISTS")
    name = words.read_relation()
    cascade = words.accept("CASCADE")
    words.expect_end()
    return Drop(kind, name, if_exists, cascade)


def _read_show(words: Words) -> Show | ShowCreate:
    if words.remaining_words().upper().startswith("CREATE"):
        text = words.next_text()  # sqlglot does not read what follows SHOW
        return read_show_create(Words(text, dialect.tokens(text)))
    location, what = words.location(), words.remaining_words().upper()
    if what == "TABLES":
        return Show("tables")
    if what in ("VIEWS", "MATERIALIZED VIEWS"):
        return Show("views")
    raise Unsupported(construct=f"SHOW {what}".strip(), reason=_SHOWN, **location)


def _read_describe(words: Words) -> Describe:
    words.accept("TABLE")
    name = words.read_relation()
    words.expect_end()
    return Describe(name)


_READERS: dict[str, Callable[[Words], Statement]] = {
    "CREATE": _read_create,
    "ALTER": read_alter,
    "DROP": _read_drop,
    "SHOW": _read_show,
    "DESCRIBE": _read_describe,
    "DESC": _read_describe,
}

__all__ = [
    "CreateTable",
    "CreateView",
    "Describe",
    "Drop",
    "Located",
    "Query",
    "Show",
    "Statement",
    "check_name",
    "is_table_statement",
    "only_query",
    "parse",
    "parse_located",
    "parse_query",
    "split",
]
