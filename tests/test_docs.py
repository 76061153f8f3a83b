"""The README's example runs unchanged, links in the docs resolve, and operations.md covers store and epoch errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tailrace import errors

ROOT = Path(__file__).parent.parent


def test_the_readme_example_runs(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) == 10
    for _ in range(2):  # it can be run again
        names: dict[str, Any] = {}
        exec(code, names)
        names["db"].close()


def test_links_in_the_docs_resolve() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_operations_covers_store_and_epoch_errors() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    for name in ("StoreFull", "Corrupt", "OffsetGap", "NewerFormat", "EpochsLocked", "EpochFailed", "NoJava"):
        assert hasattr(errors, name)
        assert name in text
