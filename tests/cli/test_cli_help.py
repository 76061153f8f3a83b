"""Every verb has help, with an example of its use."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
import typer.main
from typer.testing import CliRunner

from tailrace.cli.app import app
from tailrace.version import VERSION

VERBS = sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
DESIGNED = {"init", "sql", "load", "put", "delete", "get", "scan", "refresh", "run", "explain", "status"}


def test_all_designed_verbs_exist() -> None:
    assert set(VERBS) == DESIGNED | {
        "resume",
        "verify",
        "audit",
        "record",
        "check",
        "backup",
        "dump",
        "restore",
        "doctor",
        "hbase",
        "demo",
        "bench",
    }


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_and_an_example(verb: str) -> None:
    result = CliRunner().invoke(app, [verb, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert re.search(rf"Example:\s+tailrace {verb}\b", result.stdout), result.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_parameter_is_explained(verb: str) -> None:
    command = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    assert command.help
    assert [p.name for p in command.params if not getattr(p, "help", None)] == []


@pytest.mark.parametrize("verb", ["install", "check"])
def test_verbs_of_a_group_have_help_and_an_example(verb: str) -> None:
    group = typer.main.get_command(app).commands["hbase"]  # type: ignore[attr-defined]
    assert sorted(group.commands) == ["check", "install"]
    assert [p.name for p in group.commands[verb].params if not getattr(p, "help", None)] == []
    result = CliRunner().invoke(app, ["hbase", verb, "--help"], env={"COLUMNS": "200"})
    assert re.search(rf"Example:\s+tailrace hbase {verb}\b", result.stdout), result.stdout


def test_examples_are_shown_as_they_are_typed() -> None:
    assert "'[null]'" in CliRunner().invoke(app, ["get", "--help"]).stdout


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_the_terminal(verb: str, width: int) -> None:
    result = CliRunner().invoke(app, [verb, "--help"], env={"COLUMNS": str(width)})
    assert max(len(line) for line in result.stdout.splitlines()) <= width


@pytest.mark.parametrize("verb", VERBS)
def test_examples_can_be_copied_from_a_terminal_of_80_columns(verb: str) -> None:
    command = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    examples = [line for line in command.help.splitlines() if line.lstrip().startswith("tailrace ")]
    assert examples
    assert [line for line in examples if len(line) > 78] == []


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_is_wrapped_at_the_width_of_the_terminal_only(verb: str) -> None:
    env = {"COLUMNS": "80"}
    shown = CliRunner().invoke(app, [*([verb] if verb else []), "--help"], env=env).stdout
    text = [line.strip() for line in shown.partition("╭")[0].partition("Example:")[0].splitlines()]
    for line, following in pairwise(text):
        if line and following:
            word = following.split()[0]
            assert len(line) + 1 + len(word) > 78, f"{word!r} fits after {line!r}"


def test_help_lists_every_verb() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    for verb in VERBS:
        assert f" {verb} " in result.stdout


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"tailrace {VERSION}\n")


@pytest.mark.parametrize(
    "wrong", [["nosuch"], ["get"], ["get", "shop", "orders", "--nosuch"], ["init", "s", "--nodes", "0"]]
)
def test_wrong_usage_exits_with_2(wrong: list[str]) -> None:
    assert CliRunner().invoke(app, wrong).exit_code == 2
