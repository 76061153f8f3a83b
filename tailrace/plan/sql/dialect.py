"""Spark's SQL, read without translating it.

sqlglot is made to carry SQL from one dialect to another, so its Spark dialect renames functions and adds
casts. Here an expression must come out as it went in: what it means is for Spark alone to say. So every
call stays a plain call (`exp.Anonymous`), except where the grammar itself is special (CAST, EXTRACT,
TRIM, ...), and what Spark 4 reads differently from sqlglot's Spark (`''` in a string) is put right.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from tailrace.errors import SyntaxFault

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_MISSING = re.compile(r"Required (?:keyword|argument): .* missing for .*")
_UNCLOSED = re.compile(r"Missing (\S+) from \d+:(\d+)")
_SPECIAL_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "OVERLAY", "POSITION", "SUBSTRING", "SUBSTR")
_TYPED_LITERALS = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIME")


_NO_ITEM = (None, TokenType.R_PAREN, TokenType.FROM, TokenType.WHERE, TokenType.SEMICOLON)
# What sqlglot gives no position of its own, though errors point at it.
_STAMPED = (
    "_parse_function_call", "_parse_placeholder", "_parse_select", "parse_set_operation", "_parse_with",
    "_parse_join", "_parse_lateral", "_parse_pivot", "_parse_table_sample", "_parse_cube_or_rollup",
    "_parse_grouping_sets",
)  # fmt: skip


def _stamped(parse_part: Callable[..., Any]) -> Callable[..., Any]:
    """A parser method whose node also knows the token it began with."""

    def parse(self: Any, *args: Any, **kwargs: Any) -> Any:
        token = self._curr
        found = parse_part(self, *args, **kwargs)
        # A query modifier comes as (argument, node).
        node = found[1] if isinstance(found, tuple) else found
        if isinstance(node, exp.Expr) and token is not None and "line" not in node.meta:
            node.update_positions(token)
        return found

    return parse


class Verbatim(Spark):
    """Spark SQL in which a function call is generated exactly as it was parsed."""

    class Tokenizer(Spark.Tokenizer):
        # Spark 4 reads 'it''s' as one string, sqlglot as two that are concatenated without the quote.
        STRING_ESCAPES = ["\\", "'", '"']

    class Parser(Spark.Parser):  # type: ignore[misc, valid-type]
        FUNCTIONS: dict[str, Any] = {}
        FUNCTION_PARSERS = {name: Spark.Parser.FUNCTION_PARSERS[name] for name in _SPECIAL_SYNTAX}
        # array(1, 2)[0] is an element of an array here, not sqlglot's ARRAY[0].
        ARRAY_CONSTRUCTORS: dict[str, Any] = {}
        # Not IF, ANY, TRANSFORM: in Spark they are functions like any other.
        NO_PAREN_FUNCTION_PARSERS = {"CASE": Spark.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]}

        QUERY_MODIFIER_PARSERS = {token: _stamped(part) for token, part in Spark.Parser.QUERY_MODIFIER_PARSERS.items()}

        def _parse_pivot_aggregation(self) -> exp.Expr | None:
            # Spark takes an expression over aggregates, sqlglot a single call.
            parsed: exp.Expr | None = self._parse_alias(self._parse_bitwise())
            return parsed

        def _parse_types(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
            # In an expression (check_func) Spark has types only before a string, as in DATE '2026-01-31';
            # sqlglot would also read ARRAY(1, 2)[0] as a type and lose the values.
            if kwargs.get("check_func") and not self._at_typed_literal():
                return None
            parsed: exp.Expr | None = super()._parse_types(*args, **kwargs)
            return parsed

        def _at_typed_literal(self) -> bool:
            following = self._next
            return (
                self._curr is not None
                and self._curr.text.upper() in _TYPED_LITERALS
                and following is not None
                and following.token_type in (TokenType.STRING, TokenType.RAW_STRING)
            )

    class Generator(Spark.Generator):  # type: ignore[misc, valid-type]
        # sqlglot's Spark has no TIME and would write TIMESTAMP.
        TYPE_MAPPING = {**Spark.Generator.TYPE_MAPPING, exp.DType.TIME: "TIME"}


for _name in _STAMPED:
    setattr(Verbatim.Parser, _name, _stamped(getattr(Spark.Parser, _name)))


def tokens(sql: str) -> list[Token]:
    try:
        return list(Verbatim().tokenize(sql))
    except TokenError as error:
        raise _fault(error, sql) from None


def parse(sql: str) -> list[exp.Expr]:
    """The statements of a text; `SyntaxFault` with line and column if it is not SQL."""
    found = tokens(sql)
    _require_items(found)
    try:
        return [s for s in Verbatim().parser().parse(found, sql) if s is not None]
    except (ParseError, TokenError) as error:
        raise _fault(error, sql) from None
    except RecursionError:
        raise SyntaxFault(message="it is nested too deeply") from None


def _require_items(found: list[Token]) -> None:
    """sqlglot passes over the missing item in `a,, b` and in `a, FROM`; Spark does not."""
    for token, following in zip(found, [*found[1:], None], strict=True):
        opens = token.token_type in (TokenType.COMMA, TokenType.L_PAREN)
        after = None if following is None else following.token_type
        if (opens and after == TokenType.COMMA) or (token.token_type == TokenType.COMMA and after in _NO_ITEM):
            at = following or token
            column = max(at.col - (at.end - at.start), 1)
            message = f"something is missing before {at.text!r}" if following else "it ends after ','"
            raise SyntaxFault(message=message, line=at.line, column=column)


def generate(node: exp.Expr) -> str:
    return node.sql(dialect=Verbatim, comments=False)


def _fault(error: ParseError | TokenError, sql: str) -> SyntaxFault:
    details = getattr(error, "errors", None)
    if details:
        first = details[0]
        message = _ANSI.sub("", str(first["description"])).rstrip(".")
        message = _MISSING.sub("something is missing", message)
        if first.get("highlight"):
            message = f"{message} near {first['highlight']!r}"
        column = first["col"] - max(len(first.get("highlight") or ""), 1) + 1
        return SyntaxFault(message=message, line=first["line"], column=max(column, 1))
    found = _UNCLOSED.search(str(error.__cause__ or error))
    # sqlglot gives the offset where the string begins; of a comment it says nothing.
    what, offset = (found[1], int(found[2])) if found else ("/*", sql.rfind("/*"))
    if 0 <= offset < len(sql):
        return SyntaxFault(message=f"{what} is opened and never closed", **location_at(sql, offset))
    return SyntaxFault(message=_ANSI.sub("", str(error)).splitlines()[0])


def location_at(sql: str, offset: int) -> dict[str, int]:
    before = sql[:offset]
    return {"line": before.count("\n") + 1, "column": offset - before.rfind("\n")}


def location(node: exp.Expr) -> dict[str, int]:
    """Line and column (both from 1) where `node` begins in the text, as keywords for an error."""
    placed = [node] if "line" in node.meta else [n for n in node.walk() if "line" in n.meta]
    if not placed:
        return {}
    _, line, column = min(_start(n) for n in placed)
    return {"line": line, "column": column}


def _start(node: exp.Expr) -> tuple[int, int, int]:
    # sqlglot's `col` is where a token ends.
    meta = node.meta
    return meta["start"], meta["line"], max(meta["col"] - (meta["end"] - meta["start"]), 1)
