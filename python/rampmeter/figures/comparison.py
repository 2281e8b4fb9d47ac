"""A table that compares all schemes on one workload, drawn and printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from matplotlib import pyplot, rc_context

from rampmeter.figures.figure import Drawing, Figure
from rampmeter.figures.style import RULES, note
from rampmeter.figures.traces import values
from rampmeter.running import Run

NAMES = {
    "pcp": "PCP",
    "vcp": "VCP",
    "stable": "Stable TCP, virtual queue",
    "cubic": "CUBIC, CoDel",
    "newreno": "NewReno, RED with ECN",
}


@dataclass(frozen=True)
class Column:
    """A metric of each scheme."""

    head: str
    """The heading, on two lines."""
    of: Callable[[dict[str, Any]], float | None]
    """Computes the metric from a run's row, joined with its link's row and the RTT bias of long-lived flows."""
    digits: int
    """Digits after the decimal point."""
    best: Callable[[list[float]], float]
    """Selects the best number, which is bold."""


COLUMNS = [
    Column("utilization\n(%)", lambda row: 100 * row["utilization"], 1, max),
    Column("mean queue\n(packets)", lambda row: row["queue_mean_packets"], 1, min),
    Column("queue, p99\n(packets)", lambda row: row["queue_p99_packets"], 0, min),
    Column("dropped\n(%)", lambda row: 100 * row["dropped_packets"] / max(row["offered_packets"], 1), 3, min),
    Column("20 ms by\n160 ms", lambda row: row["bias"], 2, lambda of: min(of, key=lambda each: abs(each - 1))),
    Column("FCT,\nmedian (ms)", lambda row: _ms(row["fct_p50_s"]), 0, min),
    Column("FCT,\np99 (ms)", lambda row: _ms(row["fct_p99_s"]), 0, min),
]


def table(result: Run) -> tuple[list[str], list[list[float | None]]]:
    """Return the names and numbers of the schemes, means over the runs; None if no run has one."""
    rows = result.runs.join(result.links, [*result.about["axes"]]).to_pylist()
    names, numbers = [], []
    for scheme in values(result, "scheme"):
        of = [{**row, "bias": _bias(result, scheme, row["seed"])} for row in rows if row["scheme"] == scheme]
        names.append(NAMES.get(scheme, scheme))
        found = [[each for each in map(column.of, of) if each is not None] for column in COLUMNS]
        numbers.append([fmean(each) if each else None for each in found])
    return names, numbers


def text(result: Run) -> str:
    """Format the table as text."""
    names, numbers = table(result)
    heads = [column.head.replace("\n", " ") for column in COLUMNS]
    lines = [["", *heads], *([name, *_written(row)] for name, row in zip(names, numbers, strict=True))]
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    laid = (
        "  ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    )
    return "\n".join(line.rstrip() for line in laid) + "\n"


def draw(result: Run) -> Drawing:
    """Draw the table; the best of each column is bold."""
    names, numbers = table(result)
    with rc_context(RULES):
        figure, axes = pyplot.subplots(figsize=(11, 0.42 * len(names) + 1.9), layout="constrained")
        axes.set_axis_off()
        axes.set_xlim(0, 2.2 + len(COLUMNS))
        axes.set_ylim(len(names) + 0.1, -1.2)
        for place, column in enumerate(COLUMNS):
            x = 3.05 + place
            axes.text(x, -0.25, column.head, ha="right", va="bottom", color="#444444")
            known = [row[place] for row in numbers]
            best = column.best([each for each in known if each is not None])
            for line, row in enumerate(numbers):
                mine = row[place]
                bold = mine is not None and round(mine, column.digits) == round(best, column.digits)
                weight = "bold" if bold else "normal"
                axes.text(x, line + 0.5, _written(row)[place], ha="right", va="center", fontweight=weight)
        axes.plot([0, 3.1 + len(COLUMNS) - 1], [0, 0], color="black", linewidth=1.1)
        for line, name in enumerate(names):
            axes.text(0, line + 0.5, name, va="center")
            axes.plot([0, 3.1 + len(COLUMNS) - 1], [line + 1, line + 1], color="#dddddd", linewidth=0.8)
        axes.set_title("Five schemes on one workload")
        note(
            figure,
            "40 Mb/s, buffers of 100 ms; five long-lived flows of 20 ms, five of 160 ms, and transfers of 50 kB on "
            "average (Pareto, 1.5) over 40 to 80 ms that offer 40% of the link. 120 s without\nthe first 30 s; "
            f"means of {len(values(result, 'seed'))} runs. PCP has a drop-tail router, VCP its own. 20 ms by 160 ms: "
            "ratio of the goodputs of long-lived flows, 1 without bias. Bold: the best.",
        )
    return figure


def _written(row: list[float | None]) -> list[str]:
    return ["-" if each is None else f"{each:,.{column.digits}f}" for each, column in zip(row, COLUMNS, strict=True)]


def _bias(result: Run, scheme: str, seed: int) -> float:
    """Return the ratio of goodputs of flows with the short and with the long round trip."""
    of: dict[str, list[float]] = {"near": [], "far": []}
    for row in result.flows.to_pylist():
        if row["scheme"] == scheme and row["seed"] == seed and row["traffic"] in of:
            of[row["traffic"]].append(row["goodput_bps"])
    return fmean(of["near"]) / max(fmean(of["far"]), 1.0)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds


FIGURES = {
    "comparison.table": Figure(
        title="PCP, VCP, Stable TCP, CUBIC and NewReno on one workload: a table",
        scenario="stable/comparison.toml",
        quick={"seed": [1]},
        draw=draw,
        text=text,
    ),
}
"""Figures by their subject."""
