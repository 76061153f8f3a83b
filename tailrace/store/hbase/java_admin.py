"""Runs `io.tailrace.hbase.Admin`, for what Thrift2 has no call: the replication peer, and the state of replication.

It is a Java program in `tailrace-hbase.jar`, and needs HBase's own classpath and configuration. HBase's command `hbase`
knows both. Where there is none, `by_hand` says what to run on a host of the cluster.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tailrace.errors import BadSetting, StoreError

JAR = Path(__file__).parent / "tailrace-hbase.jar"
MAIN = "io.tailrace.hbase.Admin"
SECONDS = 180.0  # that a command may take


def jar_digest() -> str:
    """The SHA-256 of the jar, as endpoints note it."""
    return hashlib.sha256(JAR.read_bytes()).hexdigest()


def find_hbase(home: str | None = None) -> Path | None:
    """HBase's command: in `home`, else in HBASE_HOME, else in PATH. None if there is none.

    Raises `BadSetting` if a home is given that has no such command.
    """
    for name, given in (("--hbase-home", home), ("HBASE_HOME", os.environ.get("HBASE_HOME"))):
        if given:
            command = Path(given).absolute() / "bin" / "hbase"
            if not os.access(command, os.X_OK):
                raise BadSetting(name=name, value=given, advice=f"there is no command {command}")
            return command
    found = shutil.which("hbase")
    return None if found is None else Path(found)


def by_hand(*arguments: str) -> str:
    """What to type on a host of the cluster to run a command."""
    return f"HBASE_CLASSPATH={JAR.name} hbase {MAIN} {' '.join(arguments)}"


def run_admin(hbase: Path, *arguments: str) -> Any:
    """Runs a command. Returns its answer. Raises `StoreError` if it fails."""
    path = os.pathsep.join(filter(None, [str(JAR), os.environ.get("HBASE_CLASSPATH")]))
    environment = {**os.environ, "HBASE_CLASSPATH": path}
    command = [str(hbase), MAIN, *arguments]
    try:
        ran = subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise StoreError(message=f"{' '.join(command)} did not end within {SECONDS:.0f} s") from None
    lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    answer = json.loads(lines[-1]) if lines else {"error": (ran.stderr or ran.stdout).strip()[-2000:]}
    if ran.returncode != 0 or "error" in answer:
        raise StoreError(message=f"{' '.join(command)} failed: {answer.get('error') or ran.stderr.strip()[-2000:]}")
    return answer
