"""Parses and generates Spark SQL without translating it.

sqlglot translates between dialects, so its Spark dialect renames functions and adds casts. Tailrace must generate an
expression exactly as it was parsed, because Spark alone defines its meaning. So every function call stays a plain
call (`exp.Anonymous`), except where the grammar is special (CAST, EXTRACT, TRIM, ...). The dialect below also corrects
sqlglot where Spark 4 parses differently, such as `''` in a string.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from tailrace.errors import SyntaxFault

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_MISSING = re.compile(r"Required (?:keyword|argument): .* missing for .*")
_EXPECTED = re.compile(r"Expect(?:ed|ing) (.*)")
_UNCLOSED = re.compile(r"Missing (\S+) from \d+:(\d+)")
_SPECIAL_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "OVERLAY", "POSITION", "SUBSTRING", "SUBSTR")
_TYPED_LITERALS = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIME")

_LIST_ENDS = (None, TokenType.R_PAREN, TokenType.FROM, TokenType.WHERE, TokenType.SEMICOLON)
# Parser methods whose nodes get no position from sqlglot. Errors need one.
_WITHOUT_POSITION = (
    "_parse_function_call", "_parse_placeholder", "_parse_select", "parse_set_operation", "_parse_with",
    "_parse_join", "_parse_lateral", "_parse_pivot", "_parse_table_sample", "_parse_cube_or_rollup",
    "_parse_grouping_sets",
)  # fmt: skip


def _with_position(parse_part: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a parser method so that its node records the position of its first token."""

    def parse(self: Any, *args: Any, **kwargs: Any) -> Any:
        token = self._curr
        parsed = parse_part(self, *args, **kwargs)
        # The parser of a query modifier returns (argument, node).
        node = parsed[1] if isinstance(parsed, tuple) else parsed
        if isinstance(node, exp.Expr) and token is not None and "line" not in node.meta:
            node.update_positions(token)
        return parsed

    return parse


