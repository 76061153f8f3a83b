"""Epochs on HBase beyond plain deltas: views that are recomputed, built in chunks, replaced, altered, or that fail.

The steps and the expectations are those of the tests on the embedded store.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import test_alter_views as altering
import test_builds as builds
import test_expiry as expiry
import test_failing_views as failing
import test_refresh_policy as policies
import test_replace as replacing
from oracle import wide_tables
from pyspark.sql import SparkSession

import tailrace as tr
from tailrace.catalog.failed import read_failed
from tailrace.database.inside import inside
from tailrace.errors import ViewFailed
from tailrace_hbase.local_cluster import LocalCluster
from tailrace_hbase.scratch import scratch_database

pytestmark = pytest.mark.hbase


@pytest.fixture
def db(cluster: LocalCluster, spark: SparkSession) -> Iterator[tr.Database]:
    with scratch_database(cluster, spark) as database:
        yield database


def test_views_that_are_recomputed_or_updated_by_deltas(db: tr.Database) -> None:
    wide_tables(db, "ac")
    policies.test_auto_views_equal_recomputation_whether_recomputed_or_updated_by_deltas(db, spread=False)


def test_a_build_in_chunks_while_tables_change(db: tr.Database) -> None:
    wide_tables(db, "ac")
    builds.test_a_view_built_in_chunks_is_exact_though_tables_change(db, "larger")


def test_views_that_are_replaced(db: tr.Database) -> None:
    replacing.set_up(db)
    replacing.test_readers_always_see_either_the_old_or_the_new_view(db)
    db.sql(replacing.replace(replacing.OLD))
    replacing.test_replacing_a_view(db, chunk=30, policy="incremental")


def test_tables_that_are_altered(db: tr.Database) -> None:
    altering.set_up(db)
    rng = random.Random(2)
    altering.create(db, *altering.VIEWS)
    before = altering.facts(db)
    altering.write(db, rng)
    db.sql("ALTER TABLE t ADD COLUMNS (extra INT, k INT)")
    altering.write(db, rng)
    db.refresh()  # over a range of the log with entries of both layouts
    altering.verify(db)
    db.sql("ALTER TABLE t RENAME COLUMN n TO `new n`; ALTER TABLE t RENAME COLUMN id TO key")
    altering.write(db, rng, n="new n", id="key")
    db.sql("ALTER TABLE t RENAME TO u; ALTER VIEW stars RENAME TO starry; ALTER TABLE u DROP COLUMN extra")
    altering.write(db, rng, "u", n="new n", id="key")
    db.refresh()
    altering.verify(db)
    assert altering.facts(db) == before


def test_rows_that_expire(db: tr.Database) -> None:
    clock = expiry.Clock()
    inside(db).epochs.clock = clock
    db.sql(expiry.DDL.format("TIMESTAMP"))
    expiry.follow_expiry(db, clock)


def test_views_that_fail_alone_and_recover(db: tr.Database) -> None:
    failing.set_up(db)
    failing.test_the_error_names_operator_expression_and_row(db)
    good = db.table("a").put({"id": 51, "g": 0, "v": 8})
    db.refresh()
    assert read_failed(inside(db).store).keys() == failing.FAILING
    assert db.view("good").get(0, at_least=good)["s"] == 0 + 3 + 6 + 9 + 8
    with pytest.raises(ViewFailed, match="poison"):
        db.resume("over")
    db.table("a").delete(5)
    assert set(db.refresh().recovered) == failing.FAILING
    failing.assert_verified(db)
