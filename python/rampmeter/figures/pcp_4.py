"""PCP's Figure 4: short transfers on a shared link, by PCP, by TCP and with routers that divide it fairly."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean, stdev
from typing import Any

from matplotlib import pyplot, rc_context

from rampmeter.figures.figure import Figure
from rampmeter.figures.style import COLOURS, MARKERS, RULES, name_lines
from rampmeter.running import Run

PANELS = [
    ("Mean response (ms)", "response_mean_s", 1e3, "log"),
    ("Standard deviation of the response (ms)", "response_sd_s", 1e3, "log"),
    ("Mean queue (packets)", "queue_mean_packets", 1.0, "linear"),
    ("Packets lost (%)", "drop_share", 1e2, "linear"),
]
"""Title, column, what to multiply it by, and the axis."""

SETTING = "250 kB transfers, Poisson arrivals, 40 Mb/s, round trips of 15 to 35 ms, a drop-tail buffer of 100 packets."


def draw(result: Run) -> Any:
    """Draw the four panels."""
    keys = ["scheme", "load", "seed"]
    rows = result.runs.join(result.links, keys).to_pylist()
    for row in rows:
        row["drop_share"] = row["dropped_packets"] / row["offered_packets"]
    schemes = list(dict.fromkeys(result.runs["scheme"].to_pylist()))
    with rc_context(RULES):
        figure, panels = pyplot.subplots(2, 2, figsize=(8.6, 6.2), sharex=True, layout="constrained")
        for axes, (title, column, unit, axis) in zip(panels.flat, PANELS, strict=True):
            ends = []
            for scheme in schemes:
                by_load = defaultdict(list)
                for row in rows:
                    if row["scheme"] == scheme and row[column] is not None:
                        by_load[100 * row["load"]].append(unit * row[column])
                loads = sorted(by_load)
                means = [fmean(by_load[load]) for load in loads]
                bars = [stdev(by_load[load]) if len(by_load[load]) > 1 else 0.0 for load in loads]
                look = {"color": COLOURS.get(scheme), "marker": MARKERS.get(scheme)}
                axes.errorbar(loads, means, bars, capsize=2.5, elinewidth=1, **look)
                ends.append((scheme, loads[-1], means[-1]))
            axes.set_title(title)
            axes.set_yscale(axis)
            if axis == "log":
                axes.yaxis.set_major_formatter("{x:,.0f}")
            else:
                axes.set_ylim(bottom=0)
            name_lines(axes, ends)
        for axes in panels[1]:
            axes.set_xlabel("offered load (% of the link)")
            axes.set_xticks(sorted({100 * row["load"] for row in rows}))
        seeds = len(set(result.runs["seed"].to_pylist()))
        note = f"{SETTING}\nSimulated; bars are the standard deviation over {seeds} seeds."
        figure.supxlabel(note, fontsize=8.5, x=0.01, ha="left")
    return figure


FIGURE = Figure(
    title="Response, its deviation, queue and loss against offered load (PCP, Figure 4)",
    scenario="pcp/offered_load.toml",
    quick={"seed": [1, 2]},
    draw=draw,
)
