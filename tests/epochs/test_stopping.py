"""`run` begins no further epoch after it was asked to stop."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest

import tailrace as tr
from tailrace.database.inside import inside

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP)"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT id FROM t"


class OnEpoch(logging.Handler):
    """Stops a database at its first epoch."""

    def __init__(self, db: tr.Database) -> None:
        super().__init__()
        self._db = db

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "event", "") == "epoch":
            self._db.stop()


def test_a_backlog_of_several_epochs_ends_after_the_current_one(tmp_path: Path, spark: Any) -> None:
    with tr.open(tmp_path / "s", create=True, spark=spark, durable=False, max_epoch=1) as db:
        db.sql(f"{TABLE}; {VIEW}")
        before = db.status().epoch
        for i in range(5):
            db.table("t").put({"id": i})
        logger, handler = logging.getLogger("tailrace"), OnEpoch(db)
        level = logger.level
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
        try:
            db.run()
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
        assert (db.status().epoch, db.status().lag_operations) == (before + 1, 4)


def test_no_epoch_follows_a_signal_that_comes_while_rows_expire(tmp_path: Path, spark: Any) -> None:
    with tr.open(tmp_path / "s", create=True, spark=spark, durable=False) as db:
        db.sql(f"{TABLE} WITH (ttl = '1 hour', ttl_column = 'at'); {VIEW}")
        before = db.status().epoch
        db.table("t").put({"id": 1})

        def clock() -> int:
            db.stop()
            return int(time.time() * 1_000_000)

        inside(db).epochs.clock = clock
        db.run()
        assert (db.status().epoch, db.status().lag_operations) == (before, 1)


def test_no_chunk_of_a_build_follows_the_last_epoch(tmp_path: Path, spark: Any) -> None:
    with tr.open(tmp_path / "s", create=True, spark=spark, durable=False) as db:
        db.sql(TABLE)
        db.table("t").put_many([{"id": i} for i in range(20)])
        inside(db).builder.chunk = 5

        def interrupt(step: object) -> None:
            if getattr(step, "rows", None):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            db.sql(VIEW, progress=interrupt)
        db.table("t").put({"id": 99})
        (before,) = db.status().building
        db.run(progress=lambda epoch: db.stop())
        (after,) = db.status().building
        assert after["rows"] == before["rows"]
        assert db.status().lag_operations == 0