class Verbatim(Spark):
    """Spark SQL that generates a function call exactly as it was parsed."""

    class Tokenizer(Spark.Tokenizer):
        # Spark 4 reads 'it''s' as one string. sqlglot would read two strings and lose the quote.
        STRING_ESCAPES = ["\\", "'", '"']

    class Parser(Spark.Parser):  # type: ignore[misc, valid-type]
        FUNCTIONS: dict[str, Any] = {}
        FUNCTION_PARSERS = {name: Spark.Parser.FUNCTION_PARSERS[name] for name in _SPECIAL_SYNTAX}
        # array(1, 2)[0] is an element of an array. sqlglot would parse ARRAY[0].
        ARRAY_CONSTRUCTORS: dict[str, Any] = {}
        # Without IF, ANY and TRANSFORM, which are ordinary functions in Spark.
        NO_PAREN_FUNCTION_PARSERS = {"CASE": Spark.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]}

        QUERY_MODIFIER_PARSERS = {
            token: _with_position(part) for token, part in Spark.Parser.QUERY_MODIFIER_PARSERS.items()
        }

        def _parse_pivot_aggregation(self) -> exp.Expr | None:
            # Spark allows an expression over aggregates, sqlglot only a single call.
            parsed: exp.Expr | None = self._parse_alias(self._parse_bitwise())
            return parsed

        def _parse_types(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
            # In an expression (check_func), Spark allows a type only before a string: DATE '2026-01-31'.
            # sqlglot would also parse ARRAY(1, 2)[0] as a type and lose the values.
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

        def raise_error(self, message: str, token: Token | None = None) -> None:
            """Reports an error in the words of this module instead of sqlglot's."""
            found = token or self._curr
            found_text = self._text_of(found) if found else "the end of the text"
            before = self._text_of(self._prev) if self._prev else "the beginning"
            super().raise_error(_plain_message(message, found_text, before, is_next=not token), found or self._prev)

        def _text_of(self, token: Token) -> str:
            return repr(self.sql[token.start : token.end + 1])

    class Generator(Spark.Generator):  # type: ignore[misc, valid-type]
        # sqlglot would generate TIMESTAMP for TIME.
        TYPE_MAPPING = {**Spark.Generator.TYPE_MAPPING, exp.DType.TIME: "TIME"}
        # Spark has WITH in subqueries. sqlglot would move it to the outermost query.
        EXPRESSIONS_WITHOUT_NESTED_CTES: set[type[exp.Expr]] = set()


for _name in _WITHOUT_POSITION:
    setattr(Verbatim.Parser, _name, _with_position(getattr(Spark.Parser, _name)))


def _plain_message(message: str, found: str, before: str, *, is_next: bool) -> str:
    """sqlglot's error message in plain words. `is_next`: `found` is the token after `before`, where parsing stopped."""
    message = _ANSI.sub("", message).rstrip(".")
    if message == "Invalid expression / Unexpected token":
        return f"unexpected {found.removeprefix('the ')}"
    if _MISSING.match(message):
        return f"something is missing after {before}"
    if message.startswith("Expected table name but got"):
        return f"expected the name of a table or view after {before}, found {found}"
    if expected := _EXPECTED.match(message):
        what = expected[1].replace("TYPE after", "a type after")
        return f"expected {what}, found {found}" if is_next else f"expected {what}, near {found}"
    return f"{message} near {found}"


def tokens(sql: str) -> list[Token]:
    try:
        return list(Verbatim().tokenize(sql))
    except TokenError as error:
        raise _fault(error, sql) from None


def parse(sql: str) -> list[exp.Expr]:
    """The syntax trees of all statements; raises `SyntaxFault` with line and column if the text does not parse."""
    all_tokens = tokens(sql)
    _require_items(all_tokens)
    _mark_calls(all_tokens)
    try:
        return [s for s in Verbatim().parser().parse(all_tokens, sql) if s is not None]
    except (ParseError, TokenError) as error:
        raise _fault(error, sql) from None
    except RecursionError:
        raise SyntaxFault(message="the statement is nested too deeply") from None


def _require_items(all_tokens: list[Token]) -> None:
    """Raises `SyntaxFault` for a missing list item, as in `a,, b` and `a, FROM`. sqlglot accepts these."""
    for token, following in zip(all_tokens, [*all_tokens[1:], None], strict=True):
        before_item = token.token_type in (TokenType.COMMA, TokenType.L_PAREN)
        after_comma = token.token_type == TokenType.COMMA
        next_type = None if following is None else following.token_type
        if (before_item and next_type == TokenType.COMMA) or (after_comma and next_type in _LIST_ENDS):
            at = following or token
            column = max(at.col - (at.end - at.start), 1)
            message = f"a list item is missing before {at.text!r}" if following else "the text ends after ','"
            raise SyntaxFault(message=message, line=at.line, column=column)


def _mark_calls(all_tokens: list[Token]) -> None:
    """Makes `window` before a parenthesis an ordinary name. After GROUP BY, sqlglot would read the clause WINDOW."""
    for token, following in pairwise(all_tokens):
        if token.token_type == TokenType.WINDOW and following.token_type == TokenType.L_PAREN:
            token.token_type = TokenType.VAR


def generate(node: exp.Expr) -> str:
    return node.sql(dialect=Verbatim, comments=False)


def _fault(error: ParseError | TokenError, sql: str) -> SyntaxFault:
    details = getattr(error, "errors", None)
    if details:
        first = details[0]
        column = first["col"] - max(len(first.get("highlight") or ""), 1) + 1
        return SyntaxFault(message=first["description"], line=first["line"], column=max(column, 1))
    unclosed = _UNCLOSED.search(str(error.__cause__ or error))
    # sqlglot reports the offset of an unclosed string, but not of an unclosed comment.
    opening, offset = (unclosed[1], int(unclosed[2])) if unclosed else ("/*", sql.rfind("/*"))
    if 0 <= offset < len(sql):
        return SyntaxFault(message=f"{opening} is never closed", **_location_at(sql, offset))
    return SyntaxFault(message=_ANSI.sub("", str(error)).splitlines()[0])


def _location_at(sql: str, offset: int) -> dict[str, int]:
    before = sql[:offset]
    return {"line": before.count("\n") + 1, "column": offset - before.rfind("\n")}


def location(node: exp.Expr) -> dict[str, int]:
    """Line and column (both from 1) where `node` begins in the text, as keyword arguments of an error.

    Empty if neither the node nor a descendant has a position.
    """
    positioned = [node] if "line" in node.meta else [n for n in node.walk() if "line" in n.meta]
    if not positioned:
        return {}
    _, line, column = min(_start(n) for n in positioned)
    return {"line": line, "column": column}


def _start(node: exp.Expr) -> tuple[int, int, int]:
    """Offset, line and column. sqlglot's `col` is the last column of the token."""
    meta = node.meta
    return meta["start"], meta["line"], max(meta["col"] - (meta["end"] - meta["start"]), 1)
