"""Draws lines over a numeric axis, each labelled at its right end."""

from __future__ import annotations

import textwrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from tailrace_bench.report.style import GROUND, INK, WIDTH, Look, assign_looks, draw_heading, format_spread, line_label
from tailrace_bench.results import Line, Result
from tailrace_bench.units import format_number, format_tick

HEIGHT = 4.4
LABEL_WIDTH = 26  # characters per line of a label
INNER_LABEL_LIMIT = 0.8  # a line that ends left of this share of the axis is labelled inside the plot
TICK_WIDTH = 0.07  # share of the axis that the text of a tick needs


def draw(figure: Figure, result: Result) -> None:
    figure.set_size_inches(WIDTH, HEIGHT)
    axes = figure.add_axes((0.09, 0.125, 0.64, 0.715))
    draw_heading(figure, result.title, result.y, 0.02)
    _set_scales(axes, result)
    ends = []
    for line, look in zip(result.lines, assign_looks(result.lines), strict=True):
        _draw_line(axes, line, look)
        if line.points:
            ends.append((line.points[-1].y.median, line.points[-1].x, _label(line, result.y), look))
    _set_ticks(axes, result)
    _draw_labels(figure, axes, ends)


def _label(line: Line, y: str) -> str:
    """A line's name, with its figure if it has only one point."""
    if len(line.points) > 1:
        return line_label(line)
    figure = format_spread(line.points[0].y, y).replace(" ", "\N{NO-BREAK SPACE}")
    return f"{line_label(line)}: {figure}"


def _set_scales(axes: Axes, result: Result) -> None:
    if result.log_x:
        axes.set_xscale("log")
    if result.log_y:
        axes.set_yscale("log")
    axes.set_xlabel(result.x)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_number(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_tick(value, result.y)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x", visible=False)


def _draw_line(axes: Axes, line: Line, look: Look) -> None:
    line_style: dict[str, Any] = {
        "color": look.colour,
        "linestyle": look.stroke,
        "linewidth": look.width,
        "zorder": look.front,
    }
    if [p.x for p in line.points] == [""]:
        spread = line.points[0].y
        axes.axhline(spread.median, **line_style)
        if spread.most > spread.least:
            axes.axhspan(spread.least, spread.most, color=look.colour, alpha=0.14, linewidth=0)
        return
    points = sorted((p for p in line.points if not isinstance(p.x, str)), key=lambda p: float(p.x))
    xs, ys = [float(p.x) for p in points], [p.y.median for p in points]
    least, most = [p.y.least for p in points], [p.y.most for p in points]
    axes.fill_between(xs, least, most, color=look.colour, alpha=0.14, linewidth=0)
    below = [y - low for y, low in zip(ys, least, strict=True)]
    above = [high - y for y, high in zip(ys, most, strict=True)]
    marker_style: dict[str, Any] = {
        "marker": look.mark,
        "markersize": 9 if look.mark == "*" else 5.5,
        "capsize": 2.5,
        "elinewidth": 1,
    }
    axes.errorbar(xs, ys, yerr=[below, above], **line_style, **marker_style)


def _set_ticks(axes: Axes, result: Result) -> None:
    """Puts ticks at the measured x values. A linear axis starts at zero."""
    xs = sorted({float(p.x) for line in result.lines for p in line.points if not isinstance(p.x, str)})
    if not result.log_x:
        axes.set_xlim(left=0)
    if not result.log_y:
        axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(FixedLocator(_spaced_ticks(axes, xs)))
    axes.xaxis.set_minor_locator(NullLocator())


def _spaced_ticks(axes: Axes, xs: list[float]) -> list[float]:
    """The numbers whose tick texts do not overlap, chosen from the largest down."""
    kept: list[float] = []
    for x in reversed(xs):
        if not kept or _x_share(axes, kept[-1]) - _x_share(axes, x) > TICK_WIDTH:
            kept.append(x)
    return kept


def _x_share(axes: Axes, x: float) -> float:
    """The position of a number on the x axis, as a share of its length."""
    axes.get_xlim()  # forces matplotlib's lazy autoscale
    return float(axes.transAxes.inverted().transform(axes.transData.transform((x, 1)))[0])


def _draw_labels(figure: Figure, axes: Axes, ends: list[tuple[float, float | str, str, Look]]) -> None:
    """Draws each label next to its line's end, moved up or down to avoid overlaps and connected by a thin line."""
    axes_points = figure.get_figheight() * 72 * axes.get_position().height
    line_height = 12.5 / axes_points  # of one text line, as a share of the axes
    right = axes.get_xlim()[1]
    axes.get_ylim()  # forces matplotlib's lazy autoscale
    anchors = []
    for y, x, name, look in ends:
        text = textwrap.wrap(name, LABEL_WIDTH)
        at = axes.transAxes.inverted().transform(axes.transData.transform((right if x == "" else x, y)))
        if x != "" and at[0] < INNER_LABEL_LIMIT:
            _draw_inner_label(axes, "\n".join(text), float(x), y, to_the_left=at[0] > 0.4)
            continue
        anchors.append((float(at[1]), 1.0 if x == "" else float(at[0]), text, look))
    anchors.sort(key=lambda end: end[0])
    tops = _stack_boxes([(at, len(text) * line_height + 0.018) for at, _, text, _ in anchors])
    for (end, across, text, look), place in zip(anchors, tops, strict=True):
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


def _draw_inner_label(axes: Axes, text: str, x: float, y: float, *, to_the_left: bool) -> None:
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


def _stack_boxes(anchors: list[tuple[float, float]]) -> list[float]:
    """Middles of non-overlapping boxes, close to the wanted (middle, height) in `anchors`, which is sorted."""
    groups: list[tuple[float, list[float]]] = []  # stacks of touching boxes: the middle of the stack, and the heights
    for middle, height in anchors:
        groups.append((middle, [height]))
        while len(groups) > 1 and _overlaps(groups[-2], groups[-1]):
            (a, lower), (b, upper) = groups[-2:]
            share = len(upper) / (len(lower) + len(upper))
            groups[-2:] = [(a * (1 - share) + b * share, lower + upper)]
    middles = []
    for middle, heights in groups:
        bottom = max(middle - sum(heights) / 2, -0.05)
        for height in heights:
            middles.append(bottom + height / 2)
            bottom += height
    return middles


def _overlaps(below: tuple[float, list[float]], above: tuple[float, list[float]]) -> bool:
    return below[0] + sum(below[1]) / 2 > above[0] - sum(above[1]) / 2
