"""Describes the machine that figures were measured on, without host names or paths."""

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


def describe_machine() -> dict[str, Any]:
    """Hardware, system, versions and the load at the start: what a reader needs to compare figures."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "filesystem": _filesystem(Path(tempfile.gettempdir())),
        "python": platform.python_version(),
        "java": _java_version(),
        **{name: version(name) for name in ("pyspark", "pyarrow", "lmdb")},
        "tailrace": tailrace.__version__,
        "commit": _commit(),
        "load": round(os.getloadavg()[0], 2),
    }


def _cpu_model() -> str:
    try:
        model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        model = None
    return model[1].strip() if model else platform.processor() or platform.machine()


def _filesystem(directory: Path) -> str:
    """The file system type of the deepest mount that contains `directory`."""
    ancestors = {str(p) for p in (directory.resolve(), *directory.resolve().parents)}
    mounts = [(len(m.mountpoint), m.fstype) for m in psutil.disk_partitions(all=True) if m.mountpoint in ancestors]
    return max(mounts)[1] if mounts else "unknown"


def _commit() -> str:
    """The measured commit, with "-dirty" if files differ from it; empty outside a checkout."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        described = subprocess.run(git, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return ""
    return described.stdout.strip() if described.returncode == 0 else ""


def _java_version() -> str:
    try:
        java = Path(find_java()) / "bin" / "java"
        output = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60)
    except (NoJava, OSError, subprocess.SubprocessError):
        return "none"
    version_text = re.search(r'version "([^"]+)"', output.stderr + output.stdout)
    return version_text[1] if version_text else "unknown"
