"""A run directory as one page: description, tables and charts in one self-contained HTML file.

`rampmeter report RUN_DIR` or `python -m rampmeter.report RUN_DIR`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rampmeter.report.charts import completion_times, over_the_sweep
from rampmeter.report.metrics import chosen_metrics, main_metrics
from rampmeter.report.over_time import draw_over_time
from rampmeter.report.page import write_page
from rampmeter.report.sweep import Sweep, UnknownNameError
from rampmeter.report.traces import read_traces
from rampmeter.running import Run

__all__ = ["UnknownNameError", "write"]


def write(
    directory: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    x: str | None = None,
    y: Sequence[str] = (),
    lines: Sequence[str] | None = None,
) -> Path:
    """Write the page of the run in `directory` to `out`, by default its `report.html`, and return the path.

    `x` is the axis to draw along, `y` what to draw (`rampmeter.report.metrics`), `lines` the axes whose values have a
    line each.
    """
    directory = Path(directory)
    if not (directory / "run.json").is_file():
        raise FileNotFoundError(
            f"{directory}: not a run directory; the last line of `rampmeter run` names the directory of its tables"
        )
    if not (directory / "runs.parquet").is_file():
        raise FileNotFoundError(f"{directory}: has no tables yet; repeat the same `rampmeter run` to finish it")
    sweep = Sweep(Run.read(directory), x, lines, f"{directory / 'run.json'}")
    chosen = [metric for name in y for metric in chosen_metrics(sweep, name, directory)] or main_metrics(sweep)
    seen = read_traces(sweep)
    over_time = draw_over_time(seen) if seen else []
    swept = over_the_sweep(sweep, chosen)
    charts = [swept, *over_time] if x is not None or y else [*over_time, swept]  # what was asked for is first
    charts.append(completion_times(sweep))
    path = Path(out) if out is not None else directory / "report.html"
    path.write_text(write_page(sweep, [chart for chart in charts if chart is not None]), encoding="utf-8")
    return path
