"""The command `bin/hbase` of a local cluster: it runs a Java class with the classpath and settings of the cluster."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from tailrace_hbase.artifacts import java
from tailrace_hbase.java_process import OPENED
from tailrace_hbase.whole_files import write_whole

_OPTIONS = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", *OPENED)


def write_command(directory: Path, classpath: list[str]) -> None:
    """Writes the command. As that of HBase, it takes more of the classpath from HBASE_CLASSPATH."""
    run = [java(), *_OPTIONS, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    jars = shlex.quote(os.pathsep.join(classpath))
    text = f'#!/bin/sh\nexec {shlex.join(run)} -cp "$HBASE_CLASSPATH":{jars} "$@"\n'
    write_whole(directory / "bin" / "hbase", text.encode(), 0o755)
