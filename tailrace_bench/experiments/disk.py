"""Disk space of a store with ten views, by what takes it: after loading in epochs, and after random changes."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
from pyarrow import csv

import tailrace as tr
from tailrace.database.inside import inside
from tailrace_bench import workloads
from tailrace_bench.harness import create_view, make_line, short_count, verify_views
from tailrace_bench.results import Line, Result, Target, Whose
from tailrace_bench.size import Size

TABLES = {
    "customers": "id BIGINT PRIMARY KEY, name STRING, region STRING",
    "orders": "id BIGINT PRIMARY KEY, customer BIGINT, product BIGINT, day DATE, amount BIGINT, status STRING",
}
VIEWS = {
    "large_orders": "SELECT id, customer, amount, day FROM orders WHERE amount >= 5000",
    "by_customer": "SELECT customer, COUNT(*) AS orders, SUM(amount) AS total FROM orders GROUP BY customer",
    "by_day": "SELECT day, status, COUNT(*) AS orders, SUM(amount) AS total, AVG(amount) AS mean "
    "FROM orders GROUP BY day, status",
    "with_names": "SELECT o.id, c.name, c.region, o.amount, o.status "
    "FROM orders o JOIN customers c ON o.customer = c.id",
    "extremes": "SELECT product, MIN(amount) AS least, MAX(amount) AS most FROM orders GROUP BY product",
    "reach": "SELECT product, COUNT(DISTINCT customer) AS customers FROM orders GROUP BY product",
    "top": "SELECT id, customer, amount FROM orders ORDER BY amount DESC, id LIMIT 100",
    "latest": "SELECT customer, id, day, amount FROM (SELECT customer, id, day, amount, "
    "row_number() OVER (PARTITION BY customer ORDER BY day DESC, id DESC) AS n FROM orders) WHERE n <= 3",
    "running": "SELECT id, customer, amount, SUM(amount) OVER (PARTITION BY customer ORDER BY id) AS so_far "
    "FROM orders",
    "by_region": "SELECT c.region, SUM(b.total) AS total, COUNT(*) AS customers "
    "FROM by_customer b JOIN customers c ON b.customer = c.id GROUP BY c.region",
}
STATUS = np.array(["new", "paid", "sent", "done"])
REGIONS = np.array(["north", "south", "east", "west", "centre"])
PRODUCTS = 500
TOTAL = "all files"
ORDERS_PER_CUSTOMER = 50
EPOCHS = 10  # of loading, and of changes; each of the latter changes 2% of the orders and deletes a tenth of those


def disk(size: Size) -> Result:
    rng, rows = np.random.default_rng(1), size.disk_rows
    customers = _make_customers(rng, rows // ORDERS_PER_CUSTOMER)
    with workloads.temporary_store(()) as db:
        for name, columns in TABLES.items():
            db.sql(f"CREATE TABLE {name} ({columns})")
        for name, sql in VIEWS.items():
            create_view(db, name, sql)
        db.table("customers").put_many(customers)
        loaded_bytes = _csv_size(customers)
        for ids in np.array_split(np.arange(rows), EPOCHS):
            orders = _make_orders(rng, ids, len(customers))
            loaded_bytes += _csv_size(orders)
            db.table("orders").put_many(orders)
            db.refresh()
        loaded = _measure(db, "loaded")
        for _ in range(EPOCHS):
            ids = rng.choice(rows, rows // 50, replace=False)
            db.table("orders").delete_many(ids[: len(ids) // 10].tolist())
            db.table("orders").put_many(_make_orders(rng, ids[len(ids) // 10 :], len(customers)))
            db.refresh()
        changed = _measure(db, "after changes")
        verify_views(db)
    return Result(
        name="disk",
        title="Disk space of a store with ten views",
        question=f"What takes how much disk space, after {short_count(rows)} orders were loaded in {EPOCHS} epochs, "
        f"and after {EPOCHS} more epochs that change 2% of them each?",
        x="what",
        y="bytes",
        lines=(loaded, changed),
        targets=(
            Target(
                "bytes on disk for a byte of CSV, after changes", 18, _total(changed) / loaded_bytes, at_least=False
            ),
        ),
        notes=(f"The input has {loaded_bytes:,} bytes as CSV.",),
    )


def _measure(db: tr.Database, name: str) -> Line:
    sizes, views = inside(db).store.sizes(list(inside(db).catalog.tables.values())), inside(db).catalog.views
    in_views = {view.state for view in views.values()}
    parts = {
        "tables": sum(extent.bytes for extent in sizes.tables.values()),
        "rows of views": sum(extent.bytes for state, extent in sizes.states.items() if state in in_views),
        "states of operators": sum(extent.bytes for state, extent in sizes.states.items() if state not in in_views),
        "undo records": sizes.undo,
        "log": sizes.log,
        "free pages": sizes.free,
        TOTAL: sizes.files,
    }
    return make_line(name, Whose.TAILRACE, [(part, [float(size)]) for part, size in parts.items()])


def _total(line: Line) -> float:
    return next(point.y.median for point in line.points if point.x == TOTAL)


def _make_customers(rng: np.random.Generator, count: int) -> pa.Table:
    names = [f"customer {i}" for i in range(count)]
    return pa.table({"id": np.arange(count), "name": names, "region": rng.choice(REGIONS, count)})


def _make_orders(rng: np.random.Generator, ids: np.ndarray, customers: int) -> pa.Table:
    count = len(ids)
    return pa.table(
        {
            "id": ids.astype(np.int64),
            "customer": rng.integers(0, customers, count),
            "product": rng.integers(0, PRODUCTS, count),
            "day": np.datetime64("2026-01-01") + rng.integers(0, 365, count),
            "amount": rng.integers(1, 10_000, count),
            "status": rng.choice(STATUS, count),
        }
    )


def _csv_size(table: pa.Table) -> int:
    content = io.BytesIO()
    csv.write_csv(table, content)
    return content.tell()
