"""The Dockerfile and the systemd unit: what they copy exists, and the commands they run are valid."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from tailrace.cli.app import app
from tailrace.cli.shared_options import LOG
from tailrace.spark import spark_options

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "tailrace@.service"


def require_valid(command: list[str]) -> None:
    """Raises a usage error unless these are a verb and its arguments."""
    verb, *args = command
    typer.main.get_command(app).commands[verb].make_context(verb, args)  # type: ignore[attr-defined]


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile and their arguments, with continued lines joined."""
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def arguments(name: str) -> list[str]:
    return [rest for instruction, rest in instructions() if instruction == name]


def test_every_source_that_is_copied_exists() -> None:
    sources = [source for rest in arguments("COPY") for source in rest.split()[:-1]]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert not set(sources) & set(ignored)


def test_what_the_package_needs_is_copied() -> None:
    copied = {source for rest in arguments("COPY") for source in rest.split()[:-1]}
    assert {"pyproject.toml", "README.md", "LICENSE", "tailrace", "constraints.txt"} <= copied


def test_the_commands_of_the_image_are_valid() -> None:
    (entry,), (command,) = arguments("ENTRYPOINT"), arguments("CMD")
    (health,) = arguments("HEALTHCHECK")
    assert json.loads(entry) == ["tailrace"]
    require_valid(json.loads(command))
    program, *check = json.loads(health.partition("CMD ")[2])
    assert program == "tailrace"
    require_valid(check)
    assert check[-1] == json.loads(command)[-1]


def test_the_image_is_official_and_its_user_has_no_privileges() -> None:
    (image,) = arguments("FROM")
    assert re.fullmatch(r"python:3\.\d+-slim", image)
    order = [name for name, _ in instructions()]
    assert order.index("RUN") < order.index("USER") < order.index("ENTRYPOINT")
    assert arguments("USER") == ["tailrace"]
    assert "useradd" in " ".join(arguments("RUN"))


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(UNIT)
    return parser


def test_the_unit_runs_a_valid_command_and_stops_it_cleanly() -> None:
    service = unit()["Service"]
    program, *command = shlex.split(service["ExecStart"])
    assert program.endswith("/bin/tailrace")
    require_valid(command)
    assert command[1] == "/var/lib/tailrace/%i"
    assert service["StateDirectory"] == "tailrace"
    assert (service["Restart"], service["KillSignal"], service["SuccessExitStatus"]) == ("on-failure", "SIGTERM", "143")
    assert f"{LOG}=json" in service["Environment"].split()
    assert service["User"] != "root"
    assert "MemoryDenyWriteExecute" not in service, "Java writes the code that it runs"


def test_the_variables_that_the_unit_names_exist() -> None:
    known = {spark_options.MASTER, spark_options.MEMORY, spark_options.CONF, LOG}
    assert set(re.findall(r"TAILRACE_\w+", UNIT.read_text() + (ROOT / "Dockerfile").read_text())) <= known


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    copy = tmp_path / "tailrace@shop.service"
    copy.write_text(UNIT.read_text().replace("/opt/tailrace/bin/tailrace", sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
