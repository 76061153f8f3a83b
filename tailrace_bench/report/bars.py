"""Draws horizontal bars, grouped by category, each with its name and figure."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from tailrace_bench.report.style import GROUND, INK, WIDTH, Look, assign_looks, draw_heading, format_spread, line_label
from tailrace_bench.results import Line, Result, Spread, Whose
from tailrace_bench.units import format_number, format_tick, unit_of

ROW_HEIGHT = 0.27  # inches
MARGIN_HEIGHT = 1.06  # inches for title and axis
LABEL_WIDTH = 40  # characters per line of a name
LETTER_WIDTH = 0.078  # inches of a bold character


_ORDER = [Whose.TAILRACE, Whose.LIMIT, Whose.PEER, Whose.PAPER]


@dataclass(frozen=True)
class Row:
    """A bar. Without a figure it is the heading of a category."""

    name: str
    figure: Spread | None = None
    line: Line | None = None
    look: Look | None = None


def draw(figure: Figure, result: Result) -> None:
    rows = _build_rows(result)
    height = MARGIN_HEIGHT + ROW_HEIGHT * len(rows)
    figure.set_size_inches(WIDTH, height)
    longest = max((len(part) for row in rows for part in _wrap(row.name).split("\n")), default=0)
    left = max(0.16, 0.03 + longest * LETTER_WIDTH / WIDTH)
    axes = figure.add_axes((left, 0.38 / height, 0.88 - left, 1 - MARGIN_HEIGHT / height))
    has_categories = len({p.x for line in result.lines for p in line.points if p.x != ""}) > 1
    draw_heading(figure, result.title, f"{result.y}, by {result.x}" if has_categories else result.y, 0.02)
    if result.log_y:
        axes.set_xscale("log")
    for position, row in enumerate(rows):
        _draw_bar(axes, position, row, result)
    _draw_axes(axes, rows, result)


def _build_rows(result: Result) -> list[Row]:
    """Bars under a heading per category, then the bars that apply to all categories. Peers are sorted, best first."""
    styled = sorted(
        zip(result.lines, assign_looks(result.lines), strict=True), key=lambda pair: _ORDER.index(pair[0].whose)
    )
    sign = -1 if unit_of(result.y).more_is_better else 1
    categories = list(dict.fromkeys(p.x for line in result.lines for p in line.points if p.x != ""))
    rows: list[Row] = []
    for category in [*categories, ""]:
        category_rows = [
            Row(line_label(line), p.y, line, look) for line, look in styled for p in line.points if p.x == category
        ]
        peers = [row for row in category_rows if row.line and row.line.whose is Whose.PEER]
        best_first = iter(sorted(peers, key=lambda row: sign * row.figure.median if row.figure else 0))
        if len(category_rows) == 1 and category != "" and len(categories) > 1:
            rows += [
                replace(row, name=line_label(replace(row.line, name=_category_name(category))))
                for row in category_rows
                if row.line
            ]
            continue
        if category_rows and len(categories) > 1:
            rows.append(Row(_category_name(category) or _common_heading(category_rows)))
        rows += [next(best_first) if row in peers else row for row in category_rows]
    return rows


def _wrap(name: str) -> str:
    return "\n".join(textwrap.wrap(name, LABEL_WIDTH))


def _category_name(category: float | str) -> str:
    return category if isinstance(category, str) else format_number(category)


def _common_heading(rows: list[Row]) -> str:
    published = all(row.line and row.line.whose is Whose.PAPER for row in rows)
    return "as published" if published else "all of these"


def _draw_bar(axes: Axes, position: int, row: Row, result: Result) -> None:
    if row.figure is None or row.look is None or row.line is None:
        return
    spread, look = row.figure, row.look
    hollow = row.line.whose in (Whose.LIMIT, Whose.PAPER)
    if result.log_y:  # a dot, because the length of a bar means nothing on an axis without zero
        axes.plot([spread.median], [position], marker="o", markersize=7, color=look.colour, zorder=4)
        axes.axhline(position, color=look.colour, linewidth=0.6, linestyle=(0, (1, 2)), zorder=1)
    else:
        axes.barh(
            position,
            spread.median,
            height=0.74,
            color=GROUND if hollow else look.colour,
            edgecolor=look.colour,
            linestyle=look.stroke if hollow else "-",
            linewidth=1.4 if hollow else 0,
            zorder=2,
        )
    if spread.most > spread.least:
        reach = [[spread.median - spread.least], [spread.most - spread.median]]
        axes.errorbar([spread.median], [position], xerr=reach, color=INK, capsize=2.5, elinewidth=1, zorder=5)
    ours = row.line.whose is Whose.TAILRACE
    axes.annotate(
        format_spread(spread, result.y),
        xy=(max(spread.most, spread.median), position),
        xytext=(7, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
        fontweight="bold" if ours else "normal",
        annotation_clip=False,
        bbox={"facecolor": GROUND, "edgecolor": "none", "pad": 0.6},
        zorder=6,
    )


def _draw_axes(axes: Axes, rows: list[Row], result: Result) -> None:
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [_wrap(row.name) for row in rows])
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_fontsize(9)
        if row.line is None or row.line.whose is Whose.TAILRACE:
            label.set_fontweight("bold")
        if row.line is None:
            label.set_fontsize(10)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_tick(value, result.y)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    if not result.log_y:
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(6))
