"""The Java program `io.tailrace.hbase.Admin`: the replication peer, and the placement of regions."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from tailrace_hbase.artifacts import java
from tailrace_hbase.java_process import OPENED
from tailrace_hbase.problems import ClusterProblem


def run_admin(classpath: list[str], arguments: tuple[str, ...], seconds: float = 180) -> Any:
    """Runs one command of the program. Returns its answer."""
    command = [java(), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", *OPENED]
    command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", os.pathsep.join(classpath)]
    command += ["io.tailrace.hbase.Admin", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    answer = json.loads(ran.stdout) if ran.stdout else {"error": ran.stderr}
    if ran.returncode != 0:
        raise ClusterProblem(f"Admin {' '.join(arguments)} failed: {answer['error']}")
    return answer
