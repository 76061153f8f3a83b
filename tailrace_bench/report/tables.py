"""Markdown tables of a result's figures and ratios: a row per line and a column per x, or transposed."""

from __future__ import annotations

from collections.abc import Sequence

from tailrace_bench.report.style import format_range, format_spread, line_label
from tailrace_bench.results import Line, Result, Spread, Whose
from tailrace_bench.units import format_figure, format_number, unit_of

MAX_COLUMNS = 6  # more columns of figures do not fit a page

X = float | str


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)


def figures_table(result: Result) -> str:
    """Median and range of every line at every x."""
    xs = _x_values(result)
    rows = [[_name(line), *(_cell(figure_at(line, x), result.y) for x in xs)] for line in result.lines]
    return _lay_out(result, xs, rows)


def ratios_table(result: Result) -> str:
    """Tailrace as a share of each limit and as a multiple of each peer: above 1, it is faster. Empty if no ratios."""
    better = unit_of(result.y).more_is_better
    if better is None:
        return ""
    xs = _x_values(result)
    rows = []
    for ours in _lines_of(result, Whose.TAILRACE):
        for other in (*_lines_of(result, Whose.LIMIT), *_lines_of(result, Whose.PEER)):
            shares = [_ratio(figure_at(ours, x), figure_at(other, x), better) for x in xs]
            sign = "×" if other.whose is Whose.PEER else ""
            if any(share is not None for share in shares):
                heading = f"{ours.name} vs {other.name}" if sign else f"{ours.name}, share of {other.name}"
                rows.append([heading, *("" if s is None else f"{_format_ratio(s)}{sign}" for s in shares)])
    return _lay_out(result, xs, rows) if rows else ""


def figure_at(line: Line, x: X) -> Spread | None:
    """A line's figures at an x: those of that point, or those for the whole axis."""
    points = {p.x: p.y for p in line.points}
    return points.get(x, points.get(""))


def _lines_of(result: Result, whose: Whose) -> list[Line]:
    return [line for line in result.lines if line.whose is whose]


def _ratio(ours: Spread | None, other: Spread | None, more_is_better: bool) -> float | None:
    if ours is None or other is None or not ours.median or not other.median:
        return None
    return ours.median / other.median if more_is_better else other.median / ours.median


def _x_values(result: Result) -> list[X]:
    """All x values: numbers sorted, categories in order of appearance. [""] if there are none."""
    xs = list(dict.fromkeys(p.x for line in result.lines for p in line.points if p.x != ""))
    if not xs:
        return [""]
    return xs if any(isinstance(x, str) for x in xs) else sorted(xs, key=float)


def _name(line: Line) -> str:
    return f"**{line.name}**" if line.whose is Whose.TAILRACE else line_label(line)


def _cell(spread: Spread | None, y: str) -> str:
    if spread is None:
        return ""
    text = format_spread(spread, y)
    has_range = spread.runs > 1 and format_figure(spread.least, y) != format_figure(spread.most, y)
    return f"{text} ({format_range(spread, y)})" if has_range else text


def _format_ratio(value: float) -> str:
    """Two significant digits: a ratio of two medians is no more precise."""
    if value < 0.001:
        return "< 0.001"
    return f"{value:.2g}" if value < 0.1 else f"{value:.2f}" if value < 10 else format_number(float(f"{value:.2g}"))


def _lay_out(result: Result, xs: list[X], rows: list[list[str]]) -> str:
    names = ["" if x == "" else x if isinstance(x, str) else format_number(x) for x in xs]
    if len(xs) <= max(MAX_COLUMNS, len(rows)):
        return markdown_table([result.x, *names], rows)
    columns = [row[0] for row in rows]
    return markdown_table([result.x, *columns], [[n, *(row[i + 1] for row in rows)] for i, n in enumerate(names)])
