"""What one Spark task does: operators one after another on Arrow tables, and the writes of all of them at the end.

    read ─► where ─► select ─► keep(join) ─► where ─► keep(aggregate) ─► select ─► keep(view)
    fed  ─────────────────────────┘             (each operator once, however many use what it gives)

A hop between Spark and Python costs more than most operators do on a small delta. So a task goes on for as
long as it can: the log is read, expressions are evaluated and states are kept in the same task; Spark's own
operators come in where an expression needs them or rows must go to another task. Each shard gets all its
writes in one transaction; answers that may come out differently when computed again get theirs before (`Settle`).
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
from tailrace.rules.before import Before, Rule, spread
from tailrace.rules.reset import instead
from tailrace.sent_errors import sending
from tailrace.store.base import Store, Write
from tailrace.store.reference import StoreRef
from tailrace.task.assignment import Assignment, AssignmentSource
from tailrace.task.log_reader import read_delta
from tailrace.task.totals import Totals

APPLYING = 4  # shards that one task commits at a time
EMITTED = 200_000  # rows in a batch that goes back to Spark
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
        """Hold writes until the end; a state that two operators share is written once."""
        for write in writes:
            if len(write.keys) and write.state not in self.work.fixed:
                self.writes.setdefault(write.state, write)

    def settle(self, writes: Sequence[Write], shards: Sequence[int]) -> bool:
        """Apply writes now, in each of these shards if only to say that nothing changes; False if any had the epoch."""
        return all(self.apply(self.parts([w for w in writes if w.state not in self.work.fixed], shards)))

    def parts(self, writes: Iterable[Write], shards: Sequence[int] = ()) -> dict[int, list[Write]]:
        """Writes by shard; those of views that are recomputed take the place of all that there was."""
        parts: dict[int, list[Write]] = {}
        for write in writes:
            nothing = Write.of(write.state, [], [], [])
            for shard, part in {**dict.fromkeys(shards, nothing), **dict(spread(write))}.items():
                if self.work.reset:
                    part = instead(self.before.shard(shard), part)
                elif self.work.blank:
                    part = replace(part, olds=None)
                parts.setdefault(shard, []).append(part)
        return parts

    def apply(self, parts: Mapping[int, Sequence[Write]]) -> list[bool]:
        """Write the parts; for each shard whether it took any of them."""
        with ThreadPoolExecutor(APPLYING) as pool:  # a durable commit waits for the disk: shards wait side by side
            epoch, keep, term = self.work.epoch, self.work.keep, self.work.term
            jobs = [pool.submit(partial(self.store.shard(n).apply, epoch, w, keep, term)) for n, w in parts.items()]
            return [job.result() for job in jobs]


class Operator(Protocol):
    """A table from tables; None is a delta without rows."""

    def run(self, inputs: Tables, task: Task) -> pa.Table | None: ...


class Linear:
    """An operator that can do some rows without knowing the others."""


@dataclass(frozen=True)
class Read:
    """The delta of a table."""

    table: TableDef
    positions: tuple[int, ...]
    net: bool

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        batches = list(read_delta(task.store, self.table, task.nodes, task.work, self.positions, net=self.net))
        return _with_weights(pa.Table.from_batches(batches)) if batches else None

    def stream(self, task: Task) -> Iterator[pa.Table]:
        """The same, some rows at a time."""
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
    """Sums of a table's delta by group."""

    table: TableDef
    positions: tuple[int, ...]
    totals: Totals

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        batches = read_delta(task.store, self.table, task.nodes, task.work, self.positions, net=False)
        found = list(self.totals.over(batches))
        return pa.Table.from_batches(found) if found else None


@dataclass(frozen=True)
class Fed:
    """Rows that Spark sent; `number` says which of its frames they are of."""

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
    """Expressions under their names, and `_weight` as it was."""

    items: tuple[tuple[str, Expression], ...]

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        (rows,) = inputs
        if rows is None:
            return None
        columns = [expression(rows) for _, expression in self.items]
        return pa.Table.from_arrays([*columns, rows.column(WEIGHT)], names=[*(n for n, _ in self.items), WEIGHT])


@dataclass(frozen=True)
class Merge:
    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        there = [t for t in inputs if t is not None]
        return pa.concat_tables(there) if there else None


@dataclass(frozen=True)
class Seed:
    """One row of NULLs with weight 0, by which the one group of an aggregate without GROUP BY comes to be."""

    schema: pa.Schema

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        nulls = [pa.nulls(1, f.type) if f.name != WEIGHT else pa.array([0], pa.int64()) for f in self.schema]
        return pa.Table.from_arrays(nulls, schema=self.schema)


