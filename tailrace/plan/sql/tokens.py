"""A cursor over the words of one statement, for parsing by hand."""

from __future__ import annotations

import re

from sqlglot.tokenizer_core import Token, TokenType

from tailrace.errors import SqlError, SyntaxFault, Unsupported

MAX_NAME = 128
MAX_BYTES = 480  # of the lower-case name in UTF-8, which is part of a store key
_LITERALS = (TokenType.STRING, TokenType.NUMBER, TokenType.IDENTIFIER, TokenType.RAW_STRING)

# `line` and `column`, both from 1, as keyword arguments of an error.
Location = dict[str, int]


class Words:
    """A cursor over words. sqlglot joins some keywords (PRIMARY KEY) into one token; here each is its own word."""

    def __init__(self, sql: str, tokens: list[Token]) -> None:
        self._sql = sql
        self._words = [word for token in tokens for word in _split_token(token)]
        self._index = 0

    @property
    def text(self) -> str:
        """The next word as written; empty at the end."""
        return self._words[self._index].text if self._index < len(self._words) else ""

    def peek(self, ahead: int = 0) -> str:
        """A later word in upper case; empty at the end. A quoted word gets a backtick prefix: it is no keyword."""
        index = self._index + ahead
        if index >= len(self._words):
            return ""
        word = self._words[index]
        return "`" + word.text if word.token_type in _LITERALS else word.text.upper()

    def next(self) -> Token:
        if self._index >= len(self._words):
            raise SyntaxFault(message="the statement is incomplete", **self.location())
        self._index += 1
        return self._words[self._index - 1]

    def accept(self, *words: str) -> bool:
        """Steps over these words if they come next."""
        if any(self.peek(i) != word for i, word in enumerate(words)):
            return False
        self._index += len(words)
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.fault(word)

    def expect_end(self) -> None:
        if self._index < len(self._words):
            raise self.fault("the end of the statement")

    def fault(self, expected: str) -> SyntaxFault:
        actual = repr(self.text) if self.text else "the end"
        return SyntaxFault(message=f"expected {expected}, found {actual}", **self.location())

    def location(self) -> Location:
        """Line and column of the next word; at the end, those of the end of the text."""
        if self._index < len(self._words):
            return _token_location(self._words[self._index])
        last = self._words[-1]
        return {"line": last.line, "column": last.col + 1}

    def read_name(self, kind: str) -> str:
        """Reads an identifier, quoted or not."""
        location = self.location()
        quoted = self.peek().startswith("`")
        if self._index >= len(self._words) or not (quoted or re.fullmatch(r"\w+", self.text)):
            raise self.fault(f"the name of a {kind}")
        token = self.next()
        if token.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.RAW_STRING):
            raise SyntaxFault(message=f"expected the name of a {kind}, found {token.text!r}", **location)
        check_name(kind, token.text, location)
        return token.text

    def read_relation(self) -> str:
        """Reads the name of a table or view; returns it in lower case."""
        location, name = self.location(), self.read_name("table or view")
        if self.peek() == ".":
            reason = "a store is one database; remove the part before the dot"
            raise Unsupported(construct="a qualified name", reason=reason, **location)
        return name.lower()

    def rest(self) -> str:
        """The remaining text, as written."""
        if self._index >= len(self._words):
            return ""
        return self._sql[self._words[self._index].start : self._words[-1].end + 1]

    def remaining_words(self) -> str:
        """The remaining words, separated by single blanks."""
        return " ".join(" ".join(w.text for w in self._words[self._index :]).split())

    def next_text(self) -> str:
        """The next token's text after blanks in place of the earlier text. For a token that is a whole text itself."""
        token = self.next()
        start = token.end + 1 - len(token.text)  # sqlglot gives such a token another start
        return re.sub(r"[^\n]", " ", self._sql[:start]) + token.text

    def padded_rest(self) -> str:
        """The remaining text after blanks in place of the earlier text, so that errors give the right location."""
        if self._index >= len(self._words):
            raise self.fault("a query")
        start = self._words[self._index].start
        return re.sub(r"[^\n]", " ", self._sql[:start]) + self.rest()


def check_name(kind: str, name: str, location: Location | None = None) -> None:
    """Raises `SqlError` if the store cannot hold the name."""
    location = location or {}
    if not name.strip() or "\0" in name:
        raise SqlError(message=f"the name of a {kind} must not be empty or contain NUL characters", **location)
    if len(name) > MAX_NAME:
        message = f"the name of a {kind} has {len(name)} characters; the limit is {MAX_NAME}"
        raise SqlError(message=message, **location)
    try:
        size = len(name.lower().encode())
    except UnicodeEncodeError:
        message = f"the name of a {kind} has an unpaired surrogate, which UTF-8 cannot encode"
        raise SqlError(message=message, **location) from None
    if size > MAX_BYTES:
        raise SqlError(message=f"the name of a {kind} has {size} bytes; the limit is {MAX_BYTES}", **location)


def _split_token(token: Token) -> list[Token]:
    parts = token.text.split()
    if token.token_type in _LITERALS or len(parts) < 2:
        return [token]
    words, offset, column = [], 0, token.col - (token.end - token.start)
    for part in parts:
        offset = token.text.index(part, offset)
        end = offset + len(part) - 1
        words.append(Token(token.token_type, part, token.line, column + end, token.start + offset, token.start + end))
        offset = end + 1
    return words


def _token_location(token: Token) -> Location:
    # sqlglot's `col` is the last column of the token.
    return {"line": token.line, "column": max(token.col - (token.end - token.start), 1)}
