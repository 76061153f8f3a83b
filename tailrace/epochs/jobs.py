"""Runs the Spark jobs of epochs: deltas of views with plans, views recomputed by their plans or by their SQL.

A job applies its assignment shard by shard (`task/program.py`) and is idempotent. When it runs, and what its success
means, is decided by the protocol (`epochs/protocol.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple
from weakref import WeakSet

from msgspec import structs
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tailrace import faults
from tailrace.epochs.blame import Cause, find_cause
from tailrace.epochs.maintained import Maintained
from tailrace.epochs.recompute import RecomputableView, replacing_frame
from tailrace.errors import TailraceError
from tailrace.plan.physical.physical_plan import ViewSink
from tailrace.plan.physical.sizing import SMALL, fits_one_task
from tailrace.rules.reset import clear_unwritten_shards
from tailrace.spark.compile import Compiler, is_touched
from tailrace.spark.failures import FAILURES, epoch_failed
from tailrace.spark.session import is_running, session
from tailrace.spark.stages import Stages, set_assignment
from tailrace.store.base import Store
from tailrace.task.assignment import Assignment, AssignmentSource

_WARM: WeakSet[SparkContext] = WeakSet()  # those that have run a job with Python workers
MAX_CACHED_FRAMES = 8  # one for each set of tables that change together, with the temporal filters that are due


class CompiledFrame(NamedTuple):
    """The DataFrame that applies an epoch to all views, and whether Spark may run it again for the next epoch.

    `fed` are the views (their states) for which Spark computes something itself.
    """

    frame: DataFrame | None
    reusable: bool
    fed: frozenset[int]


def _count_tasks(shards: int, spark: SparkSession) -> int:
    """Tasks per stage: about one per core, at least two, and a divisor of the number of shards."""
    try:
        cores = spark.sparkContext.defaultParallelism
    except PySparkException:  # Spark Connect has no context
        return shards
    return max(t for t in range(1, shards + 1) if shards % t == 0 and (t <= max(cores, 2) or t == 2))


class Jobs:
    """Runs jobs on a store. A job of at most `small` operations is a single task."""

    def __init__(self, store: Store, spark: Callable[[], SparkSession], small: int = SMALL) -> None:
        self._store, self._spark, self.small = store, spark, small
        self.frames: dict[
            tuple[tuple[int, ...], frozenset[int] | None, frozenset[int], int, str | None], CompiledFrame
        ] = {}

    def is_running(self) -> bool:
        """Whether the Spark session has not stopped."""
        return is_running(self._spark())

    def can_run(self) -> bool:
        """Whether Spark can run a job at all: then a view is to blame for a failed one."""
        try:
            spark = self._spark()
            return is_running(spark) and bool(spark.range(1).mapInArrow(lambda batches: batches, "id long").collect())
        except FAILURES:
            return False

    def warm_up(self) -> None:
        """Starts Spark and its Python workers, unless this process has used them already. That takes seconds."""
        try:
            context = self._spark().sparkContext
        except PySparkException:  # Spark Connect has no context; its server runs already
            return
        if context not in _WARM and self.can_run():
            _WARM.add(context)

    def run_job(
        self,
        work: Assignment,
        maintained: Maintained,
        touched: frozenset[int] | None,
        operations: int,
        build: str | None = None,
        due: frozenset[int] = frozenset(),
        *,
        careful: bool = False,
    ) -> int:
        """Runs the Spark job that applies an assignment to views with plans. Returns the view rows written.

        `touched` are the tables with changes; None computes the views from whole tables. `due` are the states of
        temporal filters with rows to change. `careful`: the job is compiled anew, and so that rows which cancel out
        never reach an expression.
        """
        spark, fed = self._spark(), frozenset[int]()
        try:
            changed = [view for view in maintained.views if is_touched(view, maintained.states, touched, due)]
            costs = [view.plan.cost for view in changed]
            is_small = fits_one_task(costs, operations, self.small)
            tasks = 1 if is_small else _count_tasks(self._store.shards, spark)
            spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
            faults.point("epoch.work")
            source = set_assignment(spark, work)
            frame, fed = self._compile(source, touched is None, maintained, touched, due, tasks, build, careful)
            return sum(row.rows for row in frame.collect()) if frame is not None else 0
        except FAILURES as error:
            if work.start is not None:
                self._store.touched(work.start, work.end)  # if the log is damaged, raise that error instead
            raise epoch_failed(work.epoch, error, self._failure_prefix(), fed) from error

    def _failure_prefix(self) -> str:
        """What the message of a failed job says before Spark's reason."""
        if is_running(self._spark()):
            return ""
        return "Spark has stopped, so only a new process can retry it; start this process again. Spark's last error: "

    def _compile(
        self,
        assignment_source: AssignmentSource,
        blank: bool,
        maintained: Maintained,
        touched: frozenset[int] | None,
        due: frozenset[int],
        tasks: int,
        build: str | None,
        careful: bool,
    ) -> tuple[DataFrame | None, frozenset[int]]:
        """The job's frame, from the cache if the same views and tables were compiled before, and the views it feeds.

        A frame that is not reusable has a shuffle. It gets a new alias, so that Spark plans it again instead of
        reusing the shuffle files of the previous epoch.
        """
        cache_key = (tuple(view.state for view in maintained.views), touched, due, tasks, build)
        compiled = None if careful else self.frames.get(cache_key)
        if compiled is None:
            stages = Stages(self._spark(), self._store, tasks, assignment_source)
            compiler = Compiler(stages, maintained.tables, maintained.states, touched, due, blank=blank, netted=careful)
            frame = compiler.compile_views(maintained.views)
            compiled = CompiledFrame(frame, compiler.reusable, compiler.fed)
            if not blank and not careful and assignment_source.fixed is None:
                while len(self.frames) >= MAX_CACHED_FRAMES:
                    self.frames.pop(next(iter(self.frames)))
                self.frames[cache_key] = compiled
        frame = compiled.frame
        return frame if frame is None or compiled.reusable else frame.alias("again"), compiled.fed

    def recompute_plans(self, work: Assignment, maintained: Maintained) -> int:
        """Recomputes views and their states from whole tables, by their plans. Returns the view rows written."""
        rows = self.run_job(work, maintained, None, self.count_input(maintained))
        states = {*(v.state for v in maintained.views), *maintained.states_of(maintained.views)} - work.fixed
        clear_unwritten_shards(self._store, sorted(states), work.epoch, work.keep, work.term)
        return rows

    def recompute_query(self, work: Assignment, view: RecomputableView, maintained: Maintained) -> int:
        """Recomputes a view by its SQL. Returns the view rows written."""
        rows = self.run_query(work, view, maintained)
        clear_unwritten_shards(self._store, [view.state], work.epoch, work.keep, work.term)
        return rows

    def count_input(self, maintained: Maintained) -> int:
        """The number of rows of all tables that the views read."""
        return self._count_rows(maintained, {number for view in maintained.views for number in view.plan.tables})

    def _count_rows(self, maintained: Maintained, numbers: Iterable[int]) -> int:
        return sum(self._store.count(maintained.tables[number]) for number in numbers)

    def run_query(self, work: Assignment, view: RecomputableView, maintained: Maintained) -> int:
        """Runs a view's SQL and stores the result. Returns the view rows written."""
        size = self._count_rows(maintained, view.tables)
        try:
            spark = session(self._spark())
            tasks = 1 if size <= self.small else _count_tasks(self._store.shards, spark)
            spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
            stages = Stages(spark, self._store, tasks, set_assignment(spark, work))
            frame = replacing_frame(spark, self._store, stages, view, work.end, work.time)
            return sum(row.rows for row in frame.collect())
        except FAILURES as error:
            raise epoch_failed(work.epoch, error, f"{self._failure_prefix()}view '{view.name}': ") from error

    def find_cause(
        self,
        view: ViewSink,
        work: Assignment,
        touched: frozenset[int] | None,
        due: frozenset[int],
        maintained: Maintained,
    ) -> Cause:
        """Finds out why a view fails, by dry runs of its operators."""
        try:
            spark = self._spark()
            stages = Stages(spark, self._store, 1, set_assignment(spark, structs.replace(work, dry=True)))
            return find_cause(stages, maintained.tables, maintained.states, view, touched, due)
        except (*FAILURES, TailraceError):
            return Cause()  # the error of the view itself must do
