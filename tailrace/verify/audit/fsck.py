"""Checks the structure of a store: everything on disk that can be checked without recomputing views.

documents   valid JSON of the right type
logs        right checksums and no gaps, from the committed cut to the last transaction
notes       transactions are numbered without gaps; the last note says where the logs end
tables      rows decode and are stored under their own key on their own node; the row count is right
shards      marks agree with the committed epoch and the undo records; undo records are complete and sorted
states      every state belongs to a view that exists, is being built or is being dropped
leftovers   no shard has records that nothing will remove
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
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

_BACKUP = "Restore a backup: this data exists nowhere else"
_REBUILD = "Run `tailrace audit --repair`: it reads the rows of HBase again, and recomputes all views"
_REMOVE = "Run `tailrace audit --repair`: it removes the document; Tailrace recreates it if needed"


def fsck_documents(store: Store) -> list[Finding]:
    """Finds unreadable documents. If one belongs to the catalog, nothing else can be checked."""
    with store.inspect() as inspection:
        stored = inspection.documents()
    findings = []
    for name, data in stored:
        kind = kind_of(name)
        try:
            documents.decode(name, data, Any) if kind is None else kind.decode(name, data, store.nodes)
        except UNREADABLE as error:
            repairable = kind is not None and kind.expendable
            advice = _REMOVE if repairable else _BACKUP
            place = ("document", name)
            findings.append(Finding(f"document {name}", "damaged", 1, advice, (_reason(error),), (), repairable, place))
    return findings


def fsck_logs(store: Store, catalog: Catalog) -> list[Finding]:
    """Finds damage in logs and in the list of transactions."""
    tables = {t.id: t for t in catalog.tables.values()}
    views = tuple(sorted(catalog.views))
    findings = []
    with store.inspect() as inspection:
        data = dict(inspection.documents()).get(COMMITTED.name)
        committed = Cut(0, (0,) * store.nodes)
        if data is not None:
            committed = COMMITTED.decode(COMMITTED.name, data, store.nodes).cut
        faults, ends = inspection.transaction_faults(committed)
        if faults:
            advice = "Run `tailrace audit --repair`: it rebuilds the list from the logs and recomputes all views"
            findings.append(
                Finding("list of transactions", "damaged", len(faults), advice, _first(faults), views, True, ("notes",))
            )
        for node, start in enumerate(committed.offsets):
            log_faults = list(inspection.log_faults(node, start, None if ends is None else ends[node], tables))
            if unapplied := [f for f in log_faults if f[0] >= start]:
                advice = (
                    "Run `tailrace audit --repair`: it recomputes all views from the tables and skips the damaged part"
                    " of the log. No write is lost; epochs fail until then"
                )
                findings.append(_log_finding(node, unapplied, advice, views, ("log", node)))
            if applied := [f for f in log_faults if f[0] < start]:
                advice = "Nothing: all views already include these entries; they are trimmed when no reader needs them"
                findings.append(_log_finding(node, applied, advice, (), ("log before the cut", node)))
    return findings


def _log_finding(
    node: int, faults: list[tuple[int, str]], advice: str, views: tuple[str, ...], place: tuple[object, ...]
) -> Finding:
    examples = _first([{"offset": offset, "reason": reason} for offset, reason in faults])
    return Finding(f"log of node {node}", "damaged", len(faults), advice, examples, views, True, place)


def fsck_tables(store: Store, catalog: Catalog) -> list[Finding]:
    """Finds table rows that are unreadable or misplaced, and wrong row counts."""
    findings = []
    for table in catalog.tables.values():
        with store.inspect() as inspection:
            faults, rows, counted, is_copy = inspection.audit_rows(table)
        users = tuple(sorted(v.name for v in catalog.views.values() if table.id in v.tables))
        if faults:
            advice, about = _REBUILD if is_copy else _BACKUP, ("rows", table.id)
            damaged = Finding(f"table {table.name}", "damaged", len(faults), advice, _first(faults), users)
            findings.append(replace(damaged, repairable=is_copy, place=about))
        if counted != rows:
            advice = "Run `tailrace audit --repair`: it corrects the count"
            examples = (f"stored row count: {counted:,}; actual rows: {rows:,}",)
            place = ("count", table.id, rows - counted)
            findings.append(
                Finding(f"number of rows of {table.name}", "different", 1, advice, examples, (), True, place)
            )
    return findings


def fsck_shards(store: Store, catalog: Catalog) -> list[Finding]:
    """Finds marks and undo records that are damaged or inconsistent, and states that no view uses."""
    states_before = describe_states(catalog)
    numbers_before = set(states_before) | unpublished_states(catalog)
    findings: list[Finding] = []
    shards_of_state: dict[int, list[int]] = {}
    for shard in range(store.shards):
        try:
            with store.inspect() as inspection:
                records, leftovers = inspection.states(shard), inspection.leftovers(shard)
        except StoreError as error:
            findings.append(_lost_shard(store, shard, error, catalog))
            continue
        if leftovers:
            advice = "Run `tailrace audit --repair`: it removes them. They only take space"
            where, place = f"staged writes in shard {shard}", ("leftovers", shard)
            findings.append(Finding(where, "orphan", leftovers, advice, (), (), True, place))
        # The intent first: its commit removes it, so the other order could miss an epoch committed in between.
        open_epoch = _open_epoch(store)
        committed = read_committed(store).epoch
        for record in records:
            findings += _check_state(
                shard, record, committed, max(open_epoch, committed), states_before.get(record.state)
            )
            shards_of_state.setdefault(record.state, []).append(shard)
    # Views may have been created or dropped since the first read of the catalog.
    known_numbers = numbers_before | set(describe_states(catalog)) | unpublished_states(catalog)
    for state, shards in shards_of_state.items():
        if state not in known_numbers:
            advice = "Run `tailrace audit --repair`: it removes the state"
            examples = tuple(f"in shard {s}" for s in shards[:EXAMPLES])
            findings.append(
                Finding(f"state {state}", "orphan", len(shards), advice, examples, (), True, ("orphan", state))
            )
    return findings


def _lost_shard(store: Store, shard: int, error: StoreError, catalog: Catalog) -> Finding:
    with store.inspect() as inspection:
        removal = inspection.lost_shard_advice(shard)
    advice = f"{removal}, then run `tailrace audit --repair`: everything in shards can be recomputed"
    return Finding(f"shard {shard}", "damaged", 1, advice, (str(error),), tuple(sorted(catalog.views)), False)


def _open_epoch(store: Store) -> int:
    """The number of the open epoch, or 0."""
    intent = store.document(KINDS["intent"])
    return 0 if intent is None else int(intent.epoch)


def _check_state(
    shard: int, record: StateRecord, committed: int, newest: int, known: State | None
) -> Iterator[Finding]:
    name = known.name if known is not None else f"state {record.state}"
    views = known.views if known is not None else ()
    number, damaged = record.state, record.damaged
    if damaged:
        is_open = max(damaged) > committed
        effect = ", and the open epoch cannot be retried" if is_open else "; the newest rows of the views are right"
        advice = f"{REPAIR}. Until then readers of older epochs fail{effect}"
        examples = _first([{"epoch": epoch, "reason": reason} for epoch, reason in damaged.items()])
        where = f"undo records in shard {shard}: {name}"
        yield Finding(where, "damaged", len(damaged), advice, examples, views, True, ("undo", shard, number))
    if reason := _mark_fault(record, committed, newest):
        where = f"mark in shard {shard}: {name}"
        yield Finding(where, "damaged", 1, REPAIR, (reason,), views, True, ("mark", shard, number))


def _mark_fault(record: StateRecord, committed: int, newest: int) -> str | None:
    mark = record.mark
    if mark is None:
        return "unreadable mark" if record.marked else "no mark"
    if record.undos and record.undos[-1] != mark.applied:
        return f"last applied epoch is {mark.applied} in the mark, {record.undos[-1]} in the undo records"
    if mark.applied > newest:
        return f"last applied epoch is {mark.applied} in the mark, but the newest epoch is {newest}"
    if mark.oldest > min(mark.applied, committed):
        readable = min(mark.applied, committed)
        return f"oldest readable epoch is {mark.oldest} in the mark, but epoch {readable} must be readable"
    return None


def _first(examples: list[object] | list[str] | list[dict[str, object]]) -> tuple[object, ...]:
    return tuple(examples[:EXAMPLES])


def _reason(error: Exception) -> str:
    reason = getattr(error, "data", {}).get("reason") if isinstance(error, TailraceError) else None
    return str(reason or error).partition("\n")[0] or type(error).__name__
