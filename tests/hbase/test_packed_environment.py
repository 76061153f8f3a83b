"""Executors that have no Tailrace of their own run it from a packed environment, as docs/cluster.md says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import venv
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from commands import command
from pyspark.sql import SparkSession

import tailrace
from tailrace_cluster.local_spark import LocalSpark
from tailrace_hbase.local_cluster import LocalCluster
from tailrace_hbase.scratch import scratch_database

pytestmark = [pytest.mark.hbase, pytest.mark.soak]

DOCS = Path(__file__).parent.parent.parent / "docs" / "cluster.md"
RUN = """
import json, sys, tailrace as tr

def where(batches):
    import pyspark, sys, tailrace, pyarrow as pa
    for batch in batches:
        places = [sys.prefix, tailrace.__file__, pa.__file__, pyspark.__file__]
        yield pa.RecordBatch.from_pydict({"place": places})

url, master, archive = sys.argv[1:]
conf = {"spark.archives": archive + "#environment", "spark.executor.memory": "512m"}
with tr.open(url, spark=tr.SparkOptions(master=master, conf=conf)) as db:
    db.refresh()
    assert db.verify("v").ok
    places = db.spark.range(0, 1, 1, 1).mapInArrow(where, "place string").collect()
    print(json.dumps([row.place for row in places]))
"""


def documented_packages() -> list[str]:
    """What the recipe installs, apart from Tailrace and the program that packs."""
    [line] = re.findall(r"environment/bin/pip install (numpy .*) venv-pack", DOCS.read_text())
    return [re.split(r"[<>=]", word.strip("'"))[0] for word in line.split()]


def install(name: str, target: Path, done: set[str]) -> None:
    """Copies an installed package with those that it requires. `pip install` would need a network."""
    if name in done:
        return
    done.add(name)
    try:
        package = distribution(name)
    except PackageNotFoundError:  # required on other systems only
        return
    for file in package.files or ():
        if ".." not in file.parts and "tests" not in file.parts and "__pycache__" not in file.parts:
            copy = target / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file.locate(), copy)
    for required in package.requires or ():
        if "extra ==" not in required:
            install(re.split(r"[^\w.-]", required)[0], target, done)


def pack(path: Path) -> Path:
    """A packed environment with the documented packages and Tailrace."""
    environment, archive = path / "environment", path / "environment.tar.gz"
    venv.create(environment, with_pip=False)
    [packages] = environment.glob("lib/python*/site-packages")
    for name in documented_packages():
        install(name, packages, set())
    own = Path(tailrace.__file__).parent
    shutil.copytree(own, packages / "tailrace", ignore=shutil.ignore_patterns("__pycache__", "*.jar"))
    program = Path(sys.executable).parent / "venv-pack"
    options = ["--quiet", "--compress-level", "1", "--prefix", environment, "--output", archive]
    subprocess.run([program, *options], check=True)
    shutil.rmtree(environment)  # only the archive has it now
    return archive


def test_executors_run_from_a_packed_environment(cluster: LocalCluster, spark: SparkSession, tmp_path: Path) -> None:
    archive = pack(tmp_path)
    workers = LocalSpark(tmp_path / "spark", env={"PYTHONPATH": ""})
    with scratch_database(cluster, spark) as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT v % 3 AS g, percentile(v, 0.5) AS m FROM t GROUP BY v % 3")
        db.table("t").put_many([{"id": n, "v": n * n} for n in range(20)])
        try:
            workers.start(workers=1)
            arguments = (db.path, workers.url, archive)
            with command(tmp_path, *arguments, code=RUN, PYSPARK_PYTHON="./environment/bin/python") as run:
                assert run.end() == 0, run.err
        finally:
            workers.stop()
        assert db.view("v").scan().num_rows == 2
    *packed, pyspark = json.loads(run.out)
    assert all(str(tmp_path / "spark" / "work") in place for place in packed), packed
    assert str(tmp_path) not in pyspark  # Spark's own part is that of the installation
