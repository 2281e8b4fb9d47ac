"""The papers' figures, drawn from our own runs: `python -m rampmeter.figures pcp.4`.

To add one: an entry in its paper's file, `pcp.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rampmeter.figures import pcp, style
from rampmeter.figures.figure import Figure, studies
from rampmeter.running import run

__all__ = ["FIGURES", "Figure", "draw"]

FIGURES: dict[str, Figure] = {**pcp.FIGURES}
"""Every figure by its name: the paper, a dot, the number there."""


def draw(
    name: str, out: Path, *, quick: bool = False, seeds: int | None = None, folder: Path | None = None
) -> list[Path]:
    """Run the figure's scenario, draw it into the folder `out` as PNG and SVG, and give their paths.

    The scenario is in `folder`, by default the folder `studies` of a checkout that is here or above.
    """
    figure = FIGURES[name]
    axes: dict[str, Any] = dict(figure.quick) if quick else {}
    if seeds is not None:
        axes["seed"] = list(range(1, seeds + 1))
    return style.save(figure.draw(run((folder or studies()) / figure.scenario, **axes)), out, name)
