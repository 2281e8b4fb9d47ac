"""The style of figures: a color for each scheme, names at the ends of lines, reproducible files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from textwrap import wrap
from typing import Any

import matplotlib
from matplotlib import pyplot
from matplotlib.ticker import LogLocator, NullFormatter

from rampmeter.figures.figure import Drawing

matplotlib.use("Agg")

COLOURS = {
    "pcp": "#0072B2",
    "pcp-one": "#8C564B",
    "pcp-paper": "#CC79A7",
    "cubic": "#666666",
    "bbr": "#000000",
    "tcp": "#D55E00",
    "fq": "#009E73",
    "pcp-fifo": "#56B4E9",
    "tcp-fifo": "#E69F00",
    "tcp-short-timers": "#E69F00",
    "four-pcp": "#56B4E9",
    "tcp-sack": "#D55E00",
    "linux-cubic": "#CC79A7",
    "linux-bbr": "#000000",
}
"""Colors that color-blind readers can distinguish (Okabe and Ito, 2008)."""

MARKERS = {
    "pcp": "o",
    "pcp-one": "p",
    "pcp-paper": "X",
    "cubic": "P",
    "bbr": "h",
    "tcp": "s",
    "fq": "^",
    "pcp-fifo": "D",
    "tcp-fifo": "v",
    "tcp-short-timers": "v",
    "tcp-sack": "s",
    "linux-cubic": "P",
    "linux-bbr": "X",
}

OTHER_MARKERS = ["P", "X", "<", ">", "p", "h", "*", "d", "8", "H"]
"""Markers for lines without a marker of their own."""

DASHES = {"fq": (0, (4, 1.6)), "four-pcp": (0, (4, 1.6))}
"""Schemes that are bounds: dashed, so that a line below stays visible."""

RULES: Any = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlepad": 10,
    "font.size": 9.5,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "savefig.dpi": 160,
    "svg.hashsalt": "rampmeter",  # makes the names inside an SVG reproducible
}


def look(name: str) -> dict[str, Any]:
    """Return a scheme's color, marker and dashes; a dashed line's markers are open and lie on top."""
    marked = {"color": COLOURS.get(name), "marker": MARKERS.get(name, "D")}
    if name not in DASHES:
        return marked
    return {**marked, "linestyle": DASHES[name], "markerfacecolor": "white", "markersize": 6.5, "zorder": 3}


def markers(names: Iterable[str]) -> dict[str, str]:
    """Choose a marker for each name: its own if it has one, and different ones as far as possible."""
    listed = list(dict.fromkeys(names))
    known = {name: MARKERS[name] for name in listed if name in MARKERS}
    free = cycle(marker for marker in [*OTHER_MARKERS, *MARKERS.values()] if marker not in known.values())
    return {name: known.get(name) or next(free) for name in listed}


def plain_log(axis: Any) -> None:
    """Write plain numbers at a logarithmic axis: 1, 2 and 5 of each decade within two of them, or else 1."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high <= 100 * low else (1.0,), numticks=20))
    axis.set_major_formatter(lambda value, _place: f"{value:,.10g}")
    axis.set_minor_formatter(NullFormatter())


def name_lines(
    axes: Any,
    ends: Sequence[tuple[str, float, float]],
    gap: float = 0.085,
    colors: Mapping[str, str] = COLOURS,
) -> None:
    """Write each line's name right of its last point, `(name, x, y)`, at least `gap` of the axes' height apart."""
    to_height = axes.transData + axes.transAxes.inverted()
    ends = sorted(ends, key=lambda end: end[2])
    heights: list[float] = []
    for _, x, y in ends:
        heights.append(
            max(to_height.transform((x, y))[1], heights[-1] + gap if heights else 0.035)
        )  # not on the axis itself
    ceiling = 1.0
    for place in reversed(range(len(heights))):
        heights[place] = min(heights[place], ceiling)
        ceiling = heights[place] - gap
    for (name, x, _), height in zip(ends, heights, strict=True):
        axes.annotate(
            name,
            xy=(x, height),
            xycoords=("data", "axes fraction"),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            color=colors.get(name, "black"),
            fontweight="bold",
            annotation_clip=False,
        )


def note(figure: Drawing, text: str) -> None:
    """Write a note below the panels, in lines as long as the figure is wide."""
    letters = int(15 * figure.get_figwidth())  # of 8.5 points, in an inch
    lines = [line for part in text.split("\n") for line in wrap(part, letters)]
    figure.supxlabel("\n".join(lines), fontsize=8.5, x=0.01, ha="left")


def save(figure: Drawing, directory: Path, name: str) -> list[Path]:
    """Write `figure` as PNG and SVG, without dates, close it, and return the paths."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / f"{name}.png", directory / f"{name}.svg"]
    with matplotlib.rc_context(RULES):
        _settle(figure)
        figure.savefig(paths[0], metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None})
    pyplot.close(figure)
    return paths


def _settle(figure: Drawing) -> None:
    """Fix the layout: the last digits of a layout, and so names in an SVG, differ between drawings."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(float(each), 6) for each in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))
