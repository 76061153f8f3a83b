"""Flink SQL: a streaming job over a changelog (before images or upserts), to a blackhole or to a file of changes.

The source is Flink's own source of Arrow batches in memory, partitioned by key into one part per core. Seconds are the
job's net run time: planning and starting a cluster are not timed.
"""

from __future__ import annotations

import gc
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.json
from pyflink.java_gateway import get_gateway
from pyflink.table import DataTypes, EnvironmentSettings, Table, TableEnvironment
from pyflink.table.types import _to_java_data_type
from pyflink.util.java_utils import load_java_class
from shared import COLUMNS, VIEWS, Task, View, answer, report

BATCH = 10_000
HEAP = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2  # bytes; Java's default of a quarter is too small
UPSERTS = """
SELECT id, grp, amount, other FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY seen DESC) AS nth
  FROM (SELECT *, PROCTIME() AS seen FROM source)
) WHERE nth = 1 AND op = 1
"""
BEFORE_IMAGES = """
SELECT id, grp, amount, other FROM FROM_CHANGELOG(input => TABLE source, op => DESCRIPTOR(kind))
"""


@dataclass(frozen=True)
class Variant:
    """How a job runs: its input, its operations per mini-batch (None: no mini-batches), and its output."""

    before_images: bool
    batch: int | None
    to_file: bool

    @property
    def name(self) -> str:
        read = "before images" if self.before_images else "upserts"
        return f"Flink ({read}, {'to file' if self.to_file else 'to blackhole'})"


def variants(view: View, thorough: bool) -> list[Variant]:
    """For each input, jobs to a file come first: the jobs to a blackhole use their answer."""
    cycle = view.cycles[0]
    if not thorough:
        return [Variant(True, cycle, True), Variant(True, cycle, False)]
    to_file = {True: (None, cycle), False: (cycle,)}
    return [
        Variant(before, batch, kept)
        for before in (True, False)
        for kept, batches in ((True, to_file[before]), (False, (None, *view.cycles)))
        for batch in batches
    ]


def create_environment(task: Task, variant: Variant) -> TableEnvironment:
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = {"parallelism.default": str(task.cores), "pipeline.object-reuse": "true"}
    if variant.batch:
        settings["table.exec.mini-batch.enabled"] = "true"
        settings["table.exec.mini-batch.allow-latency"] = "1 s"
        settings["table.exec.mini-batch.size"] = str(variant.batch)
    if variant.to_file:  # only a checkpoint completes a file
        settings["execution.checkpointing.interval"] = "1 s"
    for name, value in settings.items():
        env.get_config().set(name, value)
    return env


def source(env: TableEnvironment, table: pa.Table, parts: int, scratch: str) -> Table:
    """A table of Arrow batches. Subtask i modulo `parts` reads batch i, so that batch has only keys of that part."""
    owner = table["id"].to_numpy() % parts
    owned = [table.filter(pa.array(owner == part)).combine_chunks().to_batches(BATCH) for part in range(parts)]
    empty = table.schema.empty_table().combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
    path = os.path.join(scratch, "source.arrow")
    with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        for nth in range(max(map(len, owned))):
            for batches in owned:
                writer.write_batch(batches[nth] if nth < len(batches) else empty[0])
    kinds = {pa.int64(): DataTypes.BIGINT(), pa.int8(): DataTypes.TINYINT(), pa.string(): DataTypes.STRING()}
    row = DataTypes.ROW([DataTypes.FIELD(field.name, kinds[field.type]) for field in table.schema])
    row_data = load_java_class("org.apache.flink.table.data.RowData")
    arrow = get_gateway().jvm.org.apache.flink.table.runtime.arrow.ArrowUtils
    descriptor = arrow.createArrowTableSourceDesc(_to_java_data_type(row).notNull().bridgedTo(row_data), path)
    return Table(getattr(env._j_tenv, "from")(descriptor), env)


def run(task: Task, view: View, variant: Variant, directory: str) -> float:
    """Seconds of one job. The file of changes, if any, is written to `directory`."""
    with tempfile.TemporaryDirectory() as scratch:
        env = create_environment(task, variant)
        changes = task.table("changes", view.changes) if variant.before_images else task.table("ops", view.operations)
        env.create_temporary_view("source", source(env, changes, task.cores, scratch))
        env.execute_sql(f"CREATE TEMPORARY VIEW ops AS {BEFORE_IMAGES if variant.before_images else UPSERTS}")
        if view.name == "join":
            os.mkdir(os.path.join(scratch, "side"))
            side = source(env, task.table("side"), task.cores, os.path.join(scratch, "side"))
            env.create_temporary_view("side", side)
        columns = ", ".join(f"{name} BIGINT" for name in COLUMNS[view.name])
        sink = "'connector' = 'blackhole'"
        if variant.to_file:
            sink = f"'connector' = 'filesystem', 'path' = 'file://{directory}', 'format' = 'debezium-json'"
        env.execute_sql(f"CREATE TABLE sink ({columns}) WITH ({sink})")
        job = env.execute_sql(f"INSERT INTO sink {VIEWS[view.name]}").get_job_client()
        return job.get_job_execution_result().result().get_net_runtime() / 1000


def changes_in(directory: str, view: View) -> list[int]:
    """The answer of the changes in a directory of Debezium files."""
    value = pa.struct([(name, pa.int64()) for name in COLUMNS[view.name]])
    schema = pa.schema([("before", value), ("after", value), ("op", pa.string())])
    parse = pa.json.ParseOptions(explicit_schema=schema)
    files = [path for path in Path(directory).rglob("*part-*") if path.is_file() and path.stat().st_size]
    table = pa.concat_tables(pa.json.read_json(path, parse_options=parse) for path in files).combine_chunks()
    inserted = np.asarray(table["op"].to_numpy(zero_copy_only=False) == "c")
    before, after = table["before"].combine_chunks(), table["after"].combine_chunks()
    pairs = [(before.field(name).fill_null(0), after.field(name).fill_null(0)) for name in COLUMNS[view.name]]
    rows = [np.where(inserted, new.to_numpy(), old.to_numpy()) for old, new in pairs]
    return answer(rows, np.where(inserted, 1, -1))


def measure(task: Task, view: View, variant: Variant, view_answer: list[int]) -> None:
    """Measures one variant. A job to a file sets `view_answer`, which a later job to a blackhole reports."""

    def run_once() -> float:
        with tempfile.TemporaryDirectory() as directory:
            seconds = run(task, view, variant, directory)
            if variant.to_file:
                view_answer[:] = changes_in(directory, view)
        gc.collect()  # releases Java objects that Python still references
        return seconds

    ends = "changes" if variant.to_file else "nothing"
    report(view, task.repeat(run_once), view_answer, how=variant.name, cycle=variant.batch or 1, ends=ends)


if __name__ == "__main__":
    os.environ["JVM_ARGS"] = f"-Xmx{HEAP}"  # read when Java starts
    task = Task.from_command_line()
    for view in task.views:
        view_answer: list[int] = []
        for variant in variants(view, task.thorough):
            measure(task, view, variant, view_answer)
