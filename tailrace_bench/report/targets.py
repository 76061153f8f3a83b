"""The targets section: goals, measured values, and why targets were missed."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from tailrace_bench.report.tables import markdown_table
from tailrace_bench.results import Result, Target
from tailrace_bench.units import format_number

UNEXPLAINED = "the cause is not known yet."


def targets_summary(results: Sequence[Result], quick: Collection[str]) -> str:
    """A table of all targets, and why some were missed. Targets of quick runs are shown but do not count."""
    all_targets = [(result, target) for result in results for target in result.targets]
    if not all_targets:
        return "No benchmark on this page has a target."
    rows = [
        [
            f"[{t.what}](#{r.name})",
            format_goal(t),
            format_got(t),
            verdict(t) + (", in a quick run" if r.name in quick else ""),
        ]
        for r, t in all_targets
    ]
    parts = [_count_met(all_targets, quick), markdown_table(["target", "goal", "measured", ""], rows)]
    if missed := [f"- {t.what}: {t.why or UNEXPLAINED}" for _, t in all_targets if not t.met]:
        parts += ["Why targets were missed:", "\n".join(missed)]
    return "\n\n".join(parts)


def _count_met(all_targets: Sequence[tuple[Result, Target]], quick: Collection[str]) -> str:
    full = [target for result, target in all_targets if result.name not in quick]
    others = len(all_targets) - len(full)
    text = f"{sum(t.met for t in full)} of {len(full)} targets are met."
    return text + (f" {others} more come from quick runs, which do not count." if others else "")


def verdict(target: Target) -> str:
    if target.met:
        return "met"
    if not math.isfinite(target.got):
        return "**not measured**"
    miss = abs(target.got - target.wanted)
    if not target.wanted:
        return f"**missed** by {format_number(miss)}"
    share = miss / abs(target.wanted)
    return f"**missed** by {share:.0%}" if share >= 0.01 else "**missed** by less than 1%"


def format_goal(target: Target) -> str:
    return f"{'≥' if target.at_least else '≤'} {format_number(target.wanted)}"


def format_got(target: Target) -> str:
    """The measured value, with more digits if rounding would make a miss look like a hit."""
    rounded = format_number(target.got)
    return f"{target.got:.6g}" if rounded == format_number(target.wanted) and not target.met else rounded
