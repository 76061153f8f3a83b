"""How large the tables and states of an embedded store are.

LMDB knows the entries and pages of a whole database, but not of a range of keys. Marks count the entries of a state.
If the number is unknown (see `Mark`), small ranges are counted here. A large state is counted in one shard only: its
keys are distributed by hash, so the other shards hold about as many. Bytes are a share of the database's pages, in
proportion to entries times their mean length.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from tailrace.codec.keys import prefix_range
from tailrace.codec.schema import TableDef
from tailrace.store.inspection import Extent, Sizes
from tailrace.store.lmdb.environment import Environment
from tailrace.store.lmdb.form import PLAIN, Form
from tailrace.store.lmdb.shard import decode_mark, state_prefix

if TYPE_CHECKING:
    from tailrace.store.lmdb.store import LmdbStore

COUNTED = 1_000  # entries of a state that are counted in every shard
_CHUNK = 10_000  # keys read at a time
_SAMPLE = 100  # entries whose lengths are measured
_HEADER = 8  # bytes that LMDB adds to an entry


def measure(store: LmdbStore, tables: Sequence[TableDef]) -> Sizes:
    base = store.environment
    with base.read() as txn:
        rows, log = base.databases["rows"], base.databases["log"]
        entries = {table.id: store.count(table) for table in tables}
        weights = {table.id: entries[table.id] * _mean_length(txn, rows, table.id.to_bytes(4)) for table in tables}
        shares = _share(weights, _page_bytes(txn, rows))
        log_bytes = _page_bytes(txn, log)
    found_tables = {t: Extent(entries[t], shares[t], True) for t in entries}
    states, undo_bytes = _measure_states(store)
    environments = [base, *(store.shard(i).environment for i in range(store.shards))]
    used, free = [_used(e.handle) for e in environments], sum(_free(e) for e in environments)
    return Sizes(found_tables, states, log_bytes, undo_bytes, free, sum(used), max(used), store.settings.map_size)


def _measure_states(store: LmdbStore) -> tuple[dict[int, Extent], int]:
    """The extents of all states, and the bytes of undo records."""
    counts: dict[int, int] = {}
    sizes: dict[int, int] = {}
    large: dict[int, int] = {}  # entries in the one shard where a large state was counted
    undo_bytes = 0
    form = store.settings.form
    for index in range(store.shards):
        environment = store.shard(index).environment
        data, undo, marks = (environment.databases[n] for n in ("data", "undo", "marks"))
        with environment.read() as txn:
            undo_bytes += _page_bytes(txn, undo)
            found: dict[int, int] = {}
            for state in states_in(txn, data, form):
                mark = decode_mark(txn.get(state_prefix(state), db=marks))
                if mark is not None and mark.entries is not None:
                    found[state] = mark.entries
                    continue
                entries = _count(txn, data, form.prefix(state), COUNTED)
                if entries == COUNTED:
                    if state not in large:
                        large[state] = _count(txn, data, form.prefix(state), None)
                    entries = large[state]
                found[state] = entries
            weights = {s: n * _mean_length(txn, data, form.prefix(s)) for s, n in found.items()}
            for state, size in _share(weights, _page_bytes(txn, data)).items():
                counts[state] = counts.get(state, 0) + found[state]
                sizes[state] = sizes.get(state, 0) + size
    return {s: Extent(counts[s], sizes[s], s not in large or store.shards == 1) for s in counts}, undo_bytes


def states_in(txn: Any, db: Any, form: Form = PLAIN) -> list[int]:
    """The numbers of the states that have keys in a database. Seeks from each state to the next."""
    states: list[int] = []
    with txn.cursor(db) as cursor:
        more = cursor.first()
        while more:
            state = form.state_of(bytes(cursor.key()))
            if states and state <= states[-1]:  # a damaged key
                more = cursor.next()
                continue
            states.append(state)
            more = state < 2**32 - 1 and cursor.set_range(form.prefix(state + 1))
    return states


def _count(txn: Any, db: Any, prefix: bytes, most: int | None) -> int:
    """The number of keys with a prefix, at most `most`."""
    total, high = 0, prefix_range(prefix)[1]
    with txn.cursor(db) as cursor:
        if not cursor.set_range(prefix):
            return 0
        keys = cursor.iternext(keys=True, values=False)
        while chunk := list(islice(keys, _CHUNK if most is None else most - total)):
            if high is not None and chunk[-1] >= high:
                return total + sum(1 for key in chunk if key < high)
            total += len(chunk)
    return total


def _mean_length(txn: Any, db: Any, prefix: bytes) -> float:
    """The mean length of the first entries with a prefix."""
    with txn.cursor(db) as cursor:
        if not cursor.set_range(prefix):
            return 0.0
        lengths = [len(k) + len(v) + _HEADER for k, v in islice(cursor.iternext(), _SAMPLE) if k.startswith(prefix)]
    return sum(lengths) / len(lengths) if lengths else 0.0


def _share(weights: dict[int, float], total: int) -> dict[int, int]:
    """Divides a number of bytes in proportion to weights."""
    whole = sum(weights.values())
    return {key: int(total * weight / whole) if whole else 0 for key, weight in weights.items()}


def _page_bytes(txn: Any, db: Any) -> int:
    stat = txn.stat(db)
    return int((stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]) * stat["psize"])


def _used(env: Any) -> int:
    """Bytes of an LMDB file up to its last page in use."""
    return int((env.info()["last_pgno"] + 1) * env.stat()["psize"])


def _free(environment: Environment) -> int:
    """Bytes of an LMDB file that no database uses, except its two meta pages. LMDB's list of them counts as free."""
    with environment.read() as txn:
        named = sum(_page_bytes(txn, db) for db in environment.databases.values())
    stat = environment.handle.stat()
    meta = 2 + stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
    return int(_used(environment.handle) - named - meta * stat["psize"])
