"""Measures the files of an embedded store (`Store.sizes`).

LMDB counts the pages of each of its databases, so these figures cost nothing. The pages of a database that several
tables or states share are divided by estimates: number of entries times the average size of a few of them. Rows and
entries are counted when they are written. Only a state whose number is unknown (see `Mark`) is counted here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Any

from tailrace.codec.keys import prefix_range
from tailrace.store.lmdb.environment import Environment
from tailrace.store.lmdb.shard import decode_mark, state_prefix, states_in
from tailrace.store.lmdb.store import COUNTS, LmdbStore
from tailrace.store.sizes import Sizes

SAMPLE = 64  # entries whose size is looked at
NODE = 10  # bytes that LMDB adds to an entry


def measure(store: LmdbStore) -> Sizes:
    """The sizes of a store, each environment in one read transaction."""
    tables: Counter[int] = Counter()
    states: Counter[int] = Counter()
    log = undo = other = free = 0
    base = store.environment
    with base.read() as txn:
        used = _used(base, txn)
        counts = {table: _count_rows(txn, store, table) for table in states_in(txn, base.databases["rows"])}
        tables.update(_divide(txn, base.databases["rows"], used["rows"], counts))
        total = _total(base)
    log, free = used["log"], total - sum(used.values())
    other = used["transactions"] + used["documents"] + used[""]
    for index in range(store.shards):
        environment = store.shard(index).environment
        with environment.read() as txn:
            used = _used(environment, txn)
            data = environment.databases["data"]
            counts = {state: _count_entries(txn, environment, state) for state in states_in(txn, data)}
            states.update(_divide(txn, data, used["data"], counts))
            total = _total(environment)
        undo += used["undo"]
        free += total - sum(used.values())
        other += sum(pages for name, pages in used.items() if name not in ("data", "undo"))
    return Sizes(dict(tables), dict(states), log, undo, other, free)


def _total(environment: Environment) -> int:
    """The bytes of all pages that an environment's file has."""
    return int(environment.handle.info()["last_pgno"] + 1) * int(environment.handle.stat()["psize"])


def _used(environment: Environment, txn: Any) -> dict[str, int]:
    """The bytes of the pages of each database, by name; "" are those that LMDB needs itself."""
    stats = {name: txn.stat(db) for name, db in environment.databases.items()}
    stats[""] = environment.handle.stat()
    used = {n: (s["branch_pages"] + s["leaf_pages"] + s["overflow_pages"]) * s["psize"] for n, s in stats.items()}
    used[""] += 2 * stats[""]["psize"]  # the two meta pages
    return used


def _divide(txn: Any, db: Any, used: int, counts: Mapping[int, int]) -> dict[int, int]:
    """Divides the bytes of a database between the tables or states in it, given their numbers of entries."""
    weights = {number: count * _sample_size(txn, db, number, count) for number, count in counts.items()}
    whole, rest = sum(weights.values()), used
    shares = {}
    for number, weight in weights.items():
        shares[number] = round(rest * weight / whole) if whole else 0
        rest, whole = rest - shares[number], whole - weight
    return shares


def _sample_size(txn: Any, db: Any, number: int, count: int) -> float:
    """The average size of the first entries of a table or state."""
    with txn.cursor(db) as cursor:
        cursor.set_range(state_prefix(number))
        sizes = [len(key) + len(value) + NODE for key, value in islice(cursor.iternext(), max(1, min(SAMPLE, count)))]
    return sum(sizes) / len(sizes)


def _count_rows(txn: Any, store: LmdbStore, table: int) -> int:
    name = COUNTS.at(table)
    value = txn.get(name.encode(), db=store.environment.databases["documents"])
    return COUNTS.decode(name, value, store.nodes) if value else 1


def _count_entries(txn: Any, environment: Environment, state: int) -> int:
    mark = decode_mark(txn.get(state_prefix(state), db=environment.databases["marks"]))
    if mark is not None and mark.entries is not None:
        return mark.entries
    low, high = prefix_range(state_prefix(state))
    with txn.cursor(environment.databases["data"]) as cursor:
        if not cursor.set_range(low):
            return 0
        count = 0
        for key in cursor.iternext(values=False):
            if high is not None and key >= high:
                break
            count += 1
    return count
