"""The machine that figures were measured on, without names or places."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

import tailrace
from tailrace.errors import NoJava
from tailrace.spark.session import find_java


def machine() -> dict[str, Any]:
    """What a reader needs to compare figures: hardware, system, versions, and how busy it was at the start."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "filesystem": _filesystem(Path(tempfile.gettempdir())),
        "python": platform.python_version(),
        "java": _java(),
        **{name: version(name) for name in ("pyspark", "pyarrow", "lmdb")},
        "tailrace": tailrace.__version__,
        "commit": _commit(),
        "load": round(os.getloadavg()[0], 2),
    }


def _cpu() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()


def _filesystem(place: Path) -> str:
    """The kind of file system that stores lie on: that of the deepest mount above `place`."""
    above = {str(p) for p in (place.resolve(), *place.resolve().parents)}
    mounts = [(len(m.mountpoint), m.fstype) for m in psutil.disk_partitions(all=True) if m.mountpoint in above]
    return max(mounts)[1] if mounts else "unknown"


def _commit() -> str:
    """The commit that was measured, marked if files differ from it; empty outside a checkout."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        said = subprocess.run(git, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""


def _java() -> str:
    try:
        java = Path(find_java()) / "bin" / "java"
        said = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60)
    except (NoJava, OSError, subprocess.SubprocessError):
        return "none"
    found = re.search(r'version "([^"]+)"', said.stderr + said.stdout)
    return found[1] if found else "unknown"
