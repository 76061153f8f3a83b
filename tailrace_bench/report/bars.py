"""Horizontal bars, category by category, each with its name and its figure."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from tailrace_bench.report.style import GROUND, INK, WIDTH, Look, heading, looks, ranged, tag
from tailrace_bench.results import Line, Result, Spread, Whose
from tailrace_bench.units import plain, ticked, unit

ROW = 0.27  # inches
AROUND = 1.06  # inches for title and axis
LABEL = 40  # characters of a name on one line
LETTER = 0.078  # inches that one takes, bold


_ORDER = [Whose.TAILRACE, Whose.LIMIT, Whose.PEER, Whose.PAPER]


@dataclass(frozen=True)
class Row:
    """A bar, or the heading of a category if it has no figure."""

    name: str
    figure: Spread | None = None
    line: Line | None = None
    look: Look | None = None


def draw(figure: Figure, result: Result) -> None:
    rows = _rows(result)
    height = AROUND + ROW * len(rows)
    figure.set_size_inches(WIDTH, height)
    longest = max((len(part) for row in rows for part in _wrapped(row.name).split("\n")), default=0)
    left = max(0.16, 0.03 + longest * LETTER / WIDTH)
    axes = figure.add_axes((left, 0.38 / height, 0.88 - left, 1 - AROUND / height))
    several = len({p.x for line in result.lines for p in line.points if p.x != ""}) > 1
    heading(figure, result.title, f"{result.y}, by {result.x}" if several else result.y, 0.02)
    if result.log_y:
        axes.set_xscale("log")
    for place, row in enumerate(rows):
        _bar(axes, place, row, result)
    _frame(axes, rows, result)


def _rows(result: Result) -> list[Row]:
    """Bars under a heading for each category, and last those that hold for all of them."""
    dressed = sorted(zip(result.lines, looks(result.lines), strict=True), key=lambda pair: _ORDER.index(pair[0].whose))
    sign = -1 if unit(result.y).more_is_better else 1
    categories = list(dict.fromkeys(p.x for line in result.lines for p in line.points if p.x != ""))
    rows: list[Row] = []
    for category in [*categories, ""]:
        found = [Row(tag(line), p.y, line, look) for line, look in dressed for p in line.points if p.x == category]
        peers = [row for row in found if row.line and row.line.whose is Whose.PEER]
        best_first = iter(sorted(peers, key=lambda row: sign * row.figure.median if row.figure else 0))
        if len(found) == 1 and category != "" and len(categories) > 1:
            rows += [replace(row, name=tag(replace(row.line, name=_said(category)))) for row in found if row.line]
            continue
        if found and len(categories) > 1:
            rows.append(Row(_said(category) or _everywhere(found)))
        rows += [next(best_first) if row in peers else row for row in found]
    return rows


def _wrapped(name: str) -> str:
    return "\n".join(textwrap.wrap(name, LABEL))


def _said(category: float | str) -> str:
    return category if isinstance(category, str) else plain(category)


def _everywhere(rows: list[Row]) -> str:
    published = all(row.line and row.line.whose is Whose.PAPER for row in rows)
    return "as published" if published else "all of these"


def _bar(axes: Axes, place: int, row: Row, result: Result) -> None:
    if row.figure is None or row.look is None or row.line is None:
        return
    spread, look = row.figure, row.look
    hollow = row.line.whose in (Whose.LIMIT, Whose.PAPER)
    if result.log_y:  # a bar's length says nothing where there is no nought
        axes.plot([spread.median], [place], marker="o", markersize=7, color=look.colour, zorder=4)
        axes.axhline(place, color=look.colour, linewidth=0.6, linestyle=(0, (1, 2)), zorder=1)
    else:
        axes.barh(
            place,
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
        axes.errorbar([spread.median], [place], xerr=reach, color=INK, capsize=2.5, elinewidth=1, zorder=5)
    ours = row.line.whose is Whose.TAILRACE
    axes.annotate(
        ranged(spread, result.y),
        xy=(max(spread.most, spread.median), place),
        xytext=(7, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
        fontweight="bold" if ours else "normal",
        annotation_clip=False,
        bbox={"facecolor": GROUND, "edgecolor": "none", "pad": 0.6},
        zorder=6,
    )


def _frame(axes: Axes, rows: list[Row], result: Result) -> None:
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [_wrapped(row.name) for row in rows])
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_fontsize(9)
        if row.line is None or row.line.whose is Whose.TAILRACE:
            label.set_fontweight("bold")
        if row.line is None:
            label.set_fontsize(10)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: ticked(value, result.y)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    if not result.log_y:
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(6))
