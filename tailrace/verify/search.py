"""The checker of histories without certificates."""

from __future__ import annotations

from enum import Enum

from tailrace.verify.model import BaseHistory, Definition, Matters, ViewHistory
from tailrace.verify.verdict import ViewVerdict


class Model(Enum):
    """Which definition of the levels: they differ in whether one sequence of base states must explain all view states."""

    PAIRS = "pairs"
    SEQUENCE = "sequence"


def search(
    base: BaseHistory,
    view: ViewHistory,
    definition: Definition,
    bound: int,
    tolerance: float,
    model: Model,
    matters: Matters | None,
) -> ViewVerdict:
    """The level of a view by a search for base states that explain its states."""
    raise NotImplementedError
