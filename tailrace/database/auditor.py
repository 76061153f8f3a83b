"""Audits a store: its structure, the rows of its views, and the states behind them.

    structure   documents, logs, tables, marks and undo records                        `verify/audit/fsck.py`
    rows        each view against Spark SQL over the tables at the pinned cut          `verify/audit/view_rows.py`
    states      all views built in a scratch store at that cut, compared byte by byte  `verify/audit/state_entries.py`

Writers, epochs and readers continue meanwhile: a pin keeps the audited epoch readable.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tailrace.catalog.catalog import Catalog
from tailrace.catalog.definition import ViewDef
from tailrace.catalog.pinned import readable
from tailrace.database.progress import OnStep, Step
from tailrace.epochs.expected import ExpectedStates
from tailrace.epochs.maintained import Maintained, maintained, sinks
from tailrace.errors import EpochFailed, StoreError
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


@dataclass(frozen=True)
class Subject:
    """The views to audit, their queries, plans and states, all from one version of the catalog."""

    views: Sequence[ViewDef]
    queries: Sequence[BoundQuery]
    maintained: Maintained
    states: Mapping[int, State]


class Auditor:
    """Audits one store. It changes nothing in it."""

    def __init__(self, store: Store, catalog: Catalog, spark: Callable[[], SparkSession]) -> None:
        self._store, self._catalog, self._spark = store, catalog, spark

    def audit(self, names: Sequence[str] | None, selection: KeySelection, on_step: OnStep) -> AuditReport:
        """Check the structure and these views (None: all)."""
        began = time.monotonic()
        on_step(Step("reading the store's structure"))
        can_inspect = Capability.INSPECTION in self._store.capabilities
        findings = self.structure(tables=selection.selects_all) if can_inspect else []
        if any(_prevents_audit(f) for f in findings):
            return AuditReport(0, Cut(0, ()), (), 0, 0, time.monotonic() - began, tuple(findings))
        asked = [self._catalog.view(name).name for name in names] if names else sorted(self._catalog.views)
        rows = entries = 0
        with readable(self._store, self._catalog, asked) as pin:
            failed = self._catalog.failed
            view_names = [name for name in asked if name not in failed]
            subject = self._subject(view_names)
            for view, query in zip(subject.views, subject.queries, strict=True):
                on_step(Step(f"recomputing {view.name}"))
                compared_rows, row_findings = self._audit_rows(view, query, pin, selection)
                rows, findings = rows + compared_rows, [*findings, *row_findings]
            behind: dict[str, int] = {}
            for name in (name for name in asked if name in failed and failed[name].held):
                on_step(Step(f"recomputing {name}"))
                shown = Pin(failed[name].epoch, failed[name].cut, failed[name].time)
                view = self._catalog.view(name)
                compared_rows, row_findings = self._audit_rows(view, self._catalog.query(view), shown, selection)
                if self._catalog.failed.get(name, failed[name]).epoch == shown.epoch and name in self._catalog.failed:
                    behind[name] = shown.epoch  # else it has recovered meanwhile, and its old rows are gone
                    rows, findings = rows + compared_rows, [*findings, *row_findings]
            if selection.selects_all and subject.maintained.views and Capability.REPAIR in self._store.capabilities:
                on_step(Step("building all states in a scratch store"))
                entries, state_findings = self._audit_states(subject, pin)
                reported = {f.where for f in findings}
                findings += [f for f in state_findings if f.where not in reported]
        seconds = time.monotonic() - began
        skipped = tuple(name for name in asked if name in failed and name not in behind)
        audited = (tuple(view_names), rows, entries, seconds, tuple(findings))
        return AuditReport(pin.epoch, pin.cut, *audited, skipped=skipped, behind=behind)

    def structure(self, *, tables: bool) -> list[Finding]:
        """Findings about the structure. If documents are damaged, only those: the rest cannot be checked without."""
        findings = fsck_documents(self._store)
        if findings:
            return findings
        findings = [*fsck_logs(self._store, self._catalog), *fsck_shards(self._store, self._catalog)]
        return [*findings, *fsck_tables(self._store, self._catalog)] if tables else findings

    def _subject(self, names: Sequence[str]) -> Subject:
        while True:
            version = self._catalog.version
            views = [self._catalog.view(name) for name in names]
            everything = maintained(self._catalog)
            audited = Maintained(everything.tables, sinks(views), everything.states)
            subject = Subject(views, [self._catalog.query(v) for v in views], audited, describe_states(self._catalog))
            if self._catalog.version == version:
                return subject

    def _audit_rows(
        self, view: ViewDef, query: BoundQuery, pin: Pin, selection: KeySelection
    ) -> tuple[int, Sequence[Finding]]:
        try:
            compared = audit_rows(session(self._spark()), self._store, view, query, pin, selection)
            return compared.rows, compared.findings
        except FAILURES as error:
            return 0, [_unaudited(f"rows of {view.name}", [view.name], reason(error))]

    def _audit_states(self, subject: Subject, pin: Pin) -> tuple[int, list[Finding]]:
        """Compare all states of views that are maintained by deltas, including the states of their rows."""
        try:
            with self._store.repairs().scratch() as scratch:
                compared = _StateAudit(self._store, session(self._spark()), subject, pin).compare(scratch)
        except (EpochFailed, StoreError, *FAILURES) as error:
            names = [v.name for v in subject.views]
            message = error.reason if isinstance(error, EpochFailed) else reason(error)
            return 0, [_unaudited(f"states of {', '.join(names)}", names, message)]
        return compared.entries, [f for findings in compared.findings.values() for f in findings]


class _StateAudit:
    """Builds the expected states at a pinned cut in a scratch store, and compares the live states with them."""

    def __init__(self, store: Store, spark: SparkSession, subject: Subject, pin: Pin) -> None:
        self._store, self._spark, self._subject, self._pin = store, spark, subject, pin
        self._live = StatesAt(store.ref, pin.epoch)

    def compare(self, scratch: Store) -> StateComparison:
        expected = self._build(scratch, self._subject.maintained)
        audited = self._states_of(self._subject.maintained.views)
        compared = audit_states(self._spark, self._store, self._live, expected, audited)
        inexact = [s for s in audited if has_inexact_answers(s) and s.number in compared.findings]
        return self._compare_again(compared, expected, inexact) if inexact else compared

    def _build(self, scratch: Store, views: Maintained) -> StatesAt:
        expected = ExpectedStates(scratch, lambda: self._spark)
        return StatesAt(scratch.ref, expected.run(views, self._pin.cut, self._pin.time))

    def _states_of(self, views: Sequence[ViewSink]) -> list[State]:
        numbers = {v.state for v in views} | self._subject.maintained.states_of(views)
        return [s for n, s in sorted(self._subject.states.items()) if n in numbers]

    def _compare_again(self, first: StateComparison, expected: StatesAt, inexact: Sequence[State]) -> StateComparison:
        """Compare again the views over Spark answers that differ, with live answers where these are within tolerance.

        Recomputed DOUBLEs may differ in their last bits, and states derived from them, too.
        """
        maintained_views, numbers = self._subject.maintained, {s.number for s in inexact}
        views = [v for v in maintained_views.views if maintained_views.states_of([v]) & numbers]
        audited = self._states_of(views)
        with self._store.repairs().scratch() as scratch:
            adopt_answers(self._spark, self._store, self._live, expected, inexact, StatesAt(scratch.ref, 1))
            rebuilt = self._build(scratch, replace(maintained_views, views=views))
            second = audit_states(self._spark, self._store, self._live, rebuilt, audited)
        audited_numbers = {s.number for s in audited}
        unaffected = {n: f for n, f in first.findings.items() if n not in audited_numbers}
        return StateComparison(first.entries, {**unaffected, **second.findings})


def _prevents_audit(finding: Finding) -> bool:
    """Whether views cannot be audited, because the catalog, or the tables at the committed cut, cannot be read."""
    about = finding.place[:1]
    return about in (("log",), ("notes",)) or (about == ("document",) and not finding.repairable)


def _unaudited(where: str, views: Sequence[str], message: str) -> Finding:
    advice = (
        "This part could not be audited (see the example). Audit again; if it fails again,"
        " run `tailrace audit --repair`; if a table is damaged, restore a backup"
    )
    return Finding(where, "damaged", 1, advice, (message,), tuple(views))
