"""Trade-offs of PCP's settings: two metrics of runs that differ in one setting, a curve for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from matplotlib import pyplot, rc_context

from rampmeter.figures.figure import Drawing
from rampmeter.figures.style import COLOURS, RULES, note, plain_log
from rampmeter.figures.traces import values
from rampmeter.running import Run

DEFAULTS = {"target": 3.0, "first_window": 10.0, "delay_gain": 0.15, "ceiling": 3.3}
"""The default values of the varied settings, as in `crates/control/src/algorithms/pcp/config.rs`."""


@dataclass(frozen=True)
class Measure:
    """A metric of a run."""

    label: str
    """The label of the axis."""
    workload: str
    """The value of the axis `workload`."""
    of: Callable[[dict[str, Any]], float]
    """Computes the metric from a row of `runs` joined with `links`."""


QUEUE = Measure("mean queue with 50 long-lived flows (packets)", "long", lambda row: row["queue_mean_packets"])
LOADED = Measure("mean completion time at a load of 0.90 (ms)", "load", lambda row: 1e3 * row["fct_mean_s"])
SHORT = Measure("mean completion time of 25 kB (ms)", "short", lambda row: 1e3 * row["fct_mean_s"])
LOSS = Measure(
    "packets lost at a load of 0.90 (%)", "load", lambda row: 100 * row["dropped_packets"] / row["offered_packets"]
)

PANELS = {
    "target": (QUEUE, LOADED),
    "first_window": (SHORT, LOSS),
    "ceiling": (QUEUE, LOADED),
    "delay_gain": (QUEUE, LOADED),
}
"""The metrics of both axes, by setting."""


def draw(result: Run) -> Drawing:
    """Draw a panel for each setting, a point for each value."""
    with rc_context(RULES):
        figure, panels = pyplot.subplots(2, 2, figsize=(8.6, 7.6), layout="constrained")
        for axes, (setting, (across, up)) in zip(panels.flat, PANELS.items(), strict=True):
            points = [
                (value, mean(result, name, across), mean(result, name, up)) for value, name in of(result, setting)
            ]
            axes.plot([x for _, x, _ in points], [y for _, _, y in points], "o-", color=COLOURS["pcp"])
            for value, x, y in points:
                if value == DEFAULTS[setting]:
                    axes.plot(x, y, "o", color=COLOURS["tcp"], markersize=9)
                    near = {"xytext": (-6, -6), "ha": "right", "va": "top", "fontweight": "bold"}
                    axes.annotate(f"{value:g}, default", (x, y), textcoords="offset points", **near)
                else:
                    axes.annotate(f"{value:g}", (x, y), xytext=(7, 5), textcoords="offset points")
            axes.margins(0.15)
            if up is LOSS:
                axes.set_yscale("log")
                plain_log(axes.yaxis)
            axes.set_title(setting)
            axes.set_xlabel(across.label)
            axes.set_ylabel(up.label)
        runs = len(values(result, "seed"))
        note(
            figure,
            "40 Mb/s, round trips of 15 to 35 ms; one setting at a time differs from its default. 0.90: 250 kB "
            "transfers\nat Figure 4's highest load. 25 kB: Figure 10's shortest transfers, at a load of 0.60. The "
            "buffer is 100 packets,\nand 200 for long-lived flows. "
            f"Simulated; {'one run' if runs == 1 else f'means of {runs} runs'} per point.",
        )
    return figure


def of(result: Run, setting: str) -> list[tuple[float, str]]:
    """Return the values of a setting, in order, and the names of their runs: `target_5`, or `default`."""
    found = [(DEFAULTS[setting], "default")]
    for name in values(result, "settings"):
        kind, _, value = name.rpartition("_")
        if kind == setting:
            found.append((float(value), name))
    return sorted(found)


def mean(result: Run, name: str, measure: Measure) -> float:
    """Return the mean of a metric over the seeds, for these settings."""
    rows = result.runs.join(result.links, [*result.about["axes"]]).to_pylist()
    return fmean(measure.of(row) for row in rows if row["settings"] == name and row["workload"] == measure.workload)
