"""The papers' figures, drawn from our own runs: `python -m rampmeter.figures pcp.4`.

A few are of theory alone. To add one: an entry in its paper's file, such as `pcp.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rampmeter.figures import cm, pcp, style, vcp
from rampmeter.figures.figure import Figure, studies
from rampmeter.running import run

__all__ = ["FIGURES", "Figure", "draw"]

FIGURES: dict[str, Figure] = {**pcp.FIGURES, **cm.FIGURES, **vcp.FIGURES}
"""Every figure by its name: the paper, a dot, the number there."""


def draw(
    name: str,
    out: Path,
    *,
    quick: bool = False,
    seeds: int | None = None,
    folder: Path | None = None,
    jobs: int | None = None,
) -> list[Path]:
    """Run the figure's scenarios, if it has any, draw it into the folder `out` as PNG and SVG, and give their paths.

    The scenarios are in `folder`, by default the folder `studies` of a checkout that is here or above. `jobs` runs take
    place at once. Real packets take their time, so what they showed stays beside the figure, and an interrupted drawing
    goes on from there.
    """
    figure = FIGURES[name]
    axes: dict[str, Any] = dict(figure.quick) if quick else {}
    if seeds is not None:
        axes["seed"] = list(range(1, seeds + 1))
    kept = None
    if figure.world == "emulated":
        kept = out / (f"{name}-quick-runs" if quick else f"{name}-runs")
    results = [
        run((folder or studies()) / scenario, figure.world, out=kept, jobs=jobs, **axes)
        for scenario in figure.scenarios
    ]
    return style.save(figure.draw(*results), out, name)
