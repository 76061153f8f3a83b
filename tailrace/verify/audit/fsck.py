"""The structure of a store: what every part of it must be, whatever the views say.

documents   each is JSON that can be read
logs        entries with the right checksums, without gaps, from the committed cut to the last transaction
notes       transactions numbered without gaps, their ends where the logs end
tables      rows that decode, under their own keys, on their own nodes, as many as are counted
shards      marks that fit the committed epoch and the undo records; undo records whole and in order
states      each belongs to a view, or to one that is being built or dropped
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tailrace.catalog.catalog import Catalog
from tailrace.codec.murmur import hash_buckets
from tailrace.codec.schema import TableDef
from tailrace.errors import StoreError, TailraceError
from tailrace.store import documents
from tailrace.store.base import Cut
from tailrace.store.commits import COMMITTED, committed
from tailrace.store.documents import KINDS, kind_of
from tailrace.store.lmdb import inspect, log
from tailrace.store.lmdb.clip import clip
from tailrace.store.lmdb.inspect import UNREADABLE, Base, Held
from tailrace.store.lmdb.store import LmdbStore
from tailrace.verify.audit.findings import EXAMPLES, REPAIR, Finding
from tailrace.verify.audit.state_names import State, on_their_way, states

RUN = 10_000  # rows decoded at a time
_BACKUP = "Nothing else says what it was: restore a backup"


def fsck_documents(store: LmdbStore) -> list[Finding]:
    """Documents that cannot be read. Those that the catalog is made of leave nothing else to be done."""
    with inspect.base(store) as found:
        stored = list(found.documents())
    findings = []
    for name, data in stored:
        kind = kind_of(name)
        try:
            documents.decode(name, data, Any) if kind is None else kind.decode(name, data, store.nodes)
        except UNREADABLE as error:
            mends = kind is not None and kind.expendable
            advice = "`tailrace audit --repair` does without it" if mends else _BACKUP
            findings.append(
                Finding(f"document {name}", "damaged", 1, advice, (_said(error),), (), mends, ("document", name))
            )
    return findings


def fsck_logs(store: LmdbStore, catalog: Catalog) -> list[Finding]:
    """Damage to logs and to what is noted of transactions."""
    tables = {t.id: t for t in catalog.tables.values()}
    views = tuple(sorted(catalog.views))
    findings = []
    with inspect.base(store) as found:
        done = _committed(found, store.nodes)
        notes, ends = _notes(found, done)
        if notes:
            advice = "`tailrace audit --repair` writes one anew from the logs, and computes all views anew at that cut"
            findings.append(
                Finding("notes of transactions", "damaged", len(notes), advice, _few(notes), views, True, ("notes",))
            )
        for node in range(store.nodes):
            faults = list(_faults(found, node, done.offsets[node], None if notes else ends[node], tables))
            if blocking := [f for f in faults if f[0] >= done.offsets[node]]:
                advice = (
                    "No write is lost, its rows are in the tables, but epochs cannot pass;"
                    " `tailrace audit --repair` computes all views anew from the tables and goes on after it"
                )
                findings.append(_log_finding(node, blocking, advice, views, ("log", node)))
            if behind := [f for f in faults if f[0] < done.offsets[node]]:
                advice = "All views are past it; it goes when the readers of older epochs have ended"
                findings.append(_log_finding(node, behind, advice, (), ("log before the cut", node)))
    return findings


def _log_finding(
    node: int, faults: list[tuple[int, str]], advice: str, views: tuple[str, ...], about: tuple[object, ...]
) -> Finding:
    examples = _few([{"offset": offset, "reason": reason} for offset, reason in faults])
    return Finding(f"log of node {node}", "damaged", len(faults), advice, examples, views, True, about)


def _committed(found: Base, nodes: int) -> Cut:
    value = found.document(COMMITTED.name)
    return Cut(0, (0,) * nodes) if value is None else COMMITTED.decode(COMMITTED.name, value, nodes).cut


def _notes(found: Base, done: Cut) -> tuple[list[str], tuple[int, ...]]:
    """What is wrong with the notes, and where the last one says that the logs end."""
    wrong: list[str] = []
    last, ends = done.transaction, done.offsets
    previous: tuple[int, tuple[int, ...]] | None = None
    for number, value in found.notes():
        if len(value) != len(log.encode_note(0.0, 0, done.offsets)):
            wrong.append(f"transaction {number}: {len(value)} bytes")
            previous = None
            continue
        _, operations, at = log.decode_note(value)
        if operations != sum(at) or (previous and any(a < b for a, b in zip(at, previous[1], strict=True))):
            wrong.append(f"transaction {number}: its ends do not fit")
        elif previous and number != previous[0] + 1:
            wrong.append(f"transaction {number} follows {previous[0]}")
        elif number == done.transaction and at != done.offsets:
            wrong.append(f"transaction {number}: its ends are not those of the committed cut")
        previous = number, at
        last, ends = number, at
    if not wrong and last < done.transaction:
        wrong.append(f"transaction {last} is the last, {done.transaction} is committed")
    return wrong, ends


def _faults(
    found: Base, node: int, start: int, end: int | None, tables: dict[int, TableDef]
) -> Iterator[tuple[int, str]]:
    """Offsets of a node's log and what is wrong there; `end` is where it must end, None if that is not known."""
    expected: int | None = None
    first = True
    for offset, value in found.log(node):
        if first and offset > start:
            yield start, f"the entries up to {offset} are missing"
        elif expected is not None and offset != expected:
            yield expected, f"the entries up to {offset} are missing"
        first = False
        try:
            entry = log.decode(node, offset, value)
            if entry.table in tables:
                log.rows_of(entry, tables[entry.table]).validate(full=True)
            expected = offset + entry.operations
        except UNREADABLE as error:
            yield offset, _said(error)
            expected = None
    if first:
        expected = start
    if end is not None and expected is not None and expected != end:
        yield expected, f"the entries up to {end} are missing"


