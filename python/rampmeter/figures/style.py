"""How figures look: a colour for each scheme, names beside the lines, the same bytes every time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

COLOURS = {
    "pcp": "#0072B2",
    "tcp": "#D55E00",
    "fq": "#009E73",
    "pcp-fifo": "#56B4E9",
    "tcp-fifo": "#E69F00",
}
"""Colours that colour-blind readers tell apart (Okabe and Ito, 2008)."""

MARKERS = {"pcp": "o", "tcp": "s", "fq": "^", "pcp-fifo": "D", "tcp-fifo": "v"}

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
    "svg.hashsalt": "rampmeter",  # or else the names inside an SVG differ from one drawing to the next
}


def name_lines(axes: Any, ends: Sequence[tuple[str, float, float]], gap: float = 0.085) -> None:
    """Write each line's name right of its last point, `(name, x, y)`, at least `gap` of the axes' height apart."""
    to_height = axes.transData + axes.transAxes.inverted()
    lowest = -1.0
    for name, x, y in sorted(ends, key=lambda end: end[2]):
        lowest = max(to_height.transform((x, y))[1], lowest + gap)
        axes.annotate(
            name,
            xy=(x, lowest),
            xycoords=("data", "axes fraction"),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            color=COLOURS.get(name, "black"),
            fontweight="bold",
            annotation_clip=False,
        )


def save(figure: Any, folder: Path, name: str) -> list[Path]:
    """Write `figure` as PNG and SVG, without a date in them, and say where."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    with matplotlib.rc_context(RULES):
        figure.savefig(paths[0], metadata={"Software": None})
        figure.savefig(paths[1], metadata={"Date": None})
    return paths
