"""Makes malloc keep freed memory, for processes that work on columns.

Columns are large and short-lived. Returning their pages to the kernel and requesting them again costs up to half as
much as the work on the columns.
"""

from __future__ import annotations

import ctypes

import pyarrow as pa

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
_LARGEST = (1 << 30, 32 << 20)  # bytes of the largest block to keep; older versions of glibc accept only the second


def keep_memory() -> None:
    """Tunes malloc to keep freed memory and makes Arrow use malloc. Does nothing if libc has no mallopt."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and any(mallopt(_MMAP_THRESHOLD, size) for size in _LARGEST):
        mallopt(_TRIM_THRESHOLD, _LARGEST[0])
        pa.set_memory_pool(pa.system_memory_pool())
