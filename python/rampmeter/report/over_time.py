"""The charts of flows and links over time: a column for each line of the sweep, a row for each quantity."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
from matplotlib import pyplot
from matplotlib.lines import Line2D

from rampmeter.figures.figure import Drawing
from rampmeter.report.charts import WIDTH, Chart, add_legend, colors, save
from rampmeter.report.traces import Traces
from rampmeter.tables import Row, grouped

MAX_FLOWS = 6
"""The maximum number of flows that each have a line."""

MAX_COLUMNS = 3
"""The maximum number of lines of the sweep in one chart."""

MAX_CHARTS = 4

THIN: Any = {"linewidth": 0.8, "alpha": 0.85}


def draw_over_time(seen: Traces) -> list[Chart]:
    """Draw charts of a few lines of the sweep each."""
    lines = list(dict.fromkeys([*seen.flows, *seen.links]))
    parts = [lines[n : n + MAX_COLUMNS] for n in range(0, len(lines), MAX_COLUMNS)][:MAX_CHARTS]
    note = f"Samples at {seen.place}. Goodput and sent bytes are averaged over the last {seen.width:.3g} s; losses and "
    note += "timeouts (crosses) are those since the sample before."
    if any(len(seen.flows.get(line, {})) > MAX_FLOWS for part in parts for line in part):
        note += f" Of more than {MAX_FLOWS} flows: a band holds 80% of those of a traffic, and its thick line is their "
        note += "median. Of one traffic, thin lines are the flows that delivered least (red), the median and most "
        note += "(green). Losses are their sum."
    left_out = len(lines) - sum(map(len, parts))
    if left_out:
        note += f" {left_out} more lines of the sweep are left out."
    return [save("Over time", note, partial(arrange, seen, part)) for part in parts]


def arrange(seen: Traces, lines: list[str]) -> Drawing:
    """Arrange a column of panels for each line, with one axis of time."""
    panels = list(seen.panels())
    few = [name for line in lines if len(seen.flows.get(line, {})) <= MAX_FLOWS for name in seen.flows.get(line, {})]
    looks = colors(few)
    many = [line for line in lines if len(seen.flows.get(line, {})) > MAX_FLOWS]
    bands = colors(seen.traffic[name] for line in many for name in seen.flows[line])
    height = 1.15 * len(panels) + 0.6
    figure, drawn = pyplot.subplots(
        len(panels), len(lines), sharex=True, sharey="row", squeeze=False, layout="constrained", figsize=(WIDTH, height)
    )
    for place, (line, column) in enumerate(zip(lines, drawn.T, strict=True)):
        flows = seen.flows.get(line, {})
        for (title, link, name, factor), axes in zip(panels, column, strict=True):
            if link is not None:
                draw_lines(axes, {link: seen.links[line].get(link, [])}, name, factor, {link: "#444444"})
            elif name == "lost":
                draw_losses(axes, flows, looks)
            elif len(flows) > MAX_FLOWS:
                draw_bands(axes, grouped_flows(flows, seen.traffic), name, factor, bands)
            else:
                draw_lines(axes, flows, name, factor, looks)
            axes.tick_params(labelsize=8)
            if place == 0:
                axes.set_ylabel(title.replace(": ", ":\n").replace(" (", "\n("), fontsize=8.5)
        column[0].set_title(line, pad=6)
        column[-1].set_xlabel("time (s)")
    # Once all is drawn: a limit that is set keeps the other one from growing.
    for (_title, _link, name, _factor), row in zip(panels, drawn, strict=True):
        row[0].set_xlim(left=0)
        if name != "smoothed_rtt_s":  # its changes are small beside the propagation delay
            row[0].set_ylim(bottom=0)
    figure.align_ylabels()
    legend = (looks if len(looks) > 1 else {}) | (bands if len(bands) > 1 else {})
    if legend:
        add_legend(figure, [Line2D([], [], color=color) for color in legend.values()], list(legend))
    return figure


def points(samples: Iterable[Row], column: str, factor: float) -> tuple[list[float], list[float]]:
    """Return times and values."""
    kept = [row for row in samples if row[column] is not None]
    return [row["time_s"] for row in kept], [factor * row[column] for row in kept]


def draw_lines(axes: Any, traces: dict[str, list[Row]], column: str, factor: float, looks: dict[str, str]) -> None:
    """Draw a thin line for each flow or link."""
    for name, samples in traces.items():
        axes.plot(*points(samples, column, factor), color=looks[name], **THIN)


def grouped_flows(flows: dict[str, list[Row]], traffic: dict[str, str]) -> dict[str, dict[str, list[Row]]]:
    """Gather the flows of each traffic."""
    found: dict[str, dict[str, list[Row]]] = {}
    for name, samples in flows.items():
        found.setdefault(traffic[name], {})[name] = samples
    return found


def draw_bands(
    axes: Any, by_traffic: dict[str, dict[str, list[Row]]], column: str, factor: float, looks: dict[str, str]
) -> None:
    """Draw a band for each traffic. Three flows have lines if there is one traffic."""
    for traffic, flows in by_traffic.items():
        if len(by_traffic) > 1:
            draw_band(axes, flows, column, factor, looks[traffic])
        else:
            draw_band(axes, flows, column, factor, "#0072B2")
            draw_three(axes, flows, column, factor)


def draw_band(axes: Any, flows: dict[str, list[Row]], column: str, factor: float, color: str) -> None:
    """Draw the quantiles of many flows."""
    at_time = grouped(
        (row for samples in flows.values() for row in samples if row[column] is not None), lambda row: row["time_s"]
    )
    if not at_time:
        return
    times = sorted(at_time)
    low, middle, high = np.transpose(
        [np.quantile([factor * row[column] for row in at_time[time]], [0.1, 0.5, 0.9]) for time in times]
    )
    axes.fill_between(times, low, high, color=color, alpha=0.2, linewidth=0)
    axes.plot(times, middle, color=color, linewidth=1.3)


def draw_three(axes: Any, flows: dict[str, list[Row]], column: str, factor: float) -> None:
    """Draw the flows that delivered least, the median and most."""
    ordered = sorted(flows.values(), key=lambda samples: samples[-1]["delivered_bytes"])
    for samples, color in [(ordered[0], "#D55E00"), (ordered[len(ordered) // 2], "#777777"), (ordered[-1], "#009E73")]:
        axes.plot(*points(samples, column, factor), color=color, linewidth=0.8, alpha=0.8)


def draw_losses(axes: Any, flows: dict[str, list[Row]], looks: dict[str, str]) -> None:
    """Draw the losses of each sample, those of a few flows beside each other, and timeouts as marks above them."""
    shown = flows if len(flows) <= MAX_FLOWS else {"": [row for samples in flows.values() for row in samples]}
    for n, (name, samples) in enumerate(shown.items()):
        at_time = grouped(samples, lambda row: row["time_s"])
        times = sorted(at_time)
        apart = (times[1] - times[0]) * n / len(shown) if len(times) > 1 else 0.0
        counts = [(time - apart, sum(row["lost"] for row in at_time[time])) for time in times]
        lost = [(time, count) for time, count in counts if count]
        marks = [time - apart for time in times if any(row["timed_out"] for row in at_time[time])]
        color = looks.get(name, "#444444")
        axes.vlines([time for time, _ in lost], 0, [count for _, count in lost], color=color, linewidth=0.8)
        axes.plot(
            marks,
            [0.92 - 0.13 * n] * len(marks),
            "x",
            color=color,
            markersize=4.5,
            transform=axes.get_xaxis_transform(),
        )
