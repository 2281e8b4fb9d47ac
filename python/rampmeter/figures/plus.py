"""VCP+ beside VCP, XCP and CUBIC in the settings of Figures 3 to 9 of the VCP paper: a row for each figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib import pyplot, rc_context

from rampmeter.figures.along import mbps, seeds
from rampmeter.figures.figure import Drawing
from rampmeter.figures.schemes import INDEX, PANELS, TCPS, Lines, SchemeLines, bottlenecks, jain, legend, limit
from rampmeter.figures.style import RULES, note, plain_log
from rampmeter.running import Run, Value
from rampmeter.tables import Table

SCHEMES = ["vcp", "vcp-plus", "xcp", "cubic"]
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


LINKS = "means of the seven links in Figures 8 and 9"

CAPACITY = SchemeLines(axis="capacity", label="capacity (Mb/s)", x=mbps, note="")
CAPACITIES = ["500 kb/s", "1 Mb/s", "2 Mb/s", "5 Mb/s", "10 Mb/s", "50 Mb/s", "200 Mb/s", "1 Gb/s"]
LOT = ["500 kb/s", "1 Mb/s", "5 Mb/s", "10 Mb/s", "50 Mb/s", "150 Mb/s"]

ROWS = [
    Row("3", "vcp/capacity.toml", CAPACITY, {"capacity": CAPACITIES}, {"capacity": ["1 Mb/s", "10 Mb/s"]}),
    Row(
        "4",
        "vcp/round_trip.toml",
        SchemeLines(axis="path", label="round trip (ms)", note=""),
        {"path": ["1ms", "5ms", "20ms", "100ms", "400ms", "1500ms"]},
        {"path": ["5ms"]},
    ),
    Row("5", "vcp/flows.toml", SchemeLines(axis="flows", label="flows", note=""), {}, {"flows": [5]}),
    Row("6", "vcp/web.toml", SchemeLines(axis="web", label="Web-like flows (1/s)", note=""), {}, {"web": [10]}),
    Row(
        "7",
        "vcp/rtt_fairness.toml",
        SchemeLines(axis="longest", label="longest round trip (ms)", note=""),
        {"longest": ["40ms", "98ms", "156ms", "214ms", "272ms", "330ms"]},
        {"longest": ["40ms"]},
    ),
    Row("8", "vcp/parking_capacity.toml", CAPACITY, {"capacity": LOT}, {"capacity": ["1 Mb/s"]}),
    Row(
        "9",
        "vcp/parking_round_trip.toml",
        SchemeLines(axis="path", label="round trip along all seven (ms)", note=""),
        {"path": ["1ms", "10ms", "100ms", "1000ms"]},
        {"path": ["10ms"]},
    ),
]


def draw(*results: Run) -> Drawing:
    """Draw a row for each figure, with utilization, queue, drops and Jain's index."""
    with rc_context(RULES):
        figure, grid = pyplot.subplots(len(ROWS), len(COLUMNS), figsize=(12.4, 15.5), layout="constrained")
        for row, result, panels in zip(ROWS, results, grid, strict=True):
            lines = row.lines(result)
            for place, (axes, title) in enumerate(zip(panels, COLUMNS, strict=True)):
                axes.set_xscale("log")
                axes.set_xlabel(row.along.label)
                row.along.panel(axes, lines, place)
                plain_log(axes.xaxis)
                if row is ROWS[0]:
                    axes.set_title(title)
                limit(axes, title)
            panels[0].set_ylabel(f"Figure {row.name}", fontweight="bold")
        legend(figure, lines)
        note(figure, f"Settings of the VCP paper's figures; {LINKS}.\n{TCPS} {seeds(results[0])}")
    return figure


def text(*results: Run) -> str:
    """Return a table with the worst point of each figure and scheme."""
    rows = []
    for row, result in zip(ROWS, results, strict=True):
        for name, points in row.lines(result).items():
            found = [point for at in points.values() for point in at]
            worst = [of(point[place] for point in found) for place, of in enumerate(WORST)]
            rows.append([f"Figure {row.name}", name, *(f"{value:.4g}" for value in worst)])
    return Table(axes=["", "scheme"], headings=[f"{title}, worst" for title in COLUMNS], body=rows).text() + "\n"
