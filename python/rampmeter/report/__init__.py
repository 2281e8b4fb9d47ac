"""A run folder as one page: what ran, tables and charts in an HTML file that needs nothing else, not even a network.

`rampmeter report RUN_DIR` or `python -m rampmeter.report RUN_DIR`.
"""

from __future__ import annotations

import os
from pathlib import Path

from rampmeter.report.charts import draw_all
from rampmeter.report.page import write_page
from rampmeter.report.sweep import Sweep
from rampmeter.running import Run

__all__ = ["write"]


def write(folder: str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Path:
    """Write the page of the run in `folder` to `out` (by default `report.html` in the folder) and say where."""
    folder = Path(folder)
    if not (folder / "run.json").is_file():
        raise FileNotFoundError(
            f"{folder}: is no run folder; `rampmeter run` says in its last line where its tables are"
        )
    if not (folder / "runs.parquet").is_file():
        raise FileNotFoundError(f"{folder}: has no tables yet; the same `rampmeter run` goes on where it ended")
    sweep = Sweep(Run.read(folder))
    path = Path(out) if out is not None else folder / "report.html"
    path.write_text(write_page(sweep, draw_all(sweep)), encoding="utf-8")
    return path
