"""Hypothesis strategies for damaged bytes: valid bytes with flipped bits, truncated, extended, spliced, or random."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from tailrace.errors import TailraceError

crafted = settings(max_examples=300, deadline=None, derandomize=True, database=None)


@st.composite
def damaged(draw: st.DrawFn, valid: Sequence[bytes]) -> bytes:
    """One of the `valid` byte strings, damaged; sometimes random bytes."""
    kind = draw(st.sampled_from(["flip", "flip", "flip", "set", "cut", "extend", "splice", "any"]))
    if kind == "any":
        return draw(st.binary(max_size=300))
    data = bytearray(draw(st.sampled_from(valid)))
    random_ = random.Random(draw(st.integers(0, 2**32)))
    match kind:
        case "flip" if data:
            for _ in range(draw(st.integers(1, 4))):
                data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
        case "set" if data:
            at = random_.randrange(len(data))
            data[at : at + 8] = random_.choice([b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7, b"\xff" * 7 + b"\x7f"])
        case "cut":
            del data[random_.randrange(len(data) + 1) :]
        case "extend":
            data += random_.randbytes(random_.randrange(1, 40))
        case "splice" if data:
            at, length = random_.randrange(len(data)), random_.randrange(1, 30)
            del data[at : at + length]
    return bytes(data)


def survives(read: Callable[[], Any]) -> Any:
    """Returns what `read` returns, or the TailraceError it raises. Any other exception fails the test."""
    try:
        return read()
    except TailraceError as error:
        return error
