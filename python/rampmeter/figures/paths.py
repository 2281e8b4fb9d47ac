"""Two figures with real packets: completion times over many paths, and by size on one path."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from matplotlib import pyplot, rc_context

from rampmeter.figures.figure import Drawing
from rampmeter.figures.style import RULES, look, name_lines, plain_log
from rampmeter.running import Run


@dataclass(frozen=True)
class Paths:
    """The distribution of the mean completion time over the values of the axis `path`, a curve for each `sender`."""

    note: str
    """The note about the runs."""

    def draw(self, result: Run) -> Drawing:
        """Draw the fraction of paths on which transfers took no longer, a step for each path."""
        means = defaultdict(list)
        for row in result.runs.to_pylist():
            if row["fct_mean_s"] is not None:
                means[row["sender"]].append(row["fct_mean_s"])
        paths = len(result.about["axes"]["path"])
        with rc_context(RULES):
            figure, axes = pyplot.subplots(figsize=(7.6, 4.8), layout="constrained")
            for sender, values in means.items():
                drawn = {**look(sender), "marker": None}
                shares = [100 * place / paths for place in range(len(values) + 1)]
                axes.step([min(values), *sorted(values)], shares, where="post", label=sender, **drawn)
            axes.set_xscale("log")
            plain_log(axes.xaxis)
            axes.set_ylim(0, 100)
            axes.set_title("Paths on which the mean completion time is no longer (%)")
            axes.set_xlabel("mean flow completion time (s)")
            axes.legend(loc="lower right")
            figure.supxlabel(self.note, fontsize=8.5, x=0.01, ha="left")
        return figure


@dataclass(frozen=True)
class Sizes:
    """Mean flow completion time and goodput along the axis `size`, a line for each `sender`."""

    note: str
    """The note about the runs."""

    def draw(self, result: Run) -> Drawing:
        """Draw both panels."""
        sizes = {row["size"]: row["size_bytes"] / 1e3 for row in result.flows.to_pylist()}
        panels = [("Mean flow completion time (s)", "fct_mean_s", 1.0), ("Goodput (Mb/s)", "goodput_mean_bps", 1e-6)]
        rows = sorted(result.runs.to_pylist(), key=lambda row: sizes[row["size"]])
        with rc_context(RULES):
            figure, drawn = pyplot.subplots(1, 2, figsize=(8.6, 4.2), layout="constrained")
            for axes, (title, column, unit) in zip(drawn, panels, strict=True):
                lines = defaultdict(list)
                for row in rows:
                    if row[column] is not None:
                        lines[row["sender"]].append((sizes[row["size"]], unit * row[column]))
                for sender, points in lines.items():
                    axes.plot(*zip(*points, strict=True), clip_on=False, **look(sender))
                axes.set_xscale("log")
                axes.set_yscale("log")
                plain_log(axes.xaxis)
                plain_log(axes.yaxis)
                axes.set_title(title)
                axes.set_xlabel("size (kB)")
                name_lines(axes, [(sender, *points[-1]) for sender, points in lines.items()])
            figure.supxlabel(self.note, fontsize=8.5, x=0.01, ha="left")
        return figure
