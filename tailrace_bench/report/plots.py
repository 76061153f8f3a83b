"""Draws the plot of a result: lines over a numeric axis, or horizontal bars over categories."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tailrace_bench.report import bars, curves
from tailrace_bench.report.style import SETTINGS
from tailrace_bench.results import Result, Whose


def draw_plot(result: Result, file: Path) -> None:
    """Draws the result into a file. The same result makes the same SVG bytes."""
    with matplotlib.rc_context(rc=cast(Any, SETTINGS)):
        figure = Figure()
        FigureCanvasAgg(figure)  # the layout needs a canvas to measure text
        (curves if has_numeric_axis(result) else bars).draw(figure, result)
        metadata = {"Date": None, "Creator": None, "Title": result.title} if file.suffix == ".svg" else None
        figure.savefig(file, metadata=metadata)


def has_numeric_axis(result: Result) -> bool:
    """Whether the lines that are not from papers have at least two x values, all of them numbers."""
    xs = {p.x for line in result.lines if line.whose is not Whose.PAPER for p in line.points if p.x != ""}
    return len(xs) > 1 and not any(isinstance(x, str) for x in xs)
