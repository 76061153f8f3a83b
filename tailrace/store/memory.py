"""Memory of processes that work on columns: held on to, instead of given back.

Columns are large, come and go. Pages that go back to the kernel with each of them, and are asked for again, cost
as much as half of the work on them.
"""

from __future__ import annotations

import ctypes

import pyarrow as pa

KEPT = 1 << 30  # bytes that a process holds on to
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


def keep_memory() -> None:
    """Let malloc keep what is freed, for Arrow too, where the C library can do that."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, KEPT)
        mallopt(_MMAP_THRESHOLD, KEPT)
        pa.set_memory_pool(pa.system_memory_pool())
