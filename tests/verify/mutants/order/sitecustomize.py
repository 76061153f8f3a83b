"""An engine without order: every two epochs apply each other's range of the log."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tailrace.epochs.protocol import Epochs
from tailrace.epochs.work import EpochWork

_original = EpochWork.run
_postponed: dict[int, Any] = {}  # epoch: the range of the epoch before


def run(self: EpochWork) -> int:
    done, intent = self.done, self.intent
    start, end = _postponed.pop(intent.epoch, (done.cut, intent.end))
    if intent.epoch % 2 and self.store.newest_cut() != end:
        _postponed[intent.epoch + 1] = start, end
        start, end = end, self.store.cut_after(end, 1)
    self.done, self.intent = replace(done, cut=start), replace(intent, end=end)
    rows = _original(self)
    self.done, self.intent = done, replace(self.intent, end=intent.end)
    return rows


EpochWork.run = run  # type: ignore[method-assign]
Epochs.trim = lambda self: None  # type: ignore[method-assign]
