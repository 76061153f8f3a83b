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

from tailrace.catalog.catalog import Catalog
from tailrace.errors import StoreError, TailraceError
from tailrace.store import documents
from tailrace.store.base import Cut, Store
from tailrace.store.commits import COMMITTED, read_committed
from tailrace.store.documents import KINDS, kind_of
from tailrace.store.inspection import UNREADABLE, StateRecord
from tailrace.verify.audit.findings import EXAMPLES, REPAIR, Finding
from tailrace.verify.audit.state_names import State, describe_states, unpublished_states

_BACKUP = "Nothing else says what it was: restore a backup"


def fsck_documents(store: Store) -> list[Finding]:
    """Documents that cannot be read. Without those of the catalog, nothing else can be checked."""
    with store.inspect() as inspection:
        stored = inspection.documents()
    findings = []
    for name, data in stored:
        kind = kind_of(name)
        try:
            documents.decode(name, data, Any) if kind is None else kind.decode(name, data, store.nodes)
        except UNREADABLE as error:
            mends = kind is not None and kind.expendable
            advice = "`tailrace audit --repair` removes it; it is rebuilt or not needed" if mends else _BACKUP
            findings.append(
                Finding(f"document {name}", "damaged", 1, advice, (_said(error),), (), mends, ("document", name))
            )
    return findings


def fsck_logs(store: Store, catalog: Catalog) -> list[Finding]:
    """Damage to logs and to the list of transactions."""
    tables = {t.id: t for t in catalog.tables.values()}
    views = tuple(sorted(catalog.views))
    findings = []
    with store.inspect() as inspection:
        data = dict(inspection.documents()).get(COMMITTED.name)
        done = Cut(0, (0,) * store.nodes)
        if data is not None:
            done = COMMITTED.decode(COMMITTED.name, data, store.nodes).cut
        faults, ends = inspection.transaction_faults(done)
        if faults:
            advice = "`tailrace audit --repair` rebuilds the list from the logs, and recomputes all views at that cut"
            findings.append(
                Finding("list of transactions", "damaged", len(faults), advice, _few(faults), views, True, ("notes",))
            )
        for node, start in enumerate(done.offsets):
            in_log = list(inspection.log_faults(node, start, None if ends is None else ends[node], tables))
            if blocking := [f for f in in_log if f[0] >= start]:
                advice = (
                    "No write is lost: the rows are in the tables. But epochs cannot pass;"
                    " `tailrace audit --repair` recomputes all views from the tables and continues after the damage"
                )
                findings.append(_log_finding(node, blocking, advice, views, ("log", node)))
            if behind := [f for f in in_log if f[0] < start]:
                advice = "All views are past it; it is trimmed when the readers of older epochs have ended"
                findings.append(_log_finding(node, behind, advice, (), ("log before the cut", node)))
    return findings


def _log_finding(
    node: int, faults: list[tuple[int, str]], advice: str, views: tuple[str, ...], about: tuple[object, ...]
) -> Finding:
    examples = _few([{"offset": offset, "reason": reason} for offset, reason in faults])
    return Finding(f"log of node {node}", "damaged", len(faults), advice, examples, views, True, about)


def fsck_tables(store: Store, catalog: Catalog) -> list[Finding]:
    """Rows of tables that cannot be read, or are in a wrong place."""
    findings = []
    for table in catalog.tables.values():
        with store.inspect() as inspection:
            faults, rows, counted = inspection.audit_rows(table)
        users = tuple(sorted(v.name for v in catalog.views.values() if table.id in v.tables))
        if faults:
            findings.append(Finding(f"table {table.name}", "damaged", len(faults), _BACKUP, _few(faults), users, False))
        if counted != rows:
            advice = "`tailrace audit --repair` writes the right number"
            examples = (f"the store has counted {counted:,} rows, there are {rows:,}",)
            about = ("count", table.id, rows - counted)
            findings.append(
                Finding(f"number of rows of {table.name}", "different", 1, advice, examples, (), True, about)
            )
    return findings


def fsck_shards(store: Store, catalog: Catalog) -> list[Finding]:
    """Marks and undo records that contradict the committed epoch or one another, and states of nothing."""
    before = {**describe_states(catalog)}
    known = set(before) | unpublished_states(catalog)
    findings: list[Finding] = []
    orphans: dict[int, list[int]] = {}
    for shard in range(store.shards):
        try:
            with store.inspect() as inspection:
                records = inspection.states(shard)
        except StoreError as error:
            findings.append(_lost_shard(store, shard, error, catalog))
            continue
        open_epoch = _open_epoch(store)  # read before the commit that removes it
        done = read_committed(store).epoch
        for held in records:
            findings += _contradictions(shard, held, done, max(open_epoch, done), before.get(held.state))
            orphans.setdefault(held.state, []).append(shard)
    now = known | set(describe_states(catalog)) | unpublished_states(catalog)  # a view may have been created meanwhile
    for state, shards in orphans.items():
        if state not in now:
            advice = "`tailrace audit --repair` removes it"
            examples = tuple(f"in shard {s}" for s in shards[:EXAMPLES])
            findings.append(
                Finding(f"state {state}", "orphan", len(shards), advice, examples, (), True, ("orphan", state))
            )
    return findings


def _lost_shard(store: Store, shard: int, error: StoreError, catalog: Catalog) -> Finding:
    with store.inspect() as inspection:
        remove = inspection.lost_shard_advice(shard)
    advice = f"{remove}, and run `tailrace audit --repair`: everything in shards can be recomputed"
    return Finding(f"shard {shard}", "damaged", 1, advice, (str(error),), tuple(sorted(catalog.views)), False)


def _open_epoch(store: Store) -> int:
    """The number of the epoch that has begun, 0 if none has."""
    intent = store.document(KINDS["intent"])
    return 0 if intent is None else int(intent.epoch)


def _contradictions(
    shard: int, held: StateRecord, committed: int, newest: int, known: State | None
) -> Iterator[Finding]:
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


def _mark_fault(held: StateRecord, committed: int, newest: int) -> str | None:
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
