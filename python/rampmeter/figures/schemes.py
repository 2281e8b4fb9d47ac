"""VCP, VCP+ and nine other schemes along an axis: Figures 3 to 9 of the VCP paper.

The lines of VCP, VCP+ and XCP are thick, and named at their ends; those of the eight TCPs are thin and differ in color,
marker and dashes, which a legend explains. Colors are those of Okabe and Ito, and of Tol's `muted` scheme.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor
from statistics import fmean, stdev
from typing import Any

from matplotlib import pyplot, rc_context
from matplotlib.lines import Line2D

from rampmeter.figures.along import number, seeds
from rampmeter.figures.figure import Drawing
from rampmeter.figures.style import RULES, name_lines, note, plain_log
from rampmeter.running import Run, Value

STRONG: dict[str, dict[str, Any]] = {
    "xcp": {"color": "#D55E00", "marker": "s", "linewidth": 2.4, "markersize": 6.5, "zorder": 4},
    "vcp": {"color": "#0072B2", "marker": "o", "linewidth": 2.4, "markersize": 5, "zorder": 5},
    "vcp-plus": {"color": "#CC79A7", "marker": "p", "linewidth": 2.4, "markersize": 5, "zorder": 6},
}
"""The schemes with routers of their own; VCP's smaller markers are visible on XCP's."""

QUIET: dict[str, dict[str, Any]] = {
    name: {"color": color, "marker": marker, "linestyle": dashes, "linewidth": 1.1, "markersize": 4, "zorder": 3}
    for name, color, marker, dashes in [
        ("reno", "#332288", "v", (0, (1, 1))),
        ("sack", "#88CCEE", "^", (0, (4, 1.6))),
        ("hstcp", "#117733", "D", "-"),
        ("htcp", "#999933", "P", (0, (4, 1.6))),
        ("stcp", "#882255", "X", (0, (1, 1))),
        ("fast", "#44AA99", "*", "-"),
        ("bic", "#CC6677", "<", (0, (4, 1.6))),
        ("cubic", "#777777", "d", "-"),
    ]
}
"""The TCPs."""

ALONE: dict[str, dict[str, Any]] = {
    "end-to-end": {"color": "#0072B2", "marker": "o", "linewidth": 2.4, "markersize": 5, "zorder": 5},
    "newreno": {"color": "#88CCEE", "marker": "^", "linestyle": (0, (4, 1.6)), "linewidth": 1.1, "markersize": 4},
    "pcp": {"color": "#E69F00", "marker": "s", "linewidth": 1.6, "markersize": 4, "zorder": 4},
}
"""Hosts over routers that report nothing."""

LOOKS = {**QUIET, **STRONG, **ALONE}

COLOURS = {name: drawn["color"] for name, drawn in LOOKS.items()}

PANELS = ["Bottleneck utilization (%)", "Mean queue (% of the buffer)", "Packets dropped (%)"]

INDEX = "Jain's index"
"""A fourth panel."""

TCPS = "The eight TCPs have RED with ECN, VCP, VCP+ and XCP their own routers."

Point = tuple[float, ...]
"""Results of a run, a number for each panel."""


@dataclass(frozen=True)
class SchemeLines:
    """A drawing of one or more metrics of each run along one axis of the sweep."""

    axis: str
    """The axis's name in the scenario."""
    label: str
    """The label below the panels."""
    note: str
    """The note about the runs."""
    x: Callable[[Value], float] = number
    """A value's place on the axis."""

    def draw(self, *results: Run) -> Drawing:
        """Draw utilization, queue and drops on a logarithmic axis, a line for each scheme."""
        lines = self.lines(results, bottlenecks)
        with rc_context(RULES):
            figure, panels = pyplot.subplots(1, 3, figsize=(11.6, 4.3), layout="constrained")
            for place, (axes, title) in enumerate(zip(panels, PANELS, strict=True)):
                axes.set_xscale("log")
                axes.set_title(title)
                axes.set_xlabel(self.label)
                self.panel(axes, lines, place)
                plain_log(axes.xaxis)
                limit(axes, title)
                self.names(axes, lines, place)
            legend(figure, lines)
            note(figure, self.note_text(results))
        return figure

    def fairness(self, *results: Run) -> Drawing:
        """Draw Jain's index, a line for each scheme."""
        lines = self.lines(results, jain)
        with rc_context(RULES):
            figure, axes = pyplot.subplots(figsize=(8.6, 4.8), layout="constrained")
            axes.set_title("Jain's index of the flows' throughputs")
            axes.set_xlabel(self.label)
            self.panel(axes, lines, 0)
            limit(axes, INDEX)
            self.names(axes, lines, 0)
            legend(figure, lines)
            note(figure, self.note_text(results))
        return figure

    def lines(self, results: Sequence[Run], of: Callable[[Run], list[tuple[dict[str, Any], Point]]]) -> Lines:
        """Return the results of the runs at each place, by scheme: those of `LOOKS` in their order, then others."""
        at: Lines = defaultdict(lambda: defaultdict(list))
        for result in results:
            for where, point in of(result):
                at[where["scheme"]][self.x(where[self.axis])].append(point)
        listed = [*(name for name in LOOKS if name in at), *(name for name in at if name not in LOOKS)]
        return {name: dict(sorted(at[name].items())) for name in listed}

    def panel(self, axes: Any, lines: Lines, place: int) -> None:
        """Draw the lines of one panel."""
        for name, points in lines.items():
            means = [fmean(point[place] for point in found) for found in points.values()]
            bars = [stdev(point[place] for point in found) if len(found) > 1 else 0.0 for found in points.values()]
            shown = bars if any(bars) else None
            axes.errorbar([*points], means, shown, capsize=2, elinewidth=0.8, clip_on=False, **LOOKS.get(name, {}))

    def note_text(self, results: Sequence[Run]) -> str:
        """Write the note about the runs."""
        beyond = " VCP and XCP alone go on to the last points." if len(results) > 1 else ""
        return f"{self.note}\n{TCPS}{beyond} {seeds(results[0])}"

    def names(self, axes: Any, lines: Lines, place: int) -> None:
        """Name the strong lines where they end."""
        # From VCP on: of two that end at the same height the first is named below.
        strong = {name: [*lines[name].items()][-1] for name in reversed(STRONG) if name in lines}
        ends = [(name, x, fmean(point[place] for point in found)) for name, (x, found) in strong.items()]
        name_lines(axes, ends, colors=COLOURS)


