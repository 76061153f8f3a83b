"""Memory of processes that work on columns: held on to, instead of given back.

Columns are large, come and go. Pages that go back to the kernel with each of them, and are asked for again, cost
as much as half of the work on them.
"""

from __future__ import annotations

import ctypes

import pyarrow as pa

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
_LARGEST = (1 << 30, 32 << 20)  # bytes of a column that is kept; older ones allow no more than the latter


def keep_memory() -> None:
    """Let malloc keep what is freed, for Arrow too, where the C library can do that."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and any(mallopt(_MMAP_THRESHOLD, size) for size in _LARGEST):
        mallopt(_TRIM_THRESHOLD, _LARGEST[0])
        pa.set_memory_pool(pa.system_memory_pool())
