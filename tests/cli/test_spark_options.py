"""The options that start Spark: from the command line, from the environment, from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer.main
from commands import command
from shopping import Tailrace
from typer.testing import CliRunner

import tailrace as tr
from tailrace.cli.app import app
from tailrace.errors import BadSetting

OPTIONS = {"--master", "--memory", "--conf", "--log-format"}
WITH_SPARK = {"sql", "refresh", "run", "resume", "verify", "audit", "check", "restore", "demo"}


def test_every_verb_that_uses_spark_has_the_options_and_no_other() -> None:
    for name, verb in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        options = {option for parameter in verb.params for option in parameter.opts}
        assert OPTIONS & options == (OPTIONS if name in WITH_SPARK else set()), name


BAD = [
    ("master", "locla[2]", "local[4]"),
    ("master", "local[2", "local[4]"),
    ("memory", "2 gigs", "a number and a unit"),
    ("memory", "64m", "at least 512m"),
    ("conf", "spark.x", "KEY=VALUE"),
    ("conf", "x=1", "begin with `spark.`"),
    ("conf", "spark.sql.ansi.enabled=true", "Tailrace needs it to be false"),
    ("conf", "spark.driver.memory=1g", "set the memory instead"),
]


@pytest.mark.parametrize(("name", "value", "advice"), BAD)
def test_a_bad_value_is_refused_with_advice(shop: Tailrace, name: str, value: str, advice: str) -> None:
    for option, env in ((["--" + name, value], {}), ([], {f"TAILRACE_SPARK_{name.upper()}": value})):
        result = CliRunner().invoke(app, ["refresh", str(shop.path), *option], env={"COLUMNS": "400", **env})
        assert result.exit_code == 2, result.output
        where = f"TAILRACE_SPARK_{name.upper()}" if env else f"--{name}"
        assert f"{where}: '{value}' is not valid" in result.stderr
        assert advice in result.stderr


def test_an_open_quote_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_SPARK_CONF", "spark.a='b")
    with pytest.raises(BadSetting) as error:
        tr.SparkOptions().with_environment()
    assert error.value.name == "TAILRACE_SPARK_CONF"


@pytest.mark.parametrize("master", ["local", "local[3]", "local[*]", "local[2,4]", "local-cluster[2,1,1024]", "yarn"])
def test_known_masters(master: str) -> None:
    assert tr.SparkOptions(master=master).master == master


def test_options_come_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_SPARK_MASTER", "local[3]")
    monkeypatch.setenv("TAILRACE_SPARK_MEMORY", "3g")
    monkeypatch.setenv("TAILRACE_SPARK_CONF", "spark.a=1 'spark.b=2 3'")
    found = tr.SparkOptions(memory="4g", conf={"spark.a": "9"}).with_environment()
    assert (found.master, found.memory, found.conf) == ("local[3]", "4g", {"spark.a": "9", "spark.b": "2 3"})


SHOW = """
import json, sys, tailrace as tr
options = tr.SparkOptions(master="local[1]", conf={"spark.driver.extraJavaOptions": "-Dours=1", "spark.a": "b c"})
with tr.open(sys.argv[1], create=True, spark=options) as db:
    conf = db.spark.sparkContext.getConf()
    names = ("spark.master", "spark.driver.memory", "spark.a", "spark.driver.extraJavaOptions", "spark.c")
    print(json.dumps({name: conf.get(name) for name in names}))
"""


def test_spark_is_started_with_the_options(tmp_path: Path) -> None:
    env = {"TAILRACE_SPARK_MEMORY": "700m", "TAILRACE_SPARK_CONF": "spark.c=d spark.a=x"}
    with command(tmp_path, tmp_path / "s", code=SHOW, **env) as run:
        assert run.end() == 0, run.err
    found = json.loads(run.out)
    java = found.pop("spark.driver.extraJavaOptions")
    assert found == {"spark.master": "local[1]", "spark.driver.memory": "700m", "spark.a": "b c", "spark.c": "d"}
    assert "-Dours=1" in java
    assert "-Dlog4j2.configurationFile=" in java
