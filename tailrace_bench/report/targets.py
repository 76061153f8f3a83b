"""What was aimed at, what came out, and what stands in the way."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from tailrace_bench.report.tables import markdown
from tailrace_bench.results import Result, Target
from tailrace_bench.units import plain

UNEXPLAINED = "the cause is not known yet."


def summary(results: Sequence[Result], quick: Collection[str]) -> str:
    """All targets in one table, and below it why some were missed. Those of quick runs are shown, but do not count."""
    found = [(result, target) for result in results for target in result.targets]
    if not found:
        return "No benchmark here is held to a target."
    rows = [
        [f"[{t.what}](#{r.name})", wanted(t), got(t), verdict(t) + (", in a quick run" if r.name in quick else "")]
        for r, t in found
    ]
    parts = [_count(found, quick), markdown(["target", "wanted", "got", ""], rows)]
    if missed := [f"- {t.what}: {t.why or UNEXPLAINED}" for _, t in found if not t.met]:
        parts += ["What stands in the way of those that were missed:", "\n".join(missed)]
    return "\n\n".join(parts)


def _count(found: Sequence[tuple[Result, Target]], quick: Collection[str]) -> str:
    full = [target for result, target in found if result.name not in quick]
    others = len(found) - len(full)
    said = f"{sum(t.met for t in full)} of {len(full)} targets are met."
    return said + (f" {others} more were looked at by a quick run only, which does not count." if others else "")


def verdict(target: Target) -> str:
    if target.met:
        return "met"
    if not math.isfinite(target.got):
        return "**not measured**"
    short = abs(target.got - target.wanted)
    if not target.wanted:
        return f"**missed** by {plain(short)}"
    share = short / abs(target.wanted)
    return f"**missed** by {share:.0%}" if share >= 0.01 else "**missed** by less than 1%"


def wanted(target: Target) -> str:
    return f"{'≥' if target.at_least else '≤'} {plain(target.wanted)}"


def got(target: Target) -> str:
    """What came out, with more digits where rounding would make a miss look like a hit."""
    rounded = plain(target.got)
    return f"{target.got:.6g}" if rounded == plain(target.wanted) and not target.met else rounded
