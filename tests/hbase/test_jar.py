"""The jar in the repository is what its source gives."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from tailrace_hbase.artifacts import CHECKOUT, ENDPOINT_JAR, maven

pytestmark = pytest.mark.hbase

SOURCE = CHECKOUT / "java" / "endpoint"


def content(jar: Path) -> tuple[dict[str, bytes], bytes]:
    """Returns the classes and the manifest, which names the Java version that compiled them."""
    with zipfile.ZipFile(jar) as archive:
        classes = {name: archive.read(name) for name in archive.namelist() if name.endswith(".class")}
        return classes, archive.read("META-INF/MANIFEST.MF")


def test_the_committed_jar_has_the_classes_of_a_fresh_build(tmp_path: Path) -> None:
    """Byte for byte, if both were compiled by the same version of Java; other versions may compile differently."""
    pom = tmp_path / "pom.xml"
    pom.write_text((SOURCE / "pom.xml").read_text())
    (tmp_path / "src").symlink_to(SOURCE / "src")
    command = [maven(), "-B", "-q", "-f", str(pom), "package"]
    if subprocess.run([*command, "-o"], capture_output=True, check=False).returncode != 0:
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stdout
    fresh, fresh_manifest = content(tmp_path / "target" / "tailrace-hbase.jar")
    committed, manifest = content(ENDPOINT_JAR)
    assert sorted(committed) == sorted(fresh)
    if manifest == fresh_manifest:
        assert [name for name in fresh if fresh[name] != committed[name]] == [], "run make endpoint, and commit the jar"
