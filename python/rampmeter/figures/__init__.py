"""The papers' figures, drawn from our own runs: `python -m rampmeter.figures pcp.4`.

A few show theory only. To add one: an entry in its paper's file, such as `pcp.py`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rampmeter.figures import cm, comparison, pcp, rivals, stable, style, vcp
from rampmeter.figures.figure import Figure, studies
from rampmeter.running import run

__all__ = ["FIGURES", "Figure", "draw", "papers"]

FIGURES: dict[str, Figure] = {
    **pcp.FIGURES,
    **cm.FIGURES,
    **vcp.FIGURES,
    **stable.FIGURES,
    **comparison.FIGURES,
    **rivals.FIGURES,
}
"""Every figure by its name: the paper, a dot, its number in the paper or its subject."""


def draw(
    name: str,
    out: Path,
    *,
    quick: bool = False,
    whole: bool = False,
    seeds: int | None = None,
    directory: Path | None = None,
    jobs: int | None = None,
) -> list[Path]:
    """Run the figure's scenarios, if any, draw it into the directory `out` as PNG and SVG, and return the paths.

    A table is also written as text.

    The scenarios are in `directory`, by default `studies` of a checkout that is here or above. `quick` uses fewer
    points than the figure, `whole` all points of its scenarios. `jobs` is the number of runs in parallel. Their
    tables are kept in `out/runs`: an interrupted or repeated drawing resumes from them.
    """
    figure = FIGURES[name]
    results = []
    for scenario, axes in figure.sweeps(quick=quick, whole=whole, seeds=seeds):
        path = (directory or studies()) / scenario
        kept = out / "runs" / f"{path.parent.name}-{path.stem}-{_short_hash(path, figure.world, axes)}"
        results.append(run(path, figure.world, axes=axes, out=kept, jobs=jobs))
    paths = style.save(figure.draw(*results), out, name)
    if figure.text is not None:
        paths.append(out / f"{name}.txt")
        paths[-1].write_text(figure.text(*results), encoding="utf-8")
    return paths


def papers() -> dict[str, list[str]]:
    """Return the names of each paper's figures."""
    found: dict[str, list[str]] = {}
    for name in FIGURES:
        found.setdefault(name.split(".")[0], []).append(name)
    return found


def _short_hash(path: Path, world: str, axes: Mapping[str, Any]) -> str:
    """Identify the run of a directory, so that a different run gets another directory."""
    scenario = path.read_text(encoding="utf-8") if path.exists() else ""  # the run reports a missing file
    text = json.dumps([scenario, world, sorted(axes.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:8]
