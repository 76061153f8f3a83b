"""A result's figures and their ratios as Markdown tables: a row for each line, a column for each x, or turned."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace_bench.report.style import between, ranged, tag
from tailrace_bench.results import Line, Result, Spread, Whose
from tailrace_bench.units import plain, unit, written

WIDE = 6  # columns of figures that still fit a page

X = float | str


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)


def figures(result: Result) -> str:
    """Median and spread of every line at every x."""
    xs = _xs(result)
    rows = [[_name(line), *(_cell(at(line, x), result.y) for x in xs)] for line in result.lines]
    return _turned(result, xs, rows)


def ratios(result: Result) -> str:
    """Ours as shares of each limit, and in multiples of each peer: above 1, ours is the better. Empty if none."""
    better = unit(result.y).more_is_better
    if better is None:
        return ""
    xs = _xs(result)
    rows = []
    for ours in _of(result, Whose.TAILRACE):
        for other in (*_of(result, Whose.LIMIT), *_of(result, Whose.PEER)):
            shares = [_ratio(at(ours, x), at(other, x), better) for x in xs]
            sign = "×" if other.whose is Whose.PEER else ""
            if any(share is not None for share in shares):
                words = f"{ours.name} beside {other.name}" if sign else f"{ours.name}, share of {other.name}"
                rows.append([words, *("" if s is None else f"{_short(s)}{sign}" for s in shares)])
    return _turned(result, xs, rows) if rows else ""


def at(line: Line, x: X) -> Spread | None:
    """A line's figures at an x: those of that point, or those that hold for the whole axis."""
    points = {p.x: p.y for p in line.points}
    return points.get(x, points.get(""))


def _of(result: Result, whose: Whose) -> list[Line]:
    return [line for line in result.lines if line.whose is whose]


def _ratio(ours: Spread | None, other: Spread | None, more_is_better: bool) -> float | None:
    if ours is None or other is None or not ours.median or not other.median:
        return None
    return ours.median / other.median if more_is_better else other.median / ours.median


def _xs(result: Result) -> list[X]:
    """Every x there is, numbers in order, categories as they come; a single "" if nothing else."""
    found = list(dict.fromkeys(p.x for line in result.lines for p in line.points if p.x != ""))
    if not found:
        return [""]
    return found if any(isinstance(x, str) for x in found) else sorted(found, key=float)


def _name(line: Line) -> str:
    return f"**{line.name}**" if line.whose is Whose.TAILRACE else tag(line)


def _cell(spread: Spread | None, y: str) -> str:
    if spread is None:
        return ""
    said = ranged(spread, y)
    spreads = spread.runs > 1 and written(spread.least, y) != written(spread.most, y)
    return f"{said} ({between(spread, y)})" if spreads else said


def _short(value: float) -> str:
    """Two places: more would say more than a ratio of two medians knows."""
    if value < 0.001:
        return "< 0.001"
    return f"{value:.2g}" if value < 0.1 else f"{value:.2f}" if value < 10 else plain(float(f"{value:.2g}"))


def _turned(result: Result, xs: list[X], rows: list[list[str]]) -> str:
    names = ["" if x == "" else x if isinstance(x, str) else plain(x) for x in xs]
    if len(xs) <= max(WIDE, len(rows)):
        return markdown([result.x, *names], rows)
    columns = [row[0] for row in rows]
    return markdown([result.x, *columns], [[n, *(row[i + 1] for row in rows)] for i, n in enumerate(names)])
