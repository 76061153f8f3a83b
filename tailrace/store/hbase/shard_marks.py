"""The marks of a shard on HBase: the row that decides which writes count.

    f                   oldest term of the epoch lock whose writes are accepted
    o                   oldest epoch that is still readable; the epoch up to which old versions are deleted
    s state             mark of a state
    d epoch, attempt    a decision: the states whose writes in this epoch are those that this attempt has staged

The row changes in one step (`versioned_row.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from tailrace.errors import Corrupt
from tailrace.store.hbase.versioned_row import Values

FENCE, OLDEST, STATE, DECISION = b"f", b"o", b"s", b"d"
ATTEMPT = 8  # bytes of the id of an attempt
GENERATIONS = 8  # bits of a timestamp
NEVER = -1  # before epoch 0, in which views over empty tables are built
_TERM = struct.Struct(">Q")
_OLDEST = struct.Struct(">QQ")
_MARK = struct.Struct(">qq8sQQB")
_CHUNKS = struct.Struct(">I")
_DECIDED = struct.Struct(">IB")


def cell_timestamp(epoch: int, generation: int = 0) -> int:
    """The timestamp of the cells that an epoch writes.

    A rollback hides the timestamps that it deletes, until a major compaction. So an epoch that is applied again after a
    rollback has the next generation.
    """
    return epoch << GENERATIONS | generation


class StateMark(NamedTuple):
    """What a shard has of a state.

    applied             last epoch that is written completely, or NEVER
    decided, attempt    last epoch whose content is decided, and the attempt that staged it
    first               no earlier epoch can be read, because the state began with this one
    burnt, generation   last epoch that was rolled back, and the generation of epochs up to it
    """

    applied: int = NEVER
    decided: int = NEVER
    attempt: bytes = bytes(ATTEMPT)
    first: int = 0
    burnt: int = 0
    generation: int = 0

    @property
    def is_open(self) -> bool:
        """Whether an epoch is decided but not yet written completely."""
        return self.decided > self.applied

    def generation_of(self, epoch: int) -> int:
        return self.generation if epoch <= self.burnt else 0


class Decision(NamedTuple):
    """The content of an epoch, for some states (with the generations of their cells): what an attempt has staged."""

    epoch: int
    attempt: bytes
    chunks: int
    generations: Mapping[int, int]

    @property
    def column(self) -> bytes:
        return decision_column(self.epoch, self.attempt)

    def encode(self) -> bytes:
        return _CHUNKS.pack(self.chunks) + b"".join(_DECIDED.pack(*item) for item in self.generations.items())


def state_column(state: int) -> bytes:
    return STATE + b"%08x" % state


def decision_column(epoch: int, attempt: bytes) -> bytes:
    return DECISION + b"%016x" % epoch + attempt.hex().encode()


def encode_fence(term: int) -> bytes:
    return _TERM.pack(term)


def encode_oldest(oldest: int, trimmed: int) -> bytes:
    return _OLDEST.pack(oldest, trimmed)


def encode_mark(mark: StateMark) -> bytes:
    return _MARK.pack(*mark)


class ShardMarks:
    """The marks among the values of the row. Columns that were not read count as missing."""

    def __init__(self, values: Values) -> None:
        self.fence, self.oldest, self.trimmed = 0, 0, 0
        self.states: dict[int, StateMark] = {}
        self.decisions: list[Decision] = []
        try:
            for column, value in values.items():
                self._take(column, value)
        except (struct.error, ValueError) as error:
            raise Corrupt(where="the marks of a shard", reason=str(error)) from None
        self.decisions.sort(key=lambda decision: decision.epoch)

    def _take(self, column: bytes, value: bytes) -> None:
        match column[:1]:
            case b"f":
                (self.fence,) = _TERM.unpack(value)
            case b"o":
                self.oldest, self.trimmed = _OLDEST.unpack(value)
            case b"s":
                self.states[int(column[1:], 16)] = StateMark(*_MARK.unpack(value))
            case b"d":
                (chunks,) = _CHUNKS.unpack_from(value)
                generations = dict(_DECIDED.iter_unpack(value[_CHUNKS.size :]))
                epoch, attempt = int(column[1:17], 16), bytes.fromhex(column[17:].decode())
                self.decisions.append(Decision(epoch, attempt, chunks, generations))

    def of(self, state: int) -> StateMark:
        return self.states.get(state, StateMark())
