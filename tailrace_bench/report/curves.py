"""Lines over a numeric axis, each named at its right end."""

from __future__ import annotations

import textwrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from tailrace_bench.report.style import GROUND, INK, WIDTH, Look, heading, looks, ranged, tag
from tailrace_bench.results import Line, Result
from tailrace_bench.units import plain, ticked

HEIGHT = 4.4
LABEL = 26  # characters of a name on one line
INSIDE = 0.8  # a line that ends left of this share of the axis has its name there
ROOM = 0.07  # of the axis, for the text of a tick


def draw(figure: Figure, result: Result) -> None:
    figure.set_size_inches(WIDTH, HEIGHT)
    axes = figure.add_axes((0.09, 0.125, 0.64, 0.715))
    heading(figure, result.title, result.y, 0.02)
    _scales(axes, result)
    ends = []
    for line, look in zip(result.lines, looks(result.lines), strict=True):
        _stroke(axes, line, look)
        if line.points:
            ends.append((line.points[-1].y.median, line.points[-1].x, _name(line, result.y), look))
    _frame(axes, result)
    _names(figure, axes, ends)


def _name(line: Line, y: str) -> str:
    """A line's name, with its figure if there is but one."""
    if len(line.points) > 1:
        return tag(line)
    figure = ranged(line.points[0].y, y).replace(" ", "\N{NO-BREAK SPACE}")
    return f"{tag(line)}: {figure}"


def _scales(axes: Axes, result: Result) -> None:
    if result.log_x:
        axes.set_xscale("log")
    if result.log_y:
        axes.set_yscale("log")
    axes.set_xlabel(result.x)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: ticked(value, result.y)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x", visible=False)


def _stroke(axes: Axes, line: Line, look: Look) -> None:
    dress: dict[str, Any] = {
        "color": look.colour,
        "linestyle": look.stroke,
        "linewidth": look.width,
        "zorder": look.front,
    }
    if [p.x for p in line.points] == [""]:
        spread = line.points[0].y
        axes.axhline(spread.median, **dress)
        if spread.most > spread.least:
            axes.axhspan(spread.least, spread.most, color=look.colour, alpha=0.14, linewidth=0)
        return
    points = sorted((p for p in line.points if not isinstance(p.x, str)), key=lambda p: float(p.x))
    xs, ys = [float(p.x) for p in points], [p.y.median for p in points]
    least, most = [p.y.least for p in points], [p.y.most for p in points]
    axes.fill_between(xs, least, most, color=look.colour, alpha=0.14, linewidth=0)
    below = [y - low for y, low in zip(ys, least, strict=True)]
    above = [high - y for y, high in zip(ys, most, strict=True)]
    marked: dict[str, Any] = {
        "marker": look.mark,
        "markersize": 9 if look.mark == "*" else 5.5,
        "capsize": 2.5,
        "elinewidth": 1,
    }
    axes.errorbar(xs, ys, yerr=[below, above], **dress, **marked)


def _frame(axes: Axes, result: Result) -> None:
    """Ticks where was measured; a linear axis starts at nought."""
    xs = sorted({float(p.x) for line in result.lines for p in line.points if not isinstance(p.x, str)})
    if not result.log_x:
        axes.set_xlim(left=0)
    if not result.log_y:
        axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(FixedLocator(_apart(axes, xs)))
    axes.xaxis.set_minor_locator(NullLocator())


def _apart(axes: Axes, xs: list[float]) -> list[float]:
    """Those of the numbers that have room for their text, from the largest down."""
    kept: list[float] = []
    for x in reversed(xs):
        if not kept or _across(axes, kept[-1]) - _across(axes, x) > ROOM:
            kept.append(x)
    return kept


def _across(axes: Axes, x: float) -> float:
    """Where a number is on the x axis, as a share of its length."""
    axes.get_xlim()  # settles the scale, which is put off until somebody asks
    return float(axes.transAxes.inverted().transform(axes.transData.transform((x, 1)))[0])


def _names(figure: Figure, axes: Axes, ends: list[tuple[float, float | str, str, Look]]) -> None:
    """Each name beside its line's end, moved up or down until none overlaps another, and tied to it by a thin line."""
    step = 12.5 / (figure.get_figheight() * 72 * axes.get_position().height)  # of one text line, in shares of the axes
    right = axes.get_xlim()[1]
    axes.get_ylim()  # settles the scale, which is put off until somebody asks
    wanted = []
    for y, x, name, look in ends:
        text = textwrap.wrap(name, LABEL)
        at = axes.transAxes.inverted().transform(axes.transData.transform((right if x == "" else x, y)))
        if x != "" and at[0] < INSIDE:
            _inside(axes, "\n".join(text), float(x), y, to_the_left=at[0] > 0.4)
            continue
        wanted.append((float(at[1]), 1.0 if x == "" else float(at[0]), text, look))
    wanted.sort(key=lambda end: end[0])
    tops = _placed([(at, len(text) * step + 0.018) for at, _, text, _ in wanted])
    for (end, across, text, look), place in zip(wanted, tops, strict=True):
        axes.annotate(
            "\n".join(text),
            xy=(across, end),
            xytext=(1.045, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            ha="left",
            va="center",
            fontsize=9,
            color=INK,
            fontweight="bold" if look.front == 4 else "normal",
            annotation_clip=False,
        )
        axes.plot(
            [across, 1.035],
            [end, place],
            transform=axes.transAxes,
            clip_on=False,
            color=look.colour,
            linewidth=0.8,
            zorder=2,
        )


def _inside(axes: Axes, text: str, x: float, y: float, *, to_the_left: bool) -> None:
    axes.annotate(
        text,
        xy=(x, y),
        xytext=(-6 if to_the_left else 6, 6),
        textcoords="offset points",
        ha="right" if to_the_left else "left",
        va="bottom",
        fontsize=8.5,
        bbox={"facecolor": GROUND, "edgecolor": "none", "pad": 0.6, "alpha": 0.85},
        zorder=5,
    )


def _placed(wanted: list[tuple[float, float]]) -> list[float]:
    """Middles of boxes, near those wanted (in rising order) and without overlap, for (middle, height) of each."""
    groups: list[tuple[float, list[float]]] = []  # the middle of a stack of boxes, and their heights
    for middle, height in wanted:
        groups.append((middle, [height]))
        while len(groups) > 1 and _overlap(groups[-2], groups[-1]):
            (a, lower), (b, upper) = groups[-2:]
            share = len(upper) / (len(lower) + len(upper))
            groups[-2:] = [(a * (1 - share) + b * share, lower + upper)]
    found = []
    for middle, heights in groups:
        bottom = max(middle - sum(heights) / 2, -0.05)
        for height in heights:
            found.append(bottom + height / 2)
            bottom += height
    return found


def _overlap(below: tuple[float, list[float]], above: tuple[float, list[float]]) -> bool:
    return below[0] + sum(below[1]) / 2 > above[0] - sum(above[1]) / 2
