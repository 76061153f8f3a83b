"""A result as a plot: lines over numbers, or horizontal bars over categories."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tailrace_bench.report import bars, curves
from tailrace_bench.report.style import SETTINGS
from tailrace_bench.results import Result, Whose


def plot(result: Result, file: Path) -> None:
    """Draw the result into a file; the same result makes the same bytes of SVG."""
    with matplotlib.rc_context(rc=cast(Any, SETTINGS)):
        figure = Figure()
        FigureCanvasAgg(figure)  # measures text while the figure is laid out
        (curves if over_numbers(result) else bars).draw(figure, result)
        metadata = {"Date": None, "Creator": None, "Title": result.title} if file.suffix == ".svg" else None
        figure.savefig(file, metadata=metadata)


def over_numbers(result: Result) -> bool:
    """Whether the x of what was measured here are numbers, at least two of them."""
    xs = {p.x for line in result.lines if line.whose is not Whose.PAPER for p in line.points if p.x != ""}
    return len(xs) > 1 and not any(isinstance(x, str) for x in xs)
