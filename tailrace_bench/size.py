"""How large a run is."""

from __future__ import annotations

import enum


class Size(enum.Enum):
    QUICK = "quick"
    FULL = "full"
