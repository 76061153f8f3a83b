"""Which errors of the operating system mean a full disk or a missing permission, and Tailrace's errors for them."""

from __future__ import annotations

import errno
import shutil

from tailrace.errors import ReadOnly, StoreFull

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_LITTLE = 1 << 20  # bytes
_FREE_SPACE = "Free some space and write again"


def is_full(path: str, code: int | None) -> bool:
    """Whether a write failed because the disk is full.

    If only a part of a write fits on the disk, LMDB reports an input/output error.
    """
    return code in FULL or (code == errno.EIO and shutil.disk_usage(path).free < _LITTLE)


def full_disk(path: str, **more: str) -> StoreFull:
    return StoreFull(path=path, full="disk", reason="the disk is full", advice=_FREE_SPACE, **more)


def read_only(path: str, reason: str, **more: str) -> ReadOnly:
    return ReadOnly(path=path, reason=reason, **more)
