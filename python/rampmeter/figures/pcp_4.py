"""PCP's Figure 4: short transfers on a shared link, by PCP, by TCP and with routers that divide it fairly."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean, stdev
from typing import Any

from matplotlib import pyplot, rc_context

from rampmeter.figures.figure import Figure
from rampmeter.figures.style import RULES, look, name_lines, plain_log
from rampmeter.running import Run

PANELS = [
    ("Mean response (ms)", "response_mean_s", 1e3, "log"),
    ("Standard deviation of the response (ms)", "response_sd_s", 1e3, "log"),
    ("Mean queue (packets)", "queue_mean_packets", 1.0, "linear"),
    ("Packets lost (%)", "drop_share", 1e2, "linear"),
]
"""Title, column, what to multiply it by, and the axis."""

SETTING = (
    "250 kB transfers, Poisson arrivals, 40 Mb/s, round trips of 15 to 35 ms, a drop-tail buffer of 100 packets.\n"
    "tcp is as in the paper: NewReno with an initial window of one packet and acknowledgements delayed by 200 ms.\n"
    "fq has a router without a limit that tells each flow its fair share."
)


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
                shown = bars if any(bars) else None
                axes.errorbar(loads, means, shown, capsize=2.5, elinewidth=1, clip_on=False, **look(scheme))
                ends.append((scheme, loads[-1], means[-1]))
            axes.set_title(title)
            if axis == "log":
                axes.set_yscale("log")
                plain_log(axes.yaxis)
            else:
                axes.set_ylim(bottom=0)
            name_lines(axes, ends)
        for axes in panels[1]:
            axes.set_xlabel("offered load (% of the link)")
            axes.set_xticks(sorted({100 * row["load"] for row in rows}))
        seeds = len(set(result.runs["seed"].to_pylist()))
        bars_are = f"bars are the standard deviation over {seeds} seeds" if seeds > 1 else "one run of each point"
        note = f"{SETTING}\nSimulated; {bars_are}."
        figure.supxlabel(note, fontsize=8.5, x=0.01, ha="left")
    return figure


FIGURE = Figure(
    title="Response, its deviation, queue and loss against offered load (PCP, Figure 4)",
    scenario="pcp/offered_load.toml",
    quick={"seed": [1, 2]},
    draw=draw,
)
