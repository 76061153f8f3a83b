"""Strings, counted in code points."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.rules.arrow.tree import NotCompiled, Value


def joined(*values: Value) -> Value:
    """The values one after the other, NULL if one is NULL."""
    return pc.binary_join_element_wise(*values, "", null_handling="emit_null")


def slice_of(value: Value, position: int, length: int | None) -> Value:
    """substring(value, position, length): positions from 1; 0 is as 1; negative ones count from the end."""
    if length is not None and length <= 0:
        return pc.utf8_slice_codeunits(value, 0, 0)
    start = position - 1 if position > 0 else position
    stop = None if length is None else start + length
    if start < 0 and stop is not None and stop >= 0:
        stop = None
    return pc.utf8_slice_codeunits(value, start, stop)


def trimmed(value: Value, side: str) -> Value:
    trim = {"BOTH": pc.utf8_trim, "LEADING": pc.utf8_ltrim, "TRAILING": pc.utf8_rtrim}[side]
    return trim(value, characters=" ")


def length(value: Value) -> Value:
    return pc.utf8_length(value)


def byte_length(value: Value) -> Value:
    return pc.binary_length(value)


def starts(value: Value, text: str) -> Value:
    return pc.starts_with(value, pattern=text)


def ends(value: Value, text: str) -> Value:
    return pc.ends_with(value, pattern=text)


def holds(value: Value, text: str) -> Value:
    return pc.match_substring(value, pattern=text)


def equals(value: Value, text: str) -> Value:
    return pc.equal(value, pa.scalar(text))


def matches(value: Value, pattern: str) -> Value:
    return pc.match_substring_regex(value, pattern=pattern)


def like(pattern: str, escape: str) -> tuple[str, str]:
    """The kernel for a LIKE pattern, by name, and what it looks for."""
    pieces = _pieces(pattern, escape)
    plain = "".join(p for p in pieces if len(p) == 1)
    shape = re.sub(r"x+", "x", re.sub(r"%+", "%", "".join("x" if len(p) == 1 else p[1] for p in pieces)))
    simple = {"x": "equals", "": "equals", "x%": "starts", "%x": "ends", "%x%": "holds", "%": "starts"}
    if shape in simple:
        return simple[shape], plain
    any_of = {"\0%": ".*", "\0_": "."}
    return "matches", r"(?s)\A" + "".join(any_of.get(p) or re.escape(p) for p in pieces) + r"\z"


def _pieces(pattern: str, escape: str) -> list[str]:
    """Characters as they are, wildcards with a NUL before them."""
    pieces, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following not in ("%", "_", escape):
                raise NotCompiled("LIKE with a wrong escape")
            pieces.append(following)
        else:
            pieces.append(f"\0{character}" if character in "%_" else character)
    return pieces
