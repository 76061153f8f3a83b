"""How Spark is started: its master, its memory, and additional settings. Loads nothing of Spark."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tailrace.errors import BadSetting

DEFAULT_MEMORY = "2g"
MASTER, MEMORY, CONF = "TAILRACE_SPARK_MASTER", "TAILRACE_SPARK_MEMORY", "TAILRACE_SPARK_CONF"
PRELOAD = "TAILRACE_PRELOAD"  # tells Python daemons which kind of store to load (`daemon.py`)

# Settings that plans and tasks rely on. Tailrace sets them in every session, so no one else can.
# excludedRules: a frame without rows must still run, because its tasks write states. These rules would remove it.
# adaptive: it would merge partitions, which stand for shards.
# ansi: without ANSI mode a division by zero is NULL; with it, a view would fail on such a row.
# mapKeyDedupPolicy: of equal keys of a map the last one wins; with Spark's default, a view would fail on them.
# orderIndependentChecksum: a retried task emits the same rows, or those stored before (`Settle`), so Spark need not
# compare attempts. The checksum takes half the time of a shuffle.
_PRUNING_RULES = ("PruneFilters", "PropagateEmptyRelation", "ConvertToLocalRelation")
_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer"
SQL_SETTINGS = {
    "spark.sql.optimizer.excludedRules": ",".join(f"{_OPTIMIZER}.{rule}" for rule in _PRUNING_RULES),
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.autoBroadcastJoinThreshold": "10485760",
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
}
_RESERVED = {
    **{name: f"Tailrace needs it to be {value}" for name, value in SQL_SETTINGS.items()},
    "spark.master": "set the master instead",
    "spark.driver.memory": "set the memory instead",
    "spark.python.daemon.module": "Tailrace has its own daemon",
}
_MASTERS = re.compile(r"local(\[(\d+|\*)(, ?\d+)?\])?|local-cluster\[\d+, ?\d+, ?\d+\]|spark://.+|k8s://.+|yarn")
_SIZE = re.compile(r"(\d+)([kmgt])b?", re.IGNORECASE)
_LEAST_MEMORY = 512 * 1024**2
_UNITS = {"k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


@dataclass(frozen=True)
class SparkOptions:
    """How Tailrace starts Spark, unless there is a session already. None is the environment's value, or the default.

    master   `local[4]`, `local[*]` (the default: all cores of this machine), `spark://host:7077`, ...
    memory   the memory of Spark's driver, where a local Spark also runs its tasks: `4g`, `512m`; by default 2g.
             Executors of a cluster have their own setting, `spark.executor.memory`
    conf     other settings of Spark, by name

    Raises `BadSetting` if a value is not valid.
    """

    master: str | None = None
    memory: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.master is not None and not _MASTERS.fullmatch(self.master):
            advice = "write local[4], local[*], spark://host:port, k8s://..., or yarn"
            raise BadSetting(name="master", value=self.master, advice=advice)
        if self.memory is not None and parse_size(self.memory) < _LEAST_MEMORY:
            advice = "write a number and a unit, at least 512m, as in 4g"
            raise BadSetting(name="memory", value=self.memory, advice=advice)
        for name, value in self.conf.items():
            if not name.startswith("spark."):
                advice = "names of Spark's settings begin with `spark.`"
                raise BadSetting(name="conf", value=f"{name}={value}", advice=advice)
            if name in _RESERVED:
                raise BadSetting(name="conf", value=f"{name}={value}", advice=_RESERVED[name])

    def with_environment(self) -> SparkOptions:
        """These options, completed by those of the environment."""
        master, memory, conf = (os.environ.get(name) or None for name in (MASTER, MEMORY, CONF))
        return SparkOptions(
            self.master or _named(MASTER, lambda: SparkOptions(master=master)).master,
            self.memory or _named(MEMORY, lambda: SparkOptions(memory=memory)).memory,
            {**_named(CONF, lambda: SparkOptions(conf=read_conf(shlex.split(conf or "")))).conf, **self.conf},
        )


def read_conf(settings: Iterable[str]) -> dict[str, str]:
    """Settings given as `KEY=VALUE`."""
    conf = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise BadSetting(name="conf", value=setting, advice="write KEY=VALUE")
        conf[name.strip()] = value
    return conf


def parse_size(text: str) -> int:
    """The bytes that a size such as `4g` means; 0 if it is not a size."""
    size = _SIZE.fullmatch(text)
    return int(size[1]) * _UNITS[size[2].lower()] if size else 0


def _named(variable: str, read: Callable[[], SparkOptions]) -> SparkOptions:
    """Reads options of the environment; an error names their variable."""
    try:
        return read()
    except BadSetting as error:
        raise BadSetting(**{**error.data, "name": variable}) from None
    except ValueError as error:  # of shlex: a quote is not closed
        raise BadSetting(name=variable, value=os.environ[variable], advice=f"{error}".lower()) from None
