"""A run directory as one page: description, tables and charts in one self-contained HTML file.

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


def write(directory: str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Path:
    """Write the page of the run in `directory` to `out`, by default its `report.html`, and return the path."""
    directory = Path(directory)
    if not (directory / "run.json").is_file():
        raise FileNotFoundError(
            f"{directory}: not a run directory; the last line of `rampmeter run` names the directory of its tables"
        )
    if not (directory / "runs.parquet").is_file():
        raise FileNotFoundError(f"{directory}: has no tables yet; repeat the same `rampmeter run` to finish it")
    sweep = Sweep(Run.read(directory))
    path = Path(out) if out is not None else directory / "report.html"
    path.write_text(write_page(sweep, draw_all(sweep)), encoding="utf-8")
    return path
