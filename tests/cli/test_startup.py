"""What a command loads: a start is fast if it loads little."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from shopping import Tailrace

HEAVY = ("pyspark", "py4j", "sqlglot", "rich.progress", "multiprocessing", "tailrace.demo", "tailrace.doctor")
CODE = """
import sys
from tailrace.cli.main import main
try:
    main()
except SystemExit:
    pass
names = {heavy!r}
print("loaded:", *[name for name in names if name in sys.modules], file=sys.stderr)
"""


def loaded(*args: object) -> list[str]:
    """The heavy modules that a command has loaded."""
    command = [sys.executable, "-c", CODE.format(heavy=HEAVY), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.stderr.splitlines()[-1].split()[1:]


def test_the_handler_of_interrupts_is_installed_before_anything_is_loaded() -> None:
    code = (
        "import sys, tailrace.cli.main; print(*[n for n in ('typer', 'rich', 'tailrace.cli.app') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "\n"


@pytest.mark.parametrize(
    "args",
    [("put", "orders", '{"id": 1}'), ("get", "orders", "1"), ("scan", "orders"), ("delete", "orders", "1")],
    ids=lambda args: args[0],
)
def test_reading_and_writing_rows_load_none_of_them(shop: Tailrace, args: tuple[str, ...]) -> None:
    assert loaded(args[0], shop.path, *args[1:]) == []


def test_no_verb_loads_spark_before_it_needs_it(shop: Tailrace, tmp_path: Path) -> None:
    for args in (("--help",), ("status", shop.path), ("sql", shop.path, "SHOW TABLES"), ("run", tmp_path / "nowhere")):
        assert not {"pyspark", "py4j"} & set(loaded(*args)), args
