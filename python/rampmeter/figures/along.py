"""Four panels along one axis, as in most figures of PCP: completion time, its deviation, queue, loss."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean, stdev

from matplotlib import pyplot, rc_context
from matplotlib.ticker import NullFormatter

from rampmeter.figures.figure import Drawing
from rampmeter.figures.style import RULES, look, name_lines, plain_log
from rampmeter.running import Run, Value

PANELS = [
    ("Mean flow completion time (ms)", "fct_mean_s", 1e3),
    ("Its standard deviation (ms)", "fct_sd_s", 1e3),
    ("Mean queue (packets)", "queue_mean_packets", 1.0),
    ("Packets lost in the queue (%)", "drop_share", 1e2),
]
"""Title, column and factor of each panel. Times have a logarithmic axis."""


@dataclass(frozen=True)
class Along:
    """A drawing along one axis of the sweep."""

    axis: str
    """The axis's name in the scenario."""
    label: str
    """The label below the panels."""
    note: str
    """The note about the runs."""
    unit: float = 1.0
    """The factor of the axis's values."""
    log: bool = False
    """Whether the axis is logarithmic."""

    def draw(self, result: Run) -> Drawing:
        """Draw the four panels, a line for each scheme."""
        rows = result.runs.join(result.links, [*result.about["axes"]]).to_pylist()
        for row in rows:
            row["drop_share"] = row["dropped_packets"] / max(row["offered_packets"], 1)
            row["x"] = self.unit * number(row[self.axis])
        schemes = list(dict.fromkeys(row["scheme"] for row in rows))
        with rc_context(RULES):
            figure, panels = pyplot.subplots(2, 2, figsize=(8.6, 6.4), sharex=True, layout="constrained")
            for axes, (title, column, unit) in zip(panels.flat, PANELS, strict=True):
                if self.log:
                    axes.set_xscale("log")
                if unit == 1e3:
                    axes.set_yscale("log")
                ends = []
                for scheme in schemes:
                    at = defaultdict(list)
                    for row in rows:
                        if row["scheme"] == scheme and row[column] is not None:
                            at[row["x"]].append(unit * row[column])
                    if not at:
                        continue
                    places = sorted(at)
                    means = [fmean(at[place]) for place in places]
                    bars = [stdev(at[place]) if len(at[place]) > 1 else 0.0 for place in places]
                    shown = bars if any(bars) else None
                    axes.errorbar(places, means, shown, capsize=2.5, elinewidth=1, clip_on=False, **look(scheme))
                    ends.append((scheme, places[-1], means[-1]))
                axes.set_title(title)
                if unit == 1e3:
                    plain_log(axes.yaxis)
                else:
                    axes.set_ylim(bottom=0)
                name_lines(axes, ends)
            for axes in panels[1]:
                axes.set_xlabel(self.label)
                ticks = sorted({row["x"] for row in rows})
                axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
                axes.xaxis.set_minor_formatter(NullFormatter())
            figure.supxlabel(f"{self.note}\n{seeds(result)}", fontsize=8.5, x=0.01, ha="left")
        return figure


def number(value: Value) -> float:
    """Read a number, or the one that a quantity such as "25 ms" or a name such as "25ms" begins with."""
    if not isinstance(value, str):
        return float(value)
    found = re.match(r"[-+]?[\d.]+", value)
    if found is None:
        raise ValueError(f"`{value}` must begin with a number, for example 25 ms")
    return float(found[0])


def mbps(rate: Value) -> float:
    """Read a rate such as "500 kb/s", in Mb/s."""
    return number(rate) * {"kb/s": 1e-3, "Mb/s": 1.0, "Gb/s": 1e3}[str(rate).split()[1]]


def seeds(result: Run) -> str:
    """Describe the number of runs per point."""
    count = len(result.about["axes"]["seed"])
    if count == 1:
        return "Simulated, one run per point."
    return f"Simulated; bars are the standard deviation over {count} seeds."
