"""Sizes of the benchmarks: QUICK to see that everything runs, FULL for docs/benchmarks.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Size:
    """The sizes of all benchmarks in one run.

    repeats             measured epochs or runs per point
    large_epoch         operations per epoch of `sums`, and new rows per epoch of selection and projection
    medium_epoch        operations per epoch of the other rate experiments
    lmdb_rows           rows per write in `limits`
    view_rows           view rows per epoch where many views share tables
    table_sizes         rows of the table, as the axis
    delta_sizes         operations per epoch, as the axis
    keys                keys of tables whose rows are updated repeatedly
    group_counts        groups of `sums`, as the axis
    keys_and_groups     pairs of table keys and groups of `aggregation`, as the axis
    join_keys           distinct join keys, as the axis
    zipf_exponents      exponents of the key distribution of `skew`, as the axis
    join_operations     operations per epoch of a join; each matches 10 rows
    selections          number of views in `selections` and `multiquery`
    view_table_counts   number of views in `viewtables`, as the axis
    write_rates         operations per second of a paced writer, as the axis
    write_seconds       how long a writer process writes
    creation_limit      seconds after which `viewtables` does not raise the number of views further
    tpch_scale          TPC-H scale factor
    disk_rows           orders of `disk`
    hbase_epoch         operations per epoch on HBase
    hbase_seconds       how long a client writes to HBase
    """

    name: str
    repeats: int
    large_epoch: int
    medium_epoch: int
    lmdb_rows: int
    view_rows: int
    table_sizes: tuple[int, ...]
    delta_sizes: tuple[int, ...]
    keys: int
    group_counts: tuple[int, ...]
    keys_and_groups: tuple[tuple[int, int], ...]
    join_keys: tuple[int, ...]
    zipf_exponents: tuple[float, ...]
    join_operations: int
    selections: int
    view_table_counts: tuple[int, ...]
    write_rates: tuple[int, ...]
    write_seconds: float
    creation_limit: float
    tpch_scale: float
    disk_rows: int
    hbase_epoch: int
    hbase_seconds: float

    QUICK: ClassVar[Size]
    FULL: ClassVar[Size]


Size.QUICK = Size(
    name="quick",
    repeats=2,
    large_epoch=100_000,
    medium_epoch=100_000,
    lmdb_rows=50_000,
    view_rows=100_000,
    table_sizes=(10_000, 200_000),
    delta_sizes=(1_000, 10_000, 100_000),
    keys=100_000,
    group_counts=(10_000,),
    keys_and_groups=((10_000, 1_000), (100_000, 10_000)),
    join_keys=(1_000, 10_000),
    zipf_exponents=(0.0, 1.0),
    join_operations=10_000,
    selections=10,
    view_table_counts=(20, 60),
    write_rates=(5_000, 50_000),
    write_seconds=3,
    creation_limit=30,
    tpch_scale=0.01,
    disk_rows=25_000,
    hbase_epoch=20_000,
    hbase_seconds=3,
)
Size.FULL = Size(
    name="full",
    repeats=3,
    large_epoch=2_000_000,
    medium_epoch=500_000,
    lmdb_rows=500_000,
    view_rows=2_000_000,
    table_sizes=(100_000, 1_000_000, 10_000_000),
    delta_sizes=(1_000, 10_000, 100_000, 1_000_000, 2_000_000),
    keys=100_000,
    group_counts=(1_000, 10_000),
    keys_and_groups=((10_000, 1_000), (100_000, 10_000), (1_000_000, 1_000), (1_000_000, 150_000)),
    join_keys=(1_000, 10_000, 100_000),
    zipf_exponents=(0.0, 0.5, 1.0, 1.5),
    join_operations=200_000,
    selections=100,
    view_table_counts=(200, 1_600, 12_800),
    write_rates=(5_000, 20_000, 50_000),
    write_seconds=10,
    creation_limit=600,
    tpch_scale=0.1,
    disk_rows=250_000,
    hbase_epoch=100_000,
    hbase_seconds=15,
)
