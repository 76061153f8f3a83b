"""Window functions equal recomputation after every epoch; ties that SQL leaves open follow the plan's order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oracle import compare_all_along, verify_all_along, wide_store

import tailrace as tr

FAMILIES: dict[str, list[str]] = {
    "ranking": [
        "SELECT id, g, row_number() OVER (PARTITION BY g ORDER BY n, id) AS rn FROM a",
        "SELECT id, rank() OVER w AS r, dense_rank() OVER w AS dr, percent_rank() OVER w AS pr,"
        " cume_dist() OVER w AS cd, row_number() OVER (ORDER BY d DESC NULLS FIRST, id) AS rn"
        " FROM a WINDOW w AS (PARTITION BY g ORDER BY n DESC)",
        "SELECT id, ntile(3) OVER (PARTITION BY h ORDER BY p NULLS LAST, id DESC) AS bucket FROM a",
        "SELECT g, sum(p) AS s, rank() OVER (ORDER BY sum(p) DESC) AS r, sum(sum(n)) OVER (ORDER BY g) AS t"
        " FROM a GROUP BY g",
        "SELECT id, h FROM a"
        " QUALIFY rank() OVER (PARTITION BY h ORDER BY n) <= 2 AND count(*) OVER (PARTITION BY g) > 1",
        "SELECT r, count(*) AS k FROM (SELECT rank() OVER (PARTITION BY b ORDER BY d) AS r FROM a) GROUP BY r",
        "SELECT x, id, rank() OVER (PARTITION BY x ORDER BY n) AS r FROM a WHERE x >= 0",
        "SELECT a.id, c.id AS cid, c.tag, rank() OVER (PARTITION BY a.g ORDER BY c.p) AS r FROM a JOIN c ON a.g = c.g",
    ],
    "frames": [
        "SELECT id, sum(p) OVER (PARTITION BY g) AS s, avg(n) OVER (PARTITION BY g ORDER BY d) AS m FROM a",
        "SELECT id, sum(n) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS near,"
        " sum(n) OVER (PARTITION BY g ORDER BY id) AS running, count(*) OVER () AS everything FROM a",
        "SELECT id, sum(p) OVER (PARTITION BY h ORDER BY n RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM a",
        "SELECT id, max(p) OVER (PARTITION BY g ORDER BY d RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW) m,"
        " min(h) OVER (PARTITION BY coalesce(b, false), g % 2 ORDER BY n + 1 DESC, d) AS lo FROM a",
        "SELECT g, d, count(*) OVER (PARTITION BY g) AS k, sum(p) OVER (PARTITION BY g ORDER BY d) AS s"
        " FROM (SELECT g, p, d FROM a UNION ALL SELECT g, p, d FROM c)",
        "SELECT id, p / sum(p) OVER (PARTITION BY g) AS part, stddev(x) OVER (PARTITION BY g) AS sd FROM a WHERE p > 0",
        "SELECT id, tag, sort_array(collect_list(h) OVER (PARTITION BY g)) AS hs, split(h, '') AS letters FROM c",
    ],
    "values": [
        "SELECT id, lead(h) OVER w AS l, lag(n, 2, -7) OVER w AS b, lag(h, 1) IGNORE NULLS OVER w AS s,"
        " first_value(p) OVER w AS f, last_value(p) OVER w AS e, nth_value(p, 2) OVER w AS snd FROM a"
        " WINDOW w AS (PARTITION BY g ORDER BY d, id)",
        "SELECT id, first_value(p) IGNORE NULLS OVER (PARTITION BY g ORDER BY id DESC) AS f,"
        " last_value(h, true) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS e FROM a",
        "SELECT id, collect_list(n) OVER (PARTITION BY g ORDER BY id ROWS 1 PRECEDING) AS ns FROM a",
        "SELECT g, d, s, s - lag(s) OVER (PARTITION BY g ORDER BY d) AS more"
        " FROM (SELECT g, d, sum(p) AS s FROM a GROUP BY g, d)",
    ],
    "aggregates": [
        "SELECT id, sum(p) FILTER (WHERE b) OVER (PARTITION BY g) AS s, max_by(h, id) FILTER (WHERE b) OVER w AS m,"
        " count(*) FILTER (WHERE n > 0) OVER (PARTITION BY g ORDER BY id) AS k FROM a WINDOW w AS (PARTITION BY g)",
        "SELECT id, listagg(h, ',') WITHIN GROUP (ORDER BY id) OVER (PARTITION BY g) AS hs,"
        " mode() WITHIN GROUP (ORDER BY n) OVER (PARTITION BY g) AS m, mode(n, true) OVER (PARTITION BY h) AS k FROM a",
        "SELECT g, h, grouping(g) AS gg, rank() OVER (PARTITION BY grouping_id() ORDER BY sum(p) DESC) AS r"
        " FROM a GROUP BY ROLLUP (g, h)",
        "SELECT g, sum(sum(p)) FILTER (WHERE g > 0) OVER (ORDER BY g) AS s FROM a GROUP BY g",
        "SELECT id, sort_array(collect_union(array(id, n)) OVER (PARTITION BY g)) AS u FROM a",
    ],
}

TIES = [
    "SELECT id, row_number() OVER w AS rn, lead(id) OVER w AS l FROM a WINDOW w AS (PARTITION BY g ORDER BY b)",
    "SELECT id, first_value(id) OVER (PARTITION BY g ORDER BY b) AS f, last_value(id) OVER (ORDER BY b) AS l,"
    " first_value(h) IGNORE NULLS OVER (PARTITION BY b ORDER BY g) AS fh FROM a",
    "SELECT h, d, row_number() OVER (PARTITION BY g ORDER BY b) AS rn"
    " FROM (SELECT g, h, d, b FROM a UNION ALL SELECT g, h, d, b FROM c)",
    "SELECT id, sum(n) OVER (ORDER BY b ROWS 2 PRECEDING) AS s, any_value(h) OVER (PARTITION BY g) AS h FROM a",
    "SELECT g, max_by(id, b) AS m, min_by(h, d) AS lo, max_by(h, 1) AS c, min_by(h, b, 2) AS two FROM a GROUP BY g",
    "SELECT g, listagg(h, ',') WITHIN GROUP (ORDER BY b DESC) AS hs, string_agg(h) WITHIN GROUP (ORDER BY d, b) AS ds"
    " FROM (SELECT g, h, d, b FROM a UNION ALL SELECT g, h, d, b FROM c) GROUP BY g",
    "SELECT id, max_by(id, b) OVER (PARTITION BY g) AS m, min_by(h, d) OVER (PARTITION BY g ORDER BY b) AS lo,"
    " listagg(h) WITHIN GROUP (ORDER BY b) OVER (PARTITION BY g) AS hs FROM a",
    "SELECT id, (SELECT c.n FROM c WHERE c.g = a.g ORDER BY c.b LIMIT 1) AS n FROM a",
]


@pytest.fixture
def db(tmp_path: Path, spark: Any) -> Iterator[tr.Database]:
    with wide_store(tmp_path / "store", spark, "ac") as database:
        yield database


@pytest.mark.parametrize("spread", [False, True], ids=["one-task", "all-shards"])
@pytest.mark.parametrize("family", list(FAMILIES))
def test_oracle_equals_recompute(db: tr.Database, family: str, spread: bool) -> None:
    compare_all_along(db, FAMILIES[family], random.Random(f"{family}{spread}"), "aac", spread=spread)


def test_ties_that_sql_leaves_open_are_broken_the_same_way_in_every_epoch(db: tr.Database) -> None:
    verify_all_along(db, TIES, random.Random("ties"), "aac")
