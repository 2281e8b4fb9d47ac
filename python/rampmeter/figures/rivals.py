"""Today's schemes in pairs: what each gets beside each, how long packets wait, and the losses, on thirteen paths.

Of two flows that start within a second, the first one often keeps an advantage. So a cell has both orders: the run of
the row beside the column, and that of the column beside the row, seen from the other side. The condition "late" is
about who starts first, and its cells have one order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib import pyplot, rc_context

from rampmeter.figures.figure import Drawing, Figure
from rampmeter.figures.style import RULES, note
from rampmeter.figures.traces import values
from rampmeter.running import Run

CONDITIONS = {
    "reference": "50 Mb/s, 40 ms, buffer 40 ms",
    "shallow": "buffer 8 ms",
    "deep": "buffer 200 ms",
    "late": "10 Mb/s, buffer 200 ms, the column starts 10 s later, from 60 to 100 s",
    "fast": "200 Mb/s, 20 ms, buffer 20 ms",
    "slow": "2 Mb/s, 60 ms, buffer 240 ms",
    "short": "50 Mb/s, 5 ms, buffer 5 ms",
    "long": "50 Mb/s, 200 ms, buffer 200 ms",
    "lossy": "0.5% of random losses",
    "codel": "CoDel",
    "pie": "PIE",
    "fq-codel": "FQ-CoDel",
    "dualpi2": "DualPI2",
}
"""The conditions; those that name no rate are as the first one otherwise."""


@dataclass(frozen=True)
class Panel:
    """A number for each pair, as a color."""

    title: str
    of: Callable[[dict[str, Any]], float | None]
    """Computes the number from a pair's row: the link and both flows."""
    colors: str
    limits: tuple[float, float]
    written: Callable[[float], str]


def _share(pair: dict[str, Any]) -> float | None:
    both = pair["row"]["goodput_bps"] + pair["column"]["goodput_bps"]
    return pair["row"]["goodput_bps"] / both if both else None


def _delay(pair: dict[str, Any]) -> float | None:
    delay = pair["link"]["delay_mean_s"]
    return None if delay is None else 1000 * delay


def _loss(pair: dict[str, Any]) -> float | None:
    row = pair["row"]
    return 100 * row["retransmitted_packets"] / row["sent_packets"] if row["sent_packets"] else None


PANELS = [
    Panel("share of the row beside the column", _share, "RdBu", (0, 1), lambda x: f"{100 * x:.0f}"),
    Panel("mean delay in the queue (ms)", _delay, "YlOrBr", (0, 100), lambda x: f"{x:.1f}" if x < 10 else f"{x:.0f}"),
    Panel("packets sent again by the row (%)", _loss, "YlOrBr", (0, 5), lambda x: f"{x:.1f}" if x < 10 else f"{x:.0f}"),
]


def pairs(result: Run) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """Return the runs of each condition, row and column, in both orders: the two flows and their link."""
    found = {_key(link): {"link": link} for link in result.links.to_pylist()}
    for flow in result.flows.to_pylist():
        found[_key(flow)][flow["traffic"]] = flow
    grouped: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for (condition, row, column, _), pair in found.items():
        grouped.setdefault((condition, row, column), []).append(pair)
        if condition != "late":
            swapped = {**pair, "row": pair["column"], "column": pair["row"]}
            grouped.setdefault((condition, column, row), []).append(swapped)
    return grouped


def _key(row: dict[str, Any]) -> tuple[str, str, str, int]:
    return row["condition"], row["row"], row["column"], row["seed"]


def draw(result: Run) -> Drawing:
    """Draw three matrices for each condition."""
    grouped, conditions, names = pairs(result), values(result, "condition"), values(result, "row")
    columns = values(result, "column")
    with rc_context({**RULES, "axes.grid": False, "font.size": 7}):
        lines = -(-len(conditions) // 2)
        cell = 0.3 * max(len(names), 4) + 1.3
        size = (6 * cell, lines * cell + 1)
        figure, axes = pyplot.subplots(lines, 6, figsize=size, layout="constrained", squeeze=False)
        for drawn in axes.flat:
            drawn.set_axis_off()
        for place, condition in enumerate(conditions):
            for number, panel in enumerate(PANELS):
                drawn = axes[place // 2, 3 * (place % 2) + number]
                table = [[_mean(grouped.get((condition, row, column)), panel) for column in columns] for row in names]
                _matrix(drawn, table, panel, names, columns)
                if number == 0:
                    drawn.set_title(f"{condition}: {CONDITIONS.get(condition, '')}", fontsize=9)
                drawn.set_xlabel(panel.title)
        note(
            figure,
            "Two long-lived flows on one link, the row's scheme beside the column's. Goodput and delay from 10 to "
            "40 s, packets sent again from the start on, so that they have those of slow start. A share of 50 is an "
            "equal one: a scheme beside itself has it by definition, except in `late`. The delay is that of both "
            f"flows together. Means over seeds {', '.join(map(str, values(result, 'seed')))} and, except in `late`, "
            "over both orders of starting: single runs may differ by 20 points.",
        )
    return figure


def _mean(of: list[dict[str, Any]] | None, panel: Panel) -> float:
    known = [number for number in map(panel.of, of or []) if number is not None]
    return fmean(known) if known else float("nan")


def _matrix(axes: Any, table: list[list[float]], panel: Panel, rows: list[str], columns: list[str]) -> None:
    axes.set_axis_on()
    low, high = panel.limits
    axes.imshow(np.array(table), cmap=panel.colors, vmin=low, vmax=high, aspect="auto")
    axes.set_xticks(range(len(columns)), columns, rotation=90)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    for line, row in enumerate(table):
        for place, number in enumerate(row):
            if not np.isnan(number):
                part = (number - low) / (high - low)
                dark = abs(part - 0.5) > 0.35 if panel.colors == "RdBu" else part > 0.6
                color = "white" if dark else "black"
                axes.text(place, line, panel.written(number), ha="center", va="center", fontsize=6, color=color)


def text(result: Run) -> str:
    """List each pair on each path: share, delay, and packets sent again."""
    lines = [f"{'condition':10} {'row':16} {'column':16} {'share %':>8} {'delay ms':>9} {'again %':>8}"]
    for (condition, row, column), of in pairs(result).items():
        share, delay, again = (_mean(of, panel) for panel in PANELS)
        lines.append(f"{condition:10} {row:16} {column:16} {100 * share:8.1f} {delay:9.1f} {again:8.2f}")
    return "\n".join(lines) + "\n"


FIGURES = {
    "rivals.matrix": Figure(
        title="Schemes of today in pairs on thirteen paths: share, delay, losses",
        scenario="rivals/matrix.toml",
        quick={
            "condition": ["reference", "shallow"],
            "row": ["bbr", "bbr1", "cubic"],
            "column": ["bbr", "bbr1", "cubic"],
        },
        draw=draw,
        text=text,
    ),
}
"""Figures by their subject."""