Lines = dict[str, dict[float, list[Point]]]
"""The results of each run, by scheme and value of the axis."""


def bottlenecks(result: Run) -> list[tuple[dict[str, Any], Point]]:
    """Return the values of the axes and the three shares of each run in percent, means over its measured links."""
    axes = [*result.about["axes"]]
    found = defaultdict(list)
    for row in result.links.to_pylist():
        found[tuple(row[axis] for axis in axes)].append(row)
    return [
        (
            dict(zip(axes, where, strict=True)),
            (
                100 * fmean(row["utilization"] for row in rows),
                100 * fmean(row["queue_mean_packets"] / row["buffer_packets"] for row in rows),
                100 * fmean(row["dropped_packets"] / max(row["offered_packets"], 1) for row in rows),
            ),
        )
        for where, rows in found.items()
    ]


def jain(result: Run) -> list[tuple[dict[str, Any], Point]]:
    """Return the values of the axes and Jain's index of each run."""
    axes = [*result.about["axes"]]
    return [({axis: row[axis] for axis in axes}, (row["goodput_jain"],)) for row in result.runs.to_pylist()]


def limit(axes: Any, title: str) -> None:
    """Set the limits of a panel: shares of the link and Jain's index end at 1, queues and drops start at 0."""
    if title == PANELS[0]:
        axes.set_ylim(min(80, 10 * floor(axes.dataLim.y0 / 10.01)), 100)
    elif title == INDEX:
        axes.set_ylim(min(0.9, floor(10 * axes.dataLim.y0) / 10), 1)
    else:
        axes.set_ylim(0, max(axes.dataLim.y1 * 1.03, 1))


def legend(figure: Any, lines: Lines) -> None:
    """Name all lines above the panels, strong ones first."""
    listed = [*(name for name in reversed(STRONG) if name in lines), *(name for name in lines if name not in STRONG)]
    handles = [Line2D([], [], label=name, **LOOKS.get(name, {})) for name in listed]
    figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), handlelength=2.6, columnspacing=1.4)
