"""The style of the plots: colours for colour-blind readers, on a background for light and dark pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from tailrace_bench.results import Line, Spread, Whose
from tailrace_bench.units import format_figure

GROUND, INK, QUIET, FAINT = "#fcfcfa", "#1f2328", "#57606a", "#d8dadd"
WIDTH = 8.4  # inches; about the width of a page on GitHub

SETTINGS: dict[str, Any] = {
    "svg.hashsalt": "tailrace",  # reproducible ids: the same figures make the same bytes
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "Helvetica"],
    "font.size": 10,
    "figure.facecolor": GROUND,
    "axes.facecolor": GROUND,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}

_COLOURS = {
    Whose.TAILRACE: ("#0062a8", "#d1480a", "#00805c", "#a2348a", "#1a1a1a", "#3fa7e0"),
    Whose.PEER: ("#a88a4a", "#7c8fa6", "#b98484", "#7f9e7a", "#a08bb8", "#9c9c64", "#6fa3a3", "#b88fa8"),
    Whose.LIMIT: ("#6e7276",),
    Whose.PAPER: ("#4a3f35",),
}
_STROKES = {Whose.TAILRACE: "-", Whose.PEER: "-", Whose.LIMIT: (0, (6, 3)), Whose.PAPER: (0, (1, 2))}
_MARKS = {Whose.TAILRACE: "os^Dv", Whose.PEER: "sDv^P", Whose.LIMIT: "_", Whose.PAPER: "*"}
_WIDTHS = {Whose.TAILRACE: 2.6, Whose.PEER: 1.6, Whose.LIMIT: 1.6, Whose.PAPER: 1.8}


@dataclass(frozen=True)
class Look:
    colour: str
    stroke: Any
    mark: str
    width: float
    front: int


def assign_looks(lines: tuple[Line, ...]) -> list[Look]:
    """A look for each line, by its origin and its position among the lines of that origin."""
    seen: dict[Whose, int] = {}
    assigned = []
    for line in lines:
        number = seen.get(line.whose, 0)
        seen[line.whose] = number + 1
        colours, marks = _COLOURS[line.whose], _MARKS[line.whose]
        front = 4 if line.whose is Whose.TAILRACE else 3
        look = (_STROKES[line.whose], marks[number % len(marks)], _WIDTHS[line.whose])
        assigned.append(Look(colours[number % len(colours)], *look, front))
    return assigned


def draw_heading(figure: Figure, title: str, subtitle: str, left: float) -> None:
    """Draws the title, and below it what the plot measures."""
    height = figure.get_figheight()
    figure.text(left, 1 - 0.26 / height, title, fontweight="bold", fontsize=11.5, va="center")
    figure.text(left, 1 - 0.50 / height, subtitle, fontsize=9.5, va="center", color=QUIET)


def format_spread(spread: Spread, y: str) -> str:
    """The median of a measurement, or the range of a published figure, which has no runs."""
    if spread.runs or spread.least == spread.most:
        return format_figure(spread.median, y)
    return format_range(spread, y)


def format_range(spread: Spread, y: str) -> str:
    """The least and the most value, with the unit once if both have the same."""
    least, most = format_figure(spread.least, y), format_figure(spread.most, y)
    if least == most:
        return most
    number, _, unit = least.rpartition(" ")
    return f"{number if number and most.endswith(' ' + unit) else least} to {most}"


def line_label(line: Line) -> str:
    """A line's name, with its origin if the name does not say it."""
    suffix = {Whose.LIMIT: " (limit)", Whose.PAPER: " (paper)"}.get(line.whose, "")
    return line.name + ("" if suffix.strip(" ()") in line.name.lower() else suffix)
