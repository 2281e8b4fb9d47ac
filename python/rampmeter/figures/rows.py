"""Schemes in the settings of several figures of the VCP paper: a row for each figure, with four panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib import pyplot, rc_context

from rampmeter.figures.along import mbps, seeds
from rampmeter.figures.figure import Drawing, Figure
from rampmeter.figures.schemes import INDEX, PANELS, Lines, SchemeLines, bottlenecks, jain, legend, limit
from rampmeter.figures.style import RULES, note, plain_log
from rampmeter.running import Run, Value
from rampmeter.tables import Table

CAPACITY = SchemeLines(axis="capacity", label="capacity (Mb/s)", x=mbps, note="")
LONGEST = SchemeLines(axis="longest", label="longest round trip (ms)", note="")

COLUMNS = [*PANELS, INDEX]
WORST = [min, max, max, min]
"""How the worst point of each column is found."""


@dataclass(frozen=True)
class Row:
    """A figure of the paper."""

    name: str
    scenario: str
    along: SchemeLines
    values: dict[str, Sequence[Value]]
    """The drawn points."""
    quick: dict[str, Sequence[Value]]

    def lines(self, result: Run) -> Lines:
        """Return the four columns of each run."""
        shares, indices = (self.along.lines([result], of) for of in (bottlenecks, jain))
        return {
            name: {
                x: [(*share, *index) for share, index in zip(found, indices[name][x], strict=True)]
                for x, found in points.items()
            }
            for name, points in shares.items()
        }


@dataclass(frozen=True)
class Rows:
    """A figure with a row for each figure of the paper."""

    schemes: Sequence[str]
    rows: Sequence[Row]
    note: str
    """The note about the routers."""

    def figure(self, title: str) -> Figure:
        """Return it as a figure of the command `rampmeter figure`."""
        return Figure(
            title=title,
            scenario=self.rows[0].scenario,
            further=[row.scenario for row in self.rows[1:]],
            values={"seed": [1], "scheme": self.schemes},
            points={row.scenario: row.values for row in self.rows},
            quick_points={row.scenario: row.quick for row in self.rows},
            whole={"scheme": self.schemes},
            draw=self.draw,
            text=self.text,
        )

    def draw(self, *results: Run) -> Drawing:
        """Draw a row for each figure, with utilization, queue, drops and Jain's index."""
        with rc_context(RULES):
            size = (12.4, 1.6 + 2.0 * len(self.rows))
            figure, grid = pyplot.subplots(
                len(self.rows), len(COLUMNS), figsize=size, squeeze=False, layout="constrained"
            )
            for row, result, panels in zip(self.rows, results, grid, strict=True):
                lines = row.lines(result)
                for place, (axes, title) in enumerate(zip(panels, COLUMNS, strict=True)):
                    axes.set_xscale("log")
                    axes.set_xlabel(row.along.label)
                    row.along.panel(axes, lines, place)
                    plain_log(axes.xaxis)
                    if row is self.rows[0]:
                        axes.set_title(title)
                    limit(axes, title)
                panels[0].set_ylabel(f"Figure {row.name}", fontweight="bold")
            legend(figure, lines)
            note(figure, f"Settings of the VCP paper's figures. {self.note} {seeds(results[0])}")
        return figure

    def text(self, *results: Run) -> str:
        """Return a table with the worst point of each figure and scheme."""
        rows = []
        for row, result in zip(self.rows, results, strict=True):
            for name, points in row.lines(result).items():
                found = [point for at in points.values() for point in at]
                worst = [of(point[place] for point in found) for place, of in enumerate(WORST)]
                rows.append([f"Figure {row.name}", name, *(f"{value:.4g}" for value in worst)])
        return Table(axes=["", "scheme"], headings=[f"{title}, worst" for title in COLUMNS], body=rows).text() + "\n"
