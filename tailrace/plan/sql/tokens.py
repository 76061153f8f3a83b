"""The words of one statement, read one after the other."""

from __future__ import annotations

import re

from sqlglot.tokenizer_core import Token, TokenType

from tailrace.errors import SqlError, SyntaxFault, Unsupported

MAX_NAME = 128
MAX_BYTES = 480  # in UTF-8, and in lower case: it is part of a key of the store
_LITERALS = (TokenType.STRING, TokenType.NUMBER, TokenType.IDENTIFIER, TokenType.RAW_STRING)


class Words:
    """A cursor over tokens. sqlglot joins some keywords (PRIMARY KEY) into one token; here each is a word."""

    def __init__(self, sql: str, tokens: list[Token]) -> None:
        self._sql = sql
        self._words = [word for token in tokens for word in _words(token)]
        self._at = 0

    @property
    def text(self) -> str:
        """The word as written; empty at the end."""
        return self._words[self._at].text if self._at < len(self._words) else ""

    def peek(self, ahead: int = 0) -> str:
        """A coming word in upper case; empty at the end, and never a keyword when it was quoted."""
        at = self._at + ahead
        if at >= len(self._words):
            return ""
        word = self._words[at]
        return "`" + word.text if word.token_type in _LITERALS else word.text.upper()

    def next(self) -> Token:
        if self._at >= len(self._words):
            raise SyntaxFault(message="the statement ends too early", **self.location())
        self._at += 1
        return self._words[self._at - 1]

    def accept(self, *words: str) -> bool:
        """Step over these words if they come next."""
        if any(self.peek(i) != word for i, word in enumerate(words)):
            return False
        self._at += len(words)
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.fault(word)

    def end(self) -> None:
        if self._at < len(self._words):
            raise self.fault("the end of the statement")

    def fault(self, wanted: str) -> SyntaxFault:
        found = repr(self.text) if self.text else "the end"
        return SyntaxFault(message=f"expected {wanted}, found {found}", **self.location())

    def location(self) -> dict[str, int]:
        """Where the coming word is (at the end: where the text ends)."""
        if self._at < len(self._words):
            return _location(self._words[self._at])
        last = self._words[-1]
        return {"line": last.line, "column": last.col + 1}

    def name(self, kind: str) -> str:
        """An identifier, quoted or not."""
        at = self.location()
        quoted = self.peek().startswith("`")
        if self._at >= len(self._words) or not (quoted or re.fullmatch(r"\w+", self.text)):
            raise self.fault(f"the name of a {kind}")
        token = self.next()
        if token.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.RAW_STRING):
            raise SyntaxFault(message=f"expected the name of a {kind}, found {token.text!r}", **at)
        check_name(kind, token.text, at)
        return token.text

    def relation(self) -> str:
        """The name of a table or view, lower-cased."""
        at, name = self.location(), self.name("table or view")
        if self.peek() == ".":
            reason = "a store is one database; leave the part before the dot out"
            raise Unsupported(construct="a qualified name", reason=reason, **at)
        return name.lower()

    def rest(self) -> str:
        """The text that is left, as written."""
        if self._at >= len(self._words):
            return ""
        return self._sql[self._words[self._at].start : self._words[-1].end + 1]

    def remaining(self) -> str:
        """The words that are left, one blank between them."""
        return " ".join(" ".join(w.text for w in self._words[self._at :]).split())

    def only_rest(self) -> str:
        """The whole text with all that came before blanked out, so that places stay those of the whole."""
        if self._at >= len(self._words):
            raise self.fault("a query")
        start = self._words[self._at].start
        return re.sub(r"[^\n]", " ", self._sql[:start]) + self.rest()


def check_name(kind: str, name: str, at: dict[str, int] | None = None) -> None:
    """`SqlError` for a name that the store could not hold."""
    where = at or {}
    if not name.strip() or "\0" in name:
        raise SqlError(message=f"a {kind} needs a name without NUL characters", **where)
    if len(name) > MAX_NAME:
        raise SqlError(message=f"the name of a {kind} has {len(name)} characters, at most {MAX_NAME} fit", **where)
    try:
        size = len(name.lower().encode())
    except UnicodeEncodeError:
        raise SqlError(message=f"the name of a {kind} has half a character: it cannot be stored", **where) from None
    if size > MAX_BYTES:
        raise SqlError(message=f"the name of a {kind} takes {size} bytes, at most {MAX_BYTES} fit", **where)


def _words(token: Token) -> list[Token]:
    parts = token.text.split()
    if token.token_type in _LITERALS or len(parts) < 2:
        return [token]
    found, offset, column = [], 0, token.col - (token.end - token.start)
    for part in parts:
        offset = token.text.index(part, offset)
        end = offset + len(part) - 1
        found.append(Token(token.token_type, part, token.line, column + end, token.start + offset, token.start + end))
        offset = end + 1
    return found


def _location(token: Token) -> dict[str, int]:
    return {"line": token.line, "column": max(token.col - (token.end - token.start), 1)}
