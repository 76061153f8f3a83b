"""How large the benchmarks are: quick ones to see that all is well, full ones for the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Size:
    """The sizes of all benchmarks in one run.

    operations   of one epoch of sums, and of what sums are compared with
    usual        of one epoch where the rate of anything else is asked
    rows         that are written straight into LMDB, to see how fast it is
    updates      view rows of one epoch where many views share a table
    tables       rows of tables, where that is the axis
    deltas       operations of an epoch, where that is the axis
    keys         of tables that are updated again and again
    groups       rows of a view of sums, where that is the axis
    ratios       keys and groups of aggregations
    join_keys    of joins
    exponents    of Zipf's law, by which keys are drawn
    joined       operations of a join's epoch; each finds 10 rows
    queries      views where there are many, over several tables
    counts       of view tables, where that is the axis
    rates        operations a second of a paced writer
    seconds      that such a writer writes, and others that write as fast as they can
    patience     seconds after which the number of view tables is not raised further
    scale        of TPC-H
    """

    name: str
    repeats: int
    operations: int
    usual: int
    rows: int
    updates: int
    tables: tuple[int, ...]
    deltas: tuple[int, ...]
    keys: int
    groups: tuple[int, ...]
    ratios: tuple[tuple[int, int], ...]
    join_keys: tuple[int, ...]
    exponents: tuple[float, ...]
    joined: int
    queries: int
    counts: tuple[int, ...]
    rates: tuple[int, ...]
    seconds: float
    patience: float
    scale: float

    QUICK: ClassVar[Size]
    FULL: ClassVar[Size]


Size.QUICK = Size(
    name="quick",
    repeats=2,
    operations=100_000,
    usual=100_000,
    rows=50_000,
    updates=100_000,
    tables=(10_000, 200_000),
    deltas=(1_000, 10_000, 100_000),
    keys=100_000,
    groups=(10_000,),
    ratios=((10_000, 1_000), (100_000, 10_000)),
    join_keys=(1_000, 10_000),
    exponents=(0.0, 1.0),
    joined=10_000,
    queries=10,
    counts=(20, 60),
    rates=(5_000, 50_000),
    seconds=3,
    patience=30,
    scale=0.01,
)
Size.FULL = Size(
    name="full",
    repeats=3,
    operations=2_000_000,
    usual=500_000,
    rows=500_000,
    updates=2_000_000,
    tables=(100_000, 1_000_000, 10_000_000),
    deltas=(1_000, 10_000, 100_000, 1_000_000, 2_000_000),
    keys=100_000,
    groups=(1_000, 10_000),
    ratios=((10_000, 1_000), (100_000, 10_000), (1_000_000, 1_000), (1_000_000, 150_000)),
    join_keys=(1_000, 10_000, 100_000),
    exponents=(0.0, 0.5, 1.0, 1.5),
    joined=200_000,
    queries=100,
    counts=(200, 1_600, 12_800),
    rates=(5_000, 20_000, 50_000),
    seconds=10,
    patience=600,
    scale=0.1,
)
