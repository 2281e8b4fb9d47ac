"""One scheme's completion times divided by another's: heat maps with a cell for each path and size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import exp, log
from statistics import fmean
from typing import Any

from matplotlib import pyplot, rc_context
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm

from rampmeter.figures.figure import Drawing
from rampmeter.figures.style import RULES, note
from rampmeter.figures.traces import rows, values
from rampmeter.running import Run, Value

COLUMN = "fct_or_age_mean_s"
"""The compared metric."""

COLOURS = "RdBu_r"

RANGE = 4.0
"""The colors end at this ratio and at its reciprocal."""


@dataclass(frozen=True)
class Ratios:
    """Maps of `path` and `size`: a row of them for each `history`, a column for each value of `competing`."""

    scheme: str
    """The scheme in the numerator."""
    other: str
    """The scheme in the denominator."""
    label: str
    """The label of the colors."""
    note: str
    """The note about the runs."""
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels for the values of each axis; by default their names."""

    def draw(self, result: Run) -> Drawing:
        """Draw the maps, each with its geometric mean."""
        axes_of_maps = ["path", "size", "history", "competing"]
        paths, sizes, histories, competitors = (values(result, axis) for axis in axes_of_maps)
        # Inches: a cell, a panel's frame, the figure's margins.
        wide, high = 0.6 * len(sizes) + 0.2, 0.4 * len(paths) + 0.4
        with rc_context({**RULES, "axes.grid": False}):
            figure, panels = pyplot.subplots(
                len(histories),
                len(competitors),
                figsize=(wide * len(competitors) + 2.9, high * len(histories) + 1.2),
                squeeze=False,
                sharex=True,
                sharey=True,
                layout="constrained",
            )
            norm = LogNorm(1 / RANGE, RANGE)
            for line, history in zip(panels, histories, strict=True):
                for axes, competing in zip(line, competitors, strict=True):
                    here = {"history": history, "competing": competing}
                    ratios = [[self.ratio(result, path=path, size=size, **here) for size in sizes] for path in paths]
                    axes.pcolormesh(ratios, norm=norm, cmap=COLOURS, edgecolor="white", linewidth=1.5)
                    for y, of_path in enumerate(ratios):
                        for x, ratio in enumerate(of_path):
                            write(axes, x + 0.5, y + 0.5, ratio)
                    for axis, kind, listed in [(axes.xaxis, "size", sizes), (axes.yaxis, "path", paths)]:
                        places = [place + 0.5 for place in range(len(listed))]
                        axis.set_ticks(places, [self.name(kind, each) for each in listed])
                    axes.set_ylim(len(paths), 0)
                    axes.tick_params(length=0)
                    axes.spines[:].set_visible(False)
                    mean = geometric_mean(self.of_runs(result, **here))
                    title = f"{self.name('history', history)}, {self.name('competing', competing)}: {mean:.2f}"
                    axes.set_title(title, fontsize=9.5, pad=5)
            colors = ScalarMappable(norm, COLOURS)
            bar = figure.colorbar(colors, ax=panels, shrink=0.8, aspect=30, extend="both", label=self.label)
            ticks = [1 / 4, 1 / 2, 1 / 1.25, 1, 1.25, 2, 4]
            bar.set_ticks(ticks, labels=[f"{tick:.3g}" for tick in ticks])
            bar.ax.minorticks_off()
            seeds = len(values(result, "seed"))
            note(figure, f"{self.note} {'One run' if seeds == 1 else f'Means of {seeds} runs'} per cell.")
        return figure

    def name(self, axis: str, value: Value) -> str:
        """Return the label of a value of an axis."""
        return self.names.get(axis, {}).get(str(value), str(value))

    def ratio(self, result: Run, **at: Value) -> float:
        """Return the mean of the runs of one cell, divided by the mean of the other scheme's runs."""
        mine, theirs = (
            fmean(row[COLUMN] for row in rows(result, scheme=scheme, **at)) for scheme in [self.scheme, self.other]
        )
        return mine / theirs

    def of_runs(self, result: Run, **at: Value) -> Iterable[float]:
        """Return the ratio of each pair of runs that differ only in the scheme."""
        pairs: dict[tuple[Any, ...], dict[str, float]] = defaultdict(dict)
        for row in rows(result, **at):
            pairs[row["path"], row["size"], row["seed"]][row["scheme"]] = row[COLUMN]
        return (pair[self.scheme] / pair[self.other] for pair in pairs.values())


def write(axes: Any, x: float, y: float, ratio: float) -> None:
    """Write a cell's ratio, in white on dark colors."""
    dark = abs(log(ratio)) > 0.6 * log(RANGE)
    axes.text(x, y, f"{ratio:.2f}", ha="center", va="center", fontsize=8.5, color="white" if dark else "black")


def geometric_mean(ratios: Iterable[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return exp(fmean(map(log, ratios)))