@dataclass(frozen=True)
class Keep:
    """An operator with state: its rule on the deltas of its inputs.

    `by` are, for each input, the columns whose hash says in which of the `shards` a row belongs.
    """

    rule: Rule
    inputs: tuple[pa.Schema, ...]
    by: tuple[tuple[str, ...], ...]
    shards: int

    def run(self, inputs: Tables, task: Task) -> pa.Table | None:
        if not any(t is not None and t.num_rows for t in inputs):
            return None
        out = self._step([self._placed(t, n) for n, t in enumerate(inputs)], task)
        return out if out is not None and out.num_rows else None

    def _step(self, deltas: Sequence[pa.Table], task: Task) -> pa.Table | None:
        out, writes = self.rule.step(deltas, task.before)
        task.keep(writes)
        return out

    def _placed(self, rows: pa.Table | None, number: int) -> pa.Table:
        wanted = self.inputs[number]
        if rows is None:
            rows = wanted.empty_table()
        elif rows.schema != wanted:  # whether elements of nested values may be NULL is written differently by Spark
            rows = rows.select(wanted.names).cast(wanted)
        if SHARD in rows.column_names:
            return rows.combine_chunks()
        return sharded(rows, self.by[number], self.shards).combine_chunks()


@dataclass(frozen=True)
class Settle(Keep):
    """An operator whose answers may come out differently when computed again: they are written at once.

    Two tasks of a job may compute the same answers, or a task and the one that is run in its place. Whatever is made
    of an answer is made of the one that stands: in each shard that of whoever came first.
    """

    def _step(self, deltas: Sequence[pa.Table], task: Task) -> pa.Table | None:
        out, writes = self.rule.step(deltas, task.before)
        shards = sorted({shard for delta in deltas for shard in delta.column(SHARD).unique().to_pylist()})
        if not task.settle(writes, shards):
            task.before.renew()
            out, _ = self.rule.step(deltas, task.before)
        return out


@dataclass(frozen=True)
class Program:
    """Operators in the order of the work, each with the numbers of its inputs; `roots` give the task's rows.

    `feeds` are the columns of each frame that Spark sends in, tagged when there are several.
    """

    operators: tuple[tuple[Operator, tuple[int, ...]], ...]
    roots: tuple[int, ...]
    feeds: tuple[tuple[str, ...], ...]
    output: pa.Schema

    @property
    def streams(self) -> bool:
        """Whether rows can be done without knowing the others: a delta that is read and passed on."""
        linear = all(isinstance(o, Linear) for o, _ in self.operators[1:])
        return isinstance(self.operators[0][0], Read) and linear and len(self.roots) == 1

    def run(
        self, store: Store, work: Assignment, nodes: Sequence[int], rows: Sequence[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        with Before(store, work.epoch, blank=work.blank, fixed=work.fixed) as before:
            task = Task(store, work, nodes, self._fed(rows), before, {})
            if self.streams:
                read = self.operators[0][0]
                assert isinstance(read, Read)
                for first in read.stream(task):
                    yield from self._emitted(self._results(task, [first]))
            else:
                yield from self._emitted(self._results(task, []))
            parts = task.parts(task.writes.values())
        faults.point("task.apply")
        task.apply(parts)
        faults.point("task.applied")

    def _results(self, task: Task, known: list[pa.Table | None]) -> list[pa.Table | None]:
        results = list(known)
        for operator, inputs in self.operators[len(known) :]:
            results.append(operator.run([results[i] for i in inputs], task))
        return results

    def _emitted(self, results: list[pa.Table | None]) -> Iterator[pa.RecordBatch]:
        for root in self.roots:
            table = results[root]
            if table is not None and table.num_rows:
                yield from table.select(self.output.names).cast(self.output).to_batches(max_chunksize=EMITTED)

    def _fed(self, rows: Sequence[pa.RecordBatch]) -> list[pa.Table | None]:
        there = [b for b in rows if b.num_rows]
        if not there:
            return [None] * len(self.feeds)
        whole = pa.Table.from_batches(there)
        if len(self.feeds) == 1:
            return [whole]
        fed = []
        for number, names in enumerate(self.feeds):
            picked = whole.filter(pc.equal(whole.column(INPUT), number))
            columns = [picked.column(n if n == SHARD else fed_name(number, n)) for n in names]
            fed.append(pa.Table.from_arrays(columns, names=list(names)))
        return fed


def sharded(rows: pa.Table, by: Sequence[str], shards: int) -> pa.Table:
    """Rows with the shard that each belongs to by its values in some columns."""
    return rows.append_column(SHARD, pa.array(hash_buckets([rows.column(n) for n in by], shards, rows.num_rows)))


def fed_name(number: int, name: str) -> str:
    """What a column of one of several frames is called while they travel together."""
    return f"i{number}{name}"


def run(
    batches: Iterator[pa.RecordBatch], program: Program, store: StoreRef, nodes: int, source: AssignmentSource
) -> Iterator[pa.RecordBatch]:
    """A task whose rows come from Spark; what else it reads, it reads of all nodes."""
    return sending(lambda: program.run(store.open(), source.take(), range(nodes), list(batches)))


def read(program: Program, store: StoreRef, nodes: Sequence[int], source: AssignmentSource) -> Iterator[pa.RecordBatch]:
    """A task that reads all its rows itself."""
    return sending(lambda: program.run(store.open(), source.take(), nodes, ()))


def _with_weights(rows: pa.Table) -> pa.Table:
    at = rows.num_columns - 1
    return rows.set_column(at, WEIGHT, rows.column(at).cast(pa.int64()))
