"""Starts processes that use HBase."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hbase_parts import HbaseParts

SCRIPT = Path(__file__).parent / "hbase_child.py"


def start_child(parts: HbaseParts, *arguments: object, **environment: str) -> subprocess.Popen[str]:
    """Starts `hbase_child.py` in the namespace of `parts`."""
    command = [sys.executable, str(SCRIPT), str(parts.client.connections.port), parts.name, *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)


def run_child(parts: HbaseParts, *arguments: object, **environment: str) -> int:
    """Runs `hbase_child.py`. Returns its exit code."""
    with start_child(parts, *arguments, **environment) as child:
        return child.wait()
