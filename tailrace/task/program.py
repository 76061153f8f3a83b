"""The program of a Spark task: operators on Arrow tables, run in order, and all their writes at the end.

    read ─► where ─► select ─► keep(join) ─► where ─► keep(aggregate) ─► select ─► keep(view)
    fed  ─────────────────────────┘             (each operator runs once, even if several use its output)

A hop between Spark and Python costs more than most operators do on a small delta. So one task does as much as
possible: it reads the log, evaluates expressions and maintains states. Spark runs an operator itself only if an
expression needs Spark or if rows must go to another task. Each shard gets all its writes at the end, except
answers that may differ when recomputed: `Settle` writes those earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tailrace import faults
from tailrace.codec.murmur import hash_buckets
from tailrace.codec.schema import TableDef
from tailrace.delta import SHARD, WEIGHT
from tailrace.rules.arrow.compiled import Expression
from tailrace.rules.before import Before, Rule, split_by_shard
from tailrace.rules.reset import replace_contents
from tailrace.rules.sink import Sink
from tailrace.sent_errors import blaming, send_errors
from tailrace.store.base import Store, Write
from tailrace.store.store_ref import StoreRef
from tailrace.task.assignment import Assignment, AssignmentSource
from tailrace.task.log_reader import read_delta
from tailrace.task.totals import Totals

APPLYING = 4  # shards that one task commits in parallel
EMITTED = 200_000  # rows in a batch that is returned to Spark
INPUT = "_input"

Tables = Sequence[pa.Table | None]


@dataclass
class Task:
    """What the operators of one task share."""

    store: Store
    work: Assignment
    nodes: Sequence[int]
    fed: Tables
    before: Before
    writes: dict[int, Write]

    def keep(self, writes: Sequence[Write]) -> None:
        """Collects writes until the end of the task. A state that two operators share is written once."""
        for write in writes:
            if len(write.keys) and write.state not in self.work.fixed:
                self.writes.setdefault(write.state, write)

    def apply_now(self, writes: Sequence[Write], shards: Sequence[int]) -> bool:
        """Applies writes at once, and marks the epoch in all of `shards`; False if any shard already had the epoch."""
        return all(self.apply(self.split([w for w in writes if w.state not in self.work.fixed], shards)))

    def split(self, writes: Iterable[Write], shards: Sequence[int] = ()) -> dict[int, list[Write]]:
        """Splits writes by shard; `shards` get a write even if it is empty. With `reset` a write replaces its state."""
        parts: dict[int, list[Write]] = {}
        for write in writes:
            nothing = Write.of(write.state, [], [], [])
            for shard, part in {**dict.fromkeys(shards, nothing), **dict(split_by_shard(write))}.items():
                if self.work.reset:
                    part = replace_contents(self.before.shard(shard), part)
                elif self.work.blank:
                    part = replace(part, olds=None)
                parts.setdefault(shard, []).append(part)
        return parts

    def apply(self, parts: Mapping[int, Sequence[Write]]) -> list[bool]:
        """Applies writes by shard; returns for each shard whether it accepted any of them. A dry run writes nothing."""
        if self.work.dry:
            return []
        with ThreadPoolExecutor(APPLYING) as pool:  # in parallel: a durable commit waits for the disk
            epoch, keep, term = self.work.epoch, self.work.keep, self.work.term
            jobs = [pool.submit(partial(self.store.shard(n).apply, epoch, w, keep, term)) for n, w in parts.items()]
            return [job.result() for job in jobs]


class Operator(Protocol):
    """Makes a table from tables. None is a delta without rows."""

    def run(self, inputs: Tables, task: Task) -> pa.Table | None: ...


class Linear:
    """Marks an operator that processes each row independently of the others."""


@dataclass(frozen=True)
class Read:
    """Reads the delta of a table."""

    table: TableDef
    positions: tuple[int, ...]
    net: bool

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        batches = list(read_delta(task.store, self.table, task.nodes, task.work, self.positions, net=self.net))
        return _with_weights(pa.Table.from_batches(batches)) if batches else None

    def stream(self, task: Task) -> Iterator[pa.Table]:
        """Like `run`, about EMITTED rows at a time."""
        batches, rows = [], 0
        for batch in read_delta(task.store, self.table, task.nodes, task.work, self.positions, net=self.net):
            batches.append(batch)
            rows += batch.num_rows
            if rows >= EMITTED:
                yield _with_weights(pa.Table.from_batches(batches))
                batches, rows = [], 0
        if batches:
            yield _with_weights(pa.Table.from_batches(batches))


@dataclass(frozen=True)
class ReadTotals:
    """Reads the delta of a table and sums it by group."""

    table: TableDef
    positions: tuple[int, ...]
    totals: Totals

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        batches = read_delta(task.store, self.table, task.nodes, task.work, self.positions, net=False)
        sums = list(self.totals.over(batches))
        return pa.Table.from_batches(sums) if sums else None


@dataclass(frozen=True)
class Fed:
    """Rows that Spark passes to the task; `number` is the number of their DataFrame."""

    number: int

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        return task.fed[self.number]


@dataclass(frozen=True)
class Where(Linear):
    condition: Expression

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        (rows,) = inputs
        return None if rows is None else rows.filter(self.condition(rows))


@dataclass(frozen=True)
class Select(Linear):
    """Evaluates named expressions; `_weight` is unchanged."""

    items: tuple[tuple[str, Expression], ...]

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        (rows,) = inputs
        if rows is None:
            return None
        columns = [expression(rows) for _, expression in self.items]
        return pa.Table.from_arrays([*columns, rows.column(WEIGHT)], names=[*(n for n, _ in self.items), WEIGHT])


@dataclass(frozen=True)
class Merge:
    """UNION ALL."""

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        tables = [t for t in inputs if t is not None]
        return pa.concat_tables(tables) if tables else None


@dataclass(frozen=True)
class Seed:
    """One row of NULLs with weight 0. It creates the single group of an aggregate without GROUP BY."""

    schema: pa.Schema

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        nulls = [pa.nulls(1, f.type) if f.name != WEIGHT else pa.array([0], pa.int64()) for f in self.schema]
        return pa.Table.from_arrays(nulls, schema=self.schema)


@dataclass(frozen=True)
class Keep:
    """An operator with state: applies its delta rule to the deltas of its inputs.

    `by` are, for each input, the columns whose hash determines the shard of a row, out of `shards`.
    """

    rule: Rule
    inputs: tuple[pa.Schema, ...]
    by: tuple[tuple[str, ...], ...]
    shards: int

    @property
    def view_states(self) -> list[int]:
        return [self.rule.state] if isinstance(self.rule, Sink) else []

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        if not any(t is not None and t.num_rows for t in inputs):
            return None
        out = self._step([self._place(t, n) for n, t in enumerate(inputs)], task)
        return out if out is not None and out.num_rows else None

    def _step(self, deltas: Sequence[pa.Table], task: Task) -> pa.Table | None:
        out, writes = self.rule.step(deltas, task.before)
        task.keep(writes)
        return out

    def _place(self, rows: pa.Table | None, number: int) -> pa.Table:
        """Casts the rows of an input to its schema and adds their shards."""
        schema = self.inputs[number]
        if rows is None:
            rows = schema.empty_table()
        elif rows.schema != schema:  # Spark declares the nullability of nested elements differently
            rows = rows.select(schema.names).cast(schema)
        if SHARD in rows.column_names:
            return rows.combine_chunks()
        return add_shards(rows, self.by[number], self.shards).combine_chunks()


@dataclass(frozen=True)
class Settle(Keep):
    """An operator with state whose answers may have other bits when recomputed, so it writes them at once.

    Two tasks may compute the same answers: tasks of two views that share the state, or a task and its retry. In each
    shard the answers of the first task are final. A task that comes second drops its own answers, reads the stored
    ones and continues with those.
    """

    def _step(self, deltas: Sequence[pa.Table], task: Task) -> pa.Table | None:
        out, writes = self.rule.step(deltas, task.before)
        shards = sorted({shard for delta in deltas for shard in delta.column(SHARD).unique().to_pylist()})
        if not task.apply_now(writes, shards):
            task.before.reopen()
            out, _ = self.rule.step(deltas, task.before)
        return out


@dataclass(frozen=True)
class Program:
    """Operators in execution order, each with the numbers of its inputs; `roots` are those whose rows are returned.

    `feeds` are the columns of each DataFrame that Spark passes in. Several are unioned, with the number in INPUT.
    """

    operators: tuple[tuple[Operator, tuple[int, ...]], ...]
    roots: tuple[int, ...]
    feeds: tuple[tuple[str, ...], ...]
    output: pa.Schema

    @property
    def streams(self) -> bool:
        """Whether the program can run on a few rows at a time: one read, followed by linear operators."""
        linear = all(isinstance(o, Linear) for o, _ in self.operators[1:])
        return isinstance(self.operators[0][0], Read) and linear and len(self.roots) == 1

    def run(
        self, store: Store, work: Assignment, nodes: Sequence[int], rows: Sequence[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        with Before(store, work.epoch, blank=work.blank, fixed=work.fixed, base=work.base) as before:
            task = Task(store, work, nodes, self._fed(rows), before, {})
            if self.streams:
                read = self.operators[0][0]
                assert isinstance(read, Read)
                for rows_read in read.stream(task):
                    yield from self._to_batches(self._run_operators(task, [rows_read]))
            else:
                yield from self._to_batches(self._run_operators(task, []))
            parts = task.split(task.writes.values())
        faults.point("task.apply")
        task.apply(parts)
        faults.point("task.applied")

    def _run_operators(self, task: Task, known: list[pa.Table | None]) -> list[pa.Table | None]:
        """The result of each operator; `known` are those of the first ones."""
        results = list(known)
        for number, (operator, inputs) in list(enumerate(self.operators))[len(known) :]:
            with blaming(partial(self._views_after, number)):
                results.append(operator.run([results[i] for i in inputs], task))
        return results

    def _views_after(self, number: int) -> list[int]:
        """The states of the views that this program writes and that need the result of an operator."""
        after = {number}
        for later, (_, inputs) in enumerate(self.operators):
            if not after.isdisjoint(inputs):
                after.add(later)
        return sorted(s for n in after for s in getattr(self.operators[n][0], "view_states", ()))

    def _to_batches(self, results: list[pa.Table | None]) -> Iterator[pa.RecordBatch]:
        for root in self.roots:
            table = results[root]
            if table is not None and table.num_rows:
                yield from table.select(self.output.names).cast(self.output).to_batches(max_chunksize=EMITTED)

    def _fed(self, rows: Sequence[pa.RecordBatch]) -> list[pa.Table | None]:
        batches = [b for b in rows if b.num_rows]
        if not batches:
            return [None] * len(self.feeds)
        union = pa.Table.from_batches(batches)
        if len(self.feeds) == 1:
            return [union]
        fed = []
        for number, names in enumerate(self.feeds):
            picked = union.filter(pc.equal(union.column(INPUT), number))
            columns = [picked.column(n if n == SHARD else fed_name(number, n)) for n in names]
            fed.append(pa.Table.from_arrays(columns, names=list(names)))
        return fed


def add_shards(rows: pa.Table, by: Sequence[str], shards: int) -> pa.Table:
    """Appends the column `_shard`: the hash of the columns `by`, modulo `shards`."""
    return rows.append_column(SHARD, pa.array(hash_buckets([rows.column(n) for n in by], shards, rows.num_rows)))


def fed_name(number: int, name: str) -> str:
    """The name of a DataFrame's column in the union of several DataFrames."""
    return f"i{number}{name}"


def run(
    batches: Iterator[pa.RecordBatch], program: Program, store: StoreRef, nodes: int, source: AssignmentSource
) -> Iterator[pa.RecordBatch]:
    """A task whose rows come from Spark; what else it reads, it reads of all nodes."""
    return send_errors(lambda: program.run(store.attach(), source.take(), range(nodes), list(batches)))


def read(program: Program, store: StoreRef, nodes: Sequence[int], source: AssignmentSource) -> Iterator[pa.RecordBatch]:
    """A task that reads all its rows itself."""
    return send_errors(lambda: program.run(store.attach(), source.take(), nodes, ()))


def _with_weights(rows: pa.Table) -> pa.Table:
    """Casts the last column, the weights, to 64 bits."""
    at = rows.num_columns - 1
    return rows.set_column(at, WEIGHT, rows.column(at).cast(pa.int64()))
