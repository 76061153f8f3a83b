"""The workload for every engine, correct or broken: `python workload.py STORE RECORDING`.

An epoch dies between its work and its commit and is retried, and a reader (the recorder) reads in between. A refresh
takes two epochs. A group has rows on both nodes.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from crashes import Crash, failing_commits

import tailrace as tr
from tailrace.codec.murmur import hash_bucket
from tailrace.spark.session import session
from tailrace.spark.spark_options import SparkOptions

VIEWS = {
    "totals": "SELECT g, SUM(v) AS total, COUNT(*) AS n FROM t GROUP BY g",
    "items": "SELECT id, v FROM t WHERE v >= 0",
}
IDS = (0, 2)  # on different nodes


def main(store: Path, recording: Path) -> None:
    with tr.open(
        store,
        create=True,
        nodes=2,
        shards=2,
        map_size=1 << 28,
        max_epoch=len(IDS),
        spark=session(options=SparkOptions(master="local[1]")),
    ) as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, g INT, v INT)")
        for name, sql in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        t = db.table("t")
        assert len({hash_bucket([i], [pa.int32()], 2) for i in IDS}) == 2
        t.put_many([{"id": i, "g": 0, "v": 1} for i in IDS])
        db.refresh()
        t.put_many([{"id": i, "g": 0, "v": 10} for i in IDS])
        with suppress(Crash), failing_commits():
            db.refresh()
        with db.record(recording):
            for v in (20, 30):
                t.put_many([{"id": i, "g": 0, "v": v} for i in IDS])
            db.refresh()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
