"""Auditing a store: its structure, its views' rows, and the states behind them.

    structure   documents, logs, tables, marks and undo records                        `verify/audit/fsck.py`
    rows        each view against Spark SQL over the tables at the pinned cut          `verify/audit/view_rows.py`
    states      all views built in a scratch store at that cut, compared byte by byte  `verify/audit/state_entries.py`

Writers, epochs and readers go on meanwhile: a pin keeps the audited epoch readable.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tailrace.catalog.catalog import Catalog
from tailrace.catalog.definition import ViewDef
from tailrace.catalog.pinned import readable
from tailrace.database.progress import Step
from tailrace.epochs.expected import ExpectedStates
from tailrace.epochs.maintained import Maintained, maintained, sinks
from tailrace.errors import EpochFailed
from tailrace.plan.binding import BoundQuery
from tailrace.plan.physical.physical_plan import ViewSink
from tailrace.spark.failures import FAILURES, reason
from tailrace.spark.session import session
from tailrace.store.base import Capability, Cut, Store
from tailrace.store.pins import Pin
from tailrace.verify.audit.findings import AuditReport, Finding
from tailrace.verify.audit.fsck import fsck_documents, fsck_logs, fsck_shards, fsck_tables
from tailrace.verify.audit.state_entries import (
    StateComparison,
    StatesAt,
    adopt_answers,
    audit_states,
    has_inexact_answers,
)
from tailrace.verify.audit.state_names import State, describe_states
from tailrace.verify.audit.view_rows import KeySelection, audit_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Say = Callable[[Step], None]


@dataclass(frozen=True)
class Subject:
    """What is audited, all of one version of the catalog."""

    views: Sequence[ViewDef]
    queries: Sequence[BoundQuery]
    wanted: Maintained
    states: Mapping[int, State]


class Auditor:
    """Audits one store. What it reads stays as it is."""

    def __init__(self, store: Store, catalog: Catalog, spark: Callable[[], SparkSession]) -> None:
        self._store, self._catalog, self._spark = store, catalog, spark

    def audit(self, names: Sequence[str] | None, selection: KeySelection, say: Say) -> AuditReport:
        """Look for all that is wrong with the structure and with these views, all by default."""
        began = time.monotonic()
        say(Step("reading the store's structure"))
        inspected = Capability.INSPECTION in self._store.capabilities
        findings = self.structure(tables=selection.selects_all) if inspected else []
        if any(_hides_all(f) for f in findings):
            return AuditReport(0, Cut(0, ()), (), 0, 0, time.monotonic() - began, tuple(findings))
        listed = [self._catalog.view(name).name for name in names] if names else sorted(self._catalog.views)
        rows = entries = 0
        with readable(self._store, self._catalog, listed) as pin:
            subject = self._subject(listed)
            for view, query in zip(subject.views, subject.queries, strict=True):
                say(Step(f"recomputing {view.name}"))
                compared, found = self._rows(view, query, pin, selection)
                rows, findings = rows + compared, [*findings, *found]
            if selection.selects_all and subject.wanted.views and Capability.REPAIR in self._store.capabilities:
                say(Step("building all states anew"))
                entries, found = self._states(subject, pin)
                named = {f.where for f in findings}
                findings += [f for f in found if f.where not in named]
        seconds = time.monotonic() - began
        return AuditReport(pin.epoch, pin.cut, tuple(listed), rows, entries, seconds, tuple(findings))

    def structure(self, *, tables: bool) -> list[Finding]:
        """What is wrong with the structure; nothing is said of what cannot be reached for damaged documents."""
        found = fsck_documents(self._store)
        if found:
            return found
        found = [*fsck_logs(self._store, self._catalog), *fsck_shards(self._store, self._catalog)]
        return [*found, *fsck_tables(self._store, self._catalog)] if tables else found

    def _subject(self, names: Sequence[str]) -> Subject:
        while True:
            version = self._catalog.version
            views = [self._catalog.view(name) for name in names]
            everything = maintained(self._catalog)
            wanted = Maintained(everything.tables, sinks(views), everything.states)
            subject = Subject(views, [self._catalog.query(v) for v in views], wanted, describe_states(self._catalog))
            if self._catalog.version == version:
                return subject

    def _rows(
        self, view: ViewDef, query: BoundQuery, pin: Pin, selection: KeySelection
    ) -> tuple[int, Sequence[Finding]]:
        try:
            compared = audit_rows(session(self._spark()), self._store, view, query, pin, selection)
            return compared.rows, compared.findings
        except FAILURES as error:
            return 0, [_unaudited(f"rows of {view.name}", [view.name], reason(error))]

    def _states(self, subject: Subject, pin: Pin) -> tuple[int, list[Finding]]:
        """Compare the states of views that are kept by deltas, their rows among them."""
        try:
            with self._store.repairs().scratch() as beside:
                compared = _Anew(self._store, session(self._spark()), subject, pin).compared(beside)
        except (EpochFailed, *FAILURES) as error:
            names = [v.name for v in subject.views]
            said = error.reason if isinstance(error, EpochFailed) else reason(error)
            return 0, [_unaudited(f"states of {', '.join(names)}", names, said)]
        return compared.entries, [finding for listed in compared.findings.values() for finding in listed]


class _Anew:
    """States built anew at a pinned cut, and compared with those of the store."""

    def __init__(self, store: Store, spark: SparkSession, subject: Subject, pin: Pin) -> None:
        self._store, self._spark, self._subject, self._pin = store, spark, subject, pin
        self._live = StatesAt(store.ref, pin.epoch)

    def compared(self, beside: Store) -> StateComparison:
        wanted = self._subject.wanted
        right = self._built(beside, wanted)
        known = self._known(wanted.views)
        found = audit_states(self._spark, self._store, self._live, right, known)
        unsure = [s for s in known if has_inexact_answers(s) and s.number in found.findings]
        return self._settled(found, right, unsure) if unsure else found

    def _built(self, beside: Store, wanted: Maintained) -> StatesAt:
        return StatesAt(beside.ref, ExpectedStates(beside, lambda: self._spark).run(wanted, self._pin.cut))

    def _known(self, views: Sequence[ViewSink]) -> list[State]:
        numbers = {v.state for v in views} | self._subject.wanted.states_of(views)
        return [s for n, s in sorted(self._subject.states.items()) if n in numbers]

    def _settled(self, first: StateComparison, right: StatesAt, unsure: Sequence[State]) -> StateComparison:
        """Compare again what rests on answers that differ: built from those that stand, where they are right enough."""
        wanted, numbers = self._subject.wanted, {s.number for s in unsure}
        views = [v for v in wanted.views if wanted.states_of([v]) & numbers]
        known = self._known(views)
        with self._store.repairs().scratch() as beside:
            adopt_answers(self._spark, self._store, self._live, right, unsure, StatesAt(beside.ref, 1))
            place = self._built(beside, replace(wanted, views=views))
            again = audit_states(self._spark, self._store, self._live, place, known)
        kept = {n: f for n, f in first.findings.items() if n not in {s.number for s in known}}
        return StateComparison(first.entries, {**kept, **again.findings})


def _hides_all(finding: Finding) -> bool:
    """Whether nothing can be said of views: the catalog cannot be read, or not the tables at the committed cut."""
    about = finding.place[:1]
    return about in (("log",), ("notes",)) or (about == ("document",) and not finding.repairable)


def _unaudited(where: str, views: Sequence[str], said: str) -> Finding:
    advice = "It could not be audited: repair, and audit again. If tables are damaged, restore a backup"
    return Finding(where, "damaged", 1, advice, (said,), tuple(views))
