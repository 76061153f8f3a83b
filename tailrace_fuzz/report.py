"""Formats a run's summary, and a finding as a regression test to paste."""

from __future__ import annotations

from tailrace_fuzz.data import Epoch
from tailrace_fuzz.run import Finding, Outcome
from tailrace_fuzz.scenarios import Scenario


def summary(outcome: Outcome) -> str:
    share = 100 * outcome.filled // max(outcome.compared, 1)
    lines = [
        f"{outcome.maintained} views maintained, {outcome.compared} comparisons ({share}% with rows), "
        f"{len(outcome.findings)} findings, {len(outcome.invalid)} queries refused by Spark, "
        f"{outcome.skipped} skipped because they read a view that was not created",
        "seconds: " + ", ".join(f"{name} {seconds:.0f}" for name, seconds in outcome.seconds.items()),
    ]
    lines += [f"refused {count:5}: {construct}" for construct, count in outcome.refused.most_common()]
    return "\n".join(lines)


def described(finding: Finding, replay: str) -> str:
    return (
        f"FINDING {finding.kind} in query {finding.view.number}, epoch {finding.epoch}: {replay}\n"
        f"  {finding.view.sql}\n  {finding.detail}"
    )


def regression(scenario: Scenario, finding: Finding) -> str:
    """The source of a test for `tests/rules/test_fuzz_findings.py`."""
    lines = [f"def test_{finding.kind.lower()}_of_query_{finding.view.number}(db: tr.Database) -> None:", "    story("]
    lines += ["        db,", f"        {[t.ddl for t in scenario.tables]!r},"]
    lines += [f"        {[v.sql for v in scenario.views]!r},"]
    lines += [f"        {_writes(epoch)}," for epoch in (scenario.fill, *scenario.epochs)]
    if any(e.spread for e in scenario.epochs):
        lines.append("        spread=True,")
    return "\n".join([*lines, "    )"])


def _writes(epoch: Epoch) -> str:
    return repr([(o.kind, o.table, list(o.rows)) for o in epoch.operations])
