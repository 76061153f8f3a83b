"""String kernels. Positions and lengths count code points."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.rules.arrow.tree import Kernel, NotCompiled, Value


def concat(*values: Value) -> Value:
    """The concatenated values; NULL if any value is NULL."""
    return pc.binary_join_element_wise(*values, "", null_handling="emit_null")


def substring(value: Value, position: int, length: int | None) -> Value:
    """substring(value, position, length). Positions start at 1; 0 means 1; negative positions count from the end."""
    if length is not None and length <= 0:
        return pc.utf8_slice_codeunits(value, 0, 0)
    start = position - 1 if position > 0 else position
    stop = None if length is None else start + length
    if start < 0 and stop is not None and stop >= 0:
        stop = None
    return pc.utf8_slice_codeunits(value, start, stop)


def trim(value: Value, side: str) -> Value:
    kernel = {"BOTH": pc.utf8_trim, "LEADING": pc.utf8_ltrim, "TRAILING": pc.utf8_rtrim}[side]
    return kernel(value, characters=" ")


def length(value: Value) -> Value:
    return pc.utf8_length(value)


def byte_length(value: Value) -> Value:
    return pc.binary_length(value)


def starts_with(value: Value, text: str) -> Value:
    return pc.starts_with(value, pattern=text)


def ends_with(value: Value, text: str) -> Value:
    return pc.ends_with(value, pattern=text)


def contains(value: Value, text: str) -> Value:
    return pc.match_substring(value, pattern=text)


def equals(value: Value, text: str) -> Value:
    return pc.equal(value, pa.scalar(text))


def matches(value: Value, pattern: str) -> Value:
    return pc.match_substring_regex(value, pattern=pattern)


def plan_like(pattern: str, escape: str) -> tuple[Kernel, str]:
    """The kernel that evaluates a LIKE pattern, and the text or regular expression it searches for."""
    pieces = _split_pattern(pattern, escape)
    literal = "".join(p for p in pieces if len(p) == 1)
    shape = re.sub(r"x+", "x", re.sub(r"%+", "%", "".join("x" if len(p) == 1 else p[1] for p in pieces)))
    kernels = {
        "": equals, "x": equals, "x%": starts_with, "%x": ends_with, "%x%": contains, "%": starts_with,
    }  # fmt: skip
    if shape in kernels:
        return kernels[shape], literal
    wildcards = {"\0%": ".*", "\0_": "."}
    return matches, r"(?s)\A" + "".join(wildcards.get(p) or re.escape(p) for p in pieces) + r"\z"


def _split_pattern(pattern: str, escape: str) -> list[str]:
    """The pattern's characters, unescaped. A wildcard is prefixed with a NUL."""
    pieces, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following not in ("%", "_", escape):
                raise NotCompiled("LIKE with an invalid escape sequence")
            pieces.append(following)
        else:
            pieces.append(f"\0{character}" if character in "%_" else character)
    return pieces