def fsck_tables(store: LmdbStore, catalog: Catalog) -> list[Finding]:
    """Rows of tables that cannot be read, or are not where they belong."""
    findings = []
    for table in catalog.tables.values():
        wrong: list[str] = []
        count = 0
        with inspect.base(store) as found:
            for node in range(store.nodes):
                run: list[tuple[bytes, bytes]] = []
                for entry in found.rows(table, node):
                    run.append(entry)
                    if len(run) == RUN:
                        wrong += _misplaced(table, node, store.nodes, run)
                        count, run = count + len(run), []
                wrong += _misplaced(table, node, store.nodes, run)
                count += len(run)
            noted = int(found.document(f"count:{table.id}") or 0)
        users = tuple(sorted(v.name for v in catalog.views.values() if table.id in v.tables))
        if wrong:
            findings.append(Finding(f"table {table.name}", "damaged", len(wrong), _BACKUP, _few(wrong), users, False))
        if noted != count:
            advice = "`tailrace audit --repair` writes the right number"
            examples = (f"{noted:,} are noted, {count:,} are there",)
            about = ("count", table.id, count - noted)
            findings.append(
                Finding(f"number of rows of {table.name}", "different", 1, advice, examples, (), True, about)
            )
    return findings


def _misplaced(table: TableDef, node: int, nodes: int, run: list[tuple[bytes, bytes]]) -> list[str]:
    if not run:
        return []
    try:
        rows = table.rows.decode([value for _, value in run])
        rows.validate(full=True)
        columns = table.key_columns(rows)
        keys = clip(table.keys.encode(columns, len(run))).to_pylist()
        nodes_ = hash_buckets(columns, nodes, len(run))
    except UNREADABLE as error:
        if len(run) == 1:
            return [f"the row under key 0x{run[0][0].hex()}: {_said(error)}"]
        half = len(run) // 2
        return _misplaced(table, node, nodes, run[:half]) + _misplaced(table, node, nodes, run[half:])
    wrong = [i for i, (key, _) in enumerate(run) if key != keys[i]]
    strayed = np.flatnonzero(nodes_ != node).tolist()
    return [f"the row under key 0x{run[i][0].hex()} has another key, or belongs elsewhere" for i in {*wrong, *strayed}]


