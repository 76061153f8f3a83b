"""Equality of values in checks: exact, except for floats, which are equal within a tolerance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

TOLERANCE = 1e-9  # relative, for FLOAT and DOUBLE, because their sums depend on the order of addition
Value = Any


def alike(one: Value, other: Value, tolerance: float = 0.0) -> bool:
    """Whether two values are equal. NaN equals NaN, and floats are equal within a relative tolerance."""
    if isinstance(one, float) and isinstance(other, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or one == other or math.isclose(one, other, rel_tol=tolerance, abs_tol=0.0)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(alike(v, other[k], tolerance) for k, v in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(alike(a, b, tolerance) for a, b in zip(one, other, strict=True))
    return bool(one == other)
