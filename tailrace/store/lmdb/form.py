"""What the formats of a store differ in.

| format | keys of states (`entries.py`)  | values of states (`shapes.py`) | rows of tables | undo records (`undo.py`) |
|--------|--------------------------------|--------------------------------|----------------|--------------------------|
| 2      | state in 4 bytes, whole key    | whole                          | whole          | whole                    |
| 3      | state in 4 bytes, whole key    | without bytes that are zero    | whole          | compressed, in pieces    |
| 4      | state in 1 to 5 bytes, rest of key | rest of value              | rest of row    | compressed, in pieces    |

The rest is what is left without the bytes that are equal in all keys, values or rows (`templates.py`).

A store keeps the format that it was created with.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_STATE = struct.Struct(">I")
_SHORT = 248  # smaller numbers of states are one byte; larger ones have a byte with their length in front


class Form(NamedTuple):
    """`packed`: values and undo records are stored in the form of format 3. `short`: format 4."""

    packed: bool
    short: bool

    @classmethod
    def of(cls, format_: int) -> Form:
        return cls(packed=format_ >= 3, short=format_ >= 4)

    def prefix(self, state: int) -> bytes:
        """The prefix of the stored keys of a state's entries. Prefixes sort as states; none begins with another."""
        if not self.short:
            return _STATE.pack(state)
        if state < _SHORT:
            return bytes([state])
        size = (state.bit_length() + 7) // 8
        return bytes([_SHORT - 1 + size]) + state.to_bytes(size)

    def state_of(self, key: bytes) -> int:
        """The state whose entry has this stored key. A damaged key may give any number of up to 32 bits."""
        if not self.short:
            return int.from_bytes(key[:4])
        return key[0] if key[0] < _SHORT else int.from_bytes(key[1 : min(key[0] - _SHORT + 2, 5)])


PLAIN = Form(packed=False, short=False)