def fsck_shards(store: LmdbStore, catalog: Catalog) -> list[Finding]:
    """Marks and undo records that contradict the committed epoch or one another, and states of nothing."""
    before = {**states(catalog)}
    known = set(before) | on_their_way(catalog)
    findings: list[Finding] = []
    orphans: dict[int, list[int]] = {}
    for shard in range(store.shards):
        try:
            found = inspect.held(store, shard)
        except StoreError as error:
            findings.append(_lost_shard(shard, error, catalog))
            continue
        open_epoch = _open_epoch(store)  # read before the commit that removes it
        done = committed(store).epoch
        for held in found:
            findings += _contradictions(shard, held, done, max(open_epoch, done), before.get(held.state))
            orphans.setdefault(held.state, []).append(shard)
    now = known | set(states(catalog)) | on_their_way(catalog)  # a view may have been created meanwhile
    for state, shards in orphans.items():
        if state not in now:
            advice = "`tailrace audit --repair` removes it"
            examples = tuple(f"in shard {s}" for s in shards[:EXAMPLES])
            findings.append(
                Finding(f"state {state}", "orphan", len(shards), advice, examples, (), True, ("orphan", state))
            )
    return findings


def _lost_shard(shard: int, error: StoreError, catalog: Catalog) -> Finding:
    advice = (
        f"Close the store everywhere, remove its directory shards/{shard:03d}, and run `tailrace audit --repair`:"
        " all that is in shards can be computed anew"
    )
    return Finding(f"shard {shard}", "damaged", 1, advice, (str(error),), tuple(sorted(catalog.views)), False)


def _open_epoch(store: LmdbStore) -> int:
    """The number of the epoch that has begun, 0 if none has."""
    intent = store.document(KINDS["intent"])
    return 0 if intent is None else int(intent.epoch)


def _contradictions(shard: int, held: Held, committed: int, newest: int, known: State | None) -> Iterator[Finding]:
    name = known.name if known is not None else f"state {held.state}"
    views = known.views if known is not None else ()
    if held.damaged:
        last = max(held.damaged)
        reading = "an epoch that is not committed yet cannot be tried again" if last > committed else "views are right"
        advice = f"Readers of older epochs fail, {reading}; {REPAIR}"
        examples = _few([{"epoch": epoch, "reason": reason} for epoch, reason in held.damaged.items()])
        where = f"undo records in shard {shard}: {name}"
        yield Finding(where, "damaged", len(held.damaged), advice, examples, views, True, ("undo", shard, held.state))
    if reason := _mark_fault(held, committed, newest):
        where = f"mark in shard {shard}: {name}"
        yield Finding(where, "damaged", 1, REPAIR, (reason,), views, True, ("mark", shard, held.state))


def _mark_fault(held: Held, committed: int, newest: int) -> str | None:
    mark = held.mark
    if mark is None:
        return "it cannot be read" if held.marked else "there is none"
    if held.undos and held.undos[-1] != mark.applied:
        return f"it says epoch {mark.applied} was the last, undo records say {held.undos[-1]}"
    if mark.applied > newest:
        return f"it says epoch {mark.applied} was the last, but epoch {newest} is"
    if mark.oldest > min(mark.applied, committed):
        return f"it says epoch {mark.oldest} is the oldest that can be read, but {min(mark.applied, committed)} is"
    return None


def _few(examples: list[object] | list[str] | list[dict[str, object]]) -> tuple[object, ...]:
    return tuple(examples[:EXAMPLES])


def _said(error: Exception) -> str:
    reason = getattr(error, "data", {}).get("reason") if isinstance(error, TailraceError) else None
    return str(reason or error).partition("\n")[0] or type(error).__name__
