"""SQL text to statements: what the user asks to be done, before anything is looked up.

Statements other than queries are few and small, so they are read here word by word: every error then has
its place, and nothing is accepted that is silently ignored later. A query is left to sqlglot (for a view)
or to Spark (for reading).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tailrace.errors import SqlError, SyntaxFault, Unsupported
from tailrace.plan.policy import POLICIES, Refresh
from tailrace.plan.sql import dialect
from tailrace.plan.sql.columns import read_columns
from tailrace.plan.sql.tokens import Words, check_name
from tailrace.types import Column


@dataclass(frozen=True)
class CreateTable:
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    if_not_exists: bool


@dataclass(frozen=True)
class CreateView:
    """`query_sql` is the text of the query as the user wrote it; `query` its tree."""

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


@dataclass(frozen=True)
class Show:
    what: Literal["tables", "views"]


@dataclass(frozen=True)
class Describe:
    name: str


@dataclass(frozen=True)
class Query:
    """A query to be run by Spark, which also checks it."""

    sql: str


Statement = CreateTable | CreateView | Drop | Show | Describe | Query

_QUERY_STARTS = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(")
_INSTEAD = {
    "INSERT": "write rows with db.table(...).put or put_many",
    "UPDATE": "change rows with db.table(...).update or put",
    "DELETE": "remove rows with db.table(...).delete or delete_many",
    "MERGE": "write rows with db.table(...).put_many",
    "TRUNCATE": "remove rows with db.table(...).delete_many",
    "ALTER": "create another table or view and drop this one",
    "REFRESH": "call db.refresh(), which refreshes all views together",
    "EXPLAIN": "call db.explain(view)",
}
_WRITING = (exp.DML, exp.MultitableInserts, exp.DDL, exp.Command)
_OTHERWISE = "Tailrace knows CREATE, DROP, SHOW, DESCRIBE and queries"


def parse(sql: str) -> list[Statement]:
    """The statements of a text, separated by semicolons."""
    return [_statement(sql, words) for words in _split(sql)]


def _split(sql: str) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in dialect.tokens(sql):
        if token.token_type == TokenType.SEMICOLON:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def _statement(sql: str, tokens: list[Token]) -> Statement:
    words = Words(sql, tokens)
    start = words.peek()
    if start in _QUERY_STARTS:
        return Query(sql[tokens[0].start : tokens[-1].end + 1])
    reader = _READERS.get(start)
    if reader is None:
        raise _refused(words)
    words.next()
    return reader(words)


def _refused(words: Words) -> SqlError:
    start = words.peek()
    known = start in _INSTEAD or start in (
        "SET",
        "USE",
        "GRANT",
        "REVOKE",
        "CACHE",
        "ANALYZE",
        "COMMENT",
        "LOAD",
    )
    if not known:
        return SyntaxFault(message=f"no statement begins with {words.text!r}; {_OTHERWISE}", **words.location())
    return Unsupported(construct=start, reason=_INSTEAD.get(start, _OTHERWISE), **words.location())


def _create(words: Words) -> CreateTable | CreateView:
    at = words.location()
    or_replace = words.accept("OR", "REPLACE")
    if words.accept("TABLE"):
        if or_replace:
            raise Unsupported(construct="CREATE OR REPLACE TABLE", reason="drop the table first", **at)
        return _create_table(words)
    if words.accept("MATERIALIZED", "VIEW"):
        return _create_view(words, or_replace)
    if words.peek() == "VIEW":
        raise Unsupported(construct="CREATE VIEW", reason="say CREATE MATERIALIZED VIEW", **words.location())
    raise Unsupported(construct=f"CREATE {words.peek()}", reason=_OTHERWISE, **words.location())


def _create_table(words: Words) -> CreateTable:
    if_not_exists = words.accept("IF", "NOT", "EXISTS")
    name = words.relation()
    if words.peek() == "AS":
        reason = "create the table with its columns, then put the rows"
        raise Unsupported(construct="CREATE TABLE ... AS", reason=reason, **words.location())
    columns, key = read_columns(words, name)
    if words.peek():
        reason = "a table has columns and a primary key only"
        raise Unsupported(construct=f"{words.peek()} in CREATE TABLE", reason=reason, **words.location())
    return CreateTable(name, columns, key, if_not_exists)


def _create_view(words: Words, or_replace: bool) -> CreateView:
    if_not_exists = words.accept("IF", "NOT", "EXISTS")
    name = words.relation()
    if words.peek() == "(":
        reason = "name the columns in its SELECT, with AS"
        raise Unsupported(construct="a column list of a view", reason=reason, **words.location())
    refresh = _refresh(words)
    if words.peek() not in ("AS", ""):
        reason = "a view has a name, WITH (refresh = ...) and a query only"
        raise Unsupported(construct=f"{words.peek()} in CREATE MATERIALIZED VIEW", reason=reason, **words.location())
    words.expect("AS")
    text = words.rest()
    return CreateView(name, text, parse_query(words.only_rest()), if_not_exists, or_replace, refresh)


def _refresh(words: Words) -> Refresh:
    """`WITH (refresh = 'incremental' | 'auto' | 'full')`, the one option a view has."""
    if not words.accept("WITH"):
        return "incremental"
    words.expect("(")
    at, option = words.location(), words.name("option").lower()
    if option != "refresh":
        raise Unsupported(construct=f"option {option}", reason="a view has one option: refresh", **at)
    words.expect("=")
    at, chosen = words.location(), words.next().text.lower()
    policy = next((p for p in POLICIES if p == chosen), None)
    if policy is None:
        known = ", ".join(f"'{p}'" for p in POLICIES)
        raise Unsupported(construct=f"refresh = {chosen!r}", reason=f"it is one of {known}", **at)
    words.expect(")")
    return policy


def parse_query(sql: str) -> exp.Expr:
    """The tree of one query, for `build`."""
    found = dialect.parse(sql)
    if len(found) != 1 or not isinstance(found[0], exp.Query | exp.Values):
        where = dialect.location(found[0]) if found else {}
        raise SyntaxFault(message="a view needs one query (SELECT ...)", **where)
    return found[0]


def only_query(found: list[exp.Expr]) -> list[exp.Expr]:
    """The trees of a text that Spark is to run, if that is all it does: Spark would also write files and tables."""
    for tree in found:
        table = isinstance(tree, exp.Alias) and tree.this.name.upper() == "TABLE"  # so sqlglot reads TABLE t
        if not (table or isinstance(tree, exp.Query | exp.Values)) or tree.find(*_WRITING):
            raise Unsupported(construct="a statement that is no query", reason=_OTHERWISE, **dialect.location(tree))
    return found


def _drop(words: Words) -> Drop:
    at = words.location()
    kind: Literal["table", "view"]
    if words.accept("TABLE"):
        kind = "table"
    elif words.accept("MATERIALIZED", "VIEW") or words.accept("VIEW"):
        kind = "view"
    else:
        raise Unsupported(construct=f"DROP {words.peek()}".strip(), reason="say DROP TABLE or DROP VIEW", **at)
    if_exists = words.accept("IF", "EXISTS")
    name = words.relation()
    words.end()
    return Drop(kind, name, if_exists)


def _show(words: Words) -> Show:
    at, what = words.location(), words.remaining().upper()
    if what == "TABLES":
        return Show("tables")
    if what in ("VIEWS", "MATERIALIZED VIEWS"):
        return Show("views")
    raise Unsupported(construct=f"SHOW {what}".strip(), reason="say SHOW TABLES or SHOW VIEWS", **at)


def _describe(words: Words) -> Describe:
    words.accept("TABLE")
    name = words.relation()
    words.end()
    return Describe(name)


_READERS: dict[str, Callable[[Words], Statement]] = {
    "CREATE": _create,
    "DROP": _drop,
    "SHOW": _show,
    "DESCRIBE": _describe,
    "DESC": _describe,
}

__all__ = [
    "CreateTable",
    "CreateView",
    "Describe",
    "Drop",
    "Query",
    "Show",
    "Statement",
    "check_name",
    "only_query",
    "parse",
    "parse_query",
]
