"""The charts of a report over the sweep, each an SVG: metrics, and flow completion times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from io import BytesIO
from itertools import cycle, pairwise
from textwrap import fill
from typing import Any

from matplotlib import pyplot, rc_context
from matplotlib.lines import Line2D

from rampmeter.figures.figure import Drawing
from rampmeter.figures.style import COLOURS, RULES, markers, plain_log
from rampmeter.report.metrics import Metric
from rampmeter.report.sweep import Scale, Sweep
from rampmeter.tables import grouped, half_interval, mean

OTHERS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7A7A7A"]
"""Colors for lines without a color of their own (Okabe and Ito, 2008)."""

DASHES = ["-", (0, (4, 1.5)), (0, (1, 1.2))]
"""How lines of one color differ."""

WIDTH = 9.6
"""The width of a chart in inches."""

MAX_LINES = 24
"""The maximum number of lines in a readable chart; the tables contain all."""

LETTER = 0.019
"""The width of a letter at an axis, as part of the width of a panel."""


@dataclass(frozen=True)
class Chart:
    """A chart."""

    title: str
    note: str
    """The caption."""
    svg: bytes


Panel = tuple[str, Callable[[Any], None]]


def over_the_sweep(sweep: Sweep, chosen: list[Metric]) -> Chart | None:
    """Draw a panel for each metric: along an axis, or as bars."""
    lines = colors(sweep.name(row) for row in sweep.run.runs.to_pylist())
    if not chosen or len(lines) > MAX_LINES:
        return None
    draw = draw_along if sweep.along is not None else draw_bars
    panels: list[Panel] = []
    for metric in chosen:
        for beside, rows in grouped(metric.rows, sweep.panel).items():
            title = f"{metric.title}, {beside}" if beside else metric.title
            panels.append((title, draw(sweep, lines, metric._replace(rows=rows))))
    note = f"Against {sweep.along}" if sweep.along is not None else "One bar per line of the sweep"
    if len(sweep.seeds) > 1:
        note += (
            f": means over {len(sweep.seeds)} seeds, with their 95% confidence intervals (Student's t), cut off at the "
        )
        note += "edge of a panel"
    height, legend = (2.9, lines) if sweep.along is not None else (0.7 + 0.3 * len(lines), {})
    return chart("Over the sweep", f"{note}.", panels, legend, height, marked=True)


def draw_along(sweep: Sweep, lines: dict[str, str], metric: Metric) -> Callable[[Any], None]:
    """Draw lines along an axis."""
    along = sweep.along or ""
    scale, marks, kinds = sweep.scales[along], markers(lines), dashes(lines)

    def draw(axes: Any) -> None:
        top = 0.0
        for name, found in estimates(sweep, metric).items():
            looks = {"marker": marks[name], "color": lines[name], "linestyle": kinds[name] if scale.is_quantity else ""}
            axes.errorbar(*zip(*found, strict=True), capsize=2.5, elinewidth=1, **looks)
            top = max(top, *(value for _, value, _ in found))
        show_scale(axes, scale, sorted({scale.place(row[along]) for row in metric.rows}))
        axes.set_ylim(0, min(max(axes.get_ylim()[1], 1.05 * top), 2 * top) or None)

    return draw


def estimates(sweep: Sweep, metric: Metric) -> dict[str, list[tuple[float, float, float]]]:
    """Return each line's places along the axis, with the mean and half of its confidence interval."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for name, of_line in grouped(metric.rows, sweep.name).items():
        points = grouped(of_line, lambda row: sweep.scales[sweep.along].place(row[sweep.along]) if sweep.along else 0.0)
        for at, some in sorted(points.items()):
            value, half = mean(some, metric.column), half_interval(some, metric.column)
            if value is not None:
                found.setdefault(name, []).append((at, metric.factor * value, metric.factor * half))
    return found


def show_scale(axes: Any, scale: Scale, places: list[float]) -> None:
    """Write the values of the runs at the axis, if they have room, or else round numbers."""
    axes.set_xlabel(scale.label)
    if scale.is_log:
        axes.set_xscale("log")
        plain_log(axes.xaxis)
        axes.minorticks_off()
    axes.autoscale_view()
    labels = [scale.text(place) for place in places]
    at = axes.transAxes.inverted().transform([axes.transData.transform((place, 0)) for place in places])[:, 0]
    if all(
        LETTER * (len(a) + len(b) + 1) / 2 < right - left
        for (left, right), (a, b) in zip(pairwise(at), pairwise(labels), strict=True)
    ):
        axes.set_xticks(places, labels)
    elif not scale.is_quantity:
        axes.set_xticks(places, labels, rotation=30, ha="right", rotation_mode="anchor")


def draw_bars(sweep: Sweep, lines: dict[str, str], metric: Metric) -> Callable[[Any], None]:
    """Draw a bar for each line."""

    def draw(axes: Any) -> None:
        found = estimates(sweep, metric)
        for name in reversed(lines):
            _, value, half = found[name][0] if name in found else (0.0, 0.0, 0.0)
            axes.barh(name, value, xerr=half or None, capsize=2.5, color=lines[name])
        top = max((value for ((_, value, _),) in found.values()), default=0.0)
        axes.set_xlim(0, min(axes.get_xlim()[1], 2 * top) or None)
        axes.grid(visible=False, axis="y")

    return draw


def completion_times(sweep: Sweep) -> Chart | None:
    """Draw the distribution of flow completion times at one point of the sweep."""
    rows, place = sweep.example(sweep.run.flows)
    rows = [row for row in rows if row["measured"] and row["fct_s"] is not None]
    lines = colors(map(sweep.name, rows))
    if not rows or len(lines) > MAX_LINES:
        return None
    kinds = dashes(lines)

    def draw(axes: Any) -> None:
        for name, of_line in grouped(rows, sweep.name).items():
            times = sorted(1e3 * row["fct_s"] for row in of_line)
            shares = [100 * (n + 1) / len(times) for n in range(len(times))]
            axes.step(times, shares, where="post", color=lines[name], linestyle=kinds[name])
        axes.set_xscale("log")
        plain_log(axes.xaxis)
        axes.set_xlabel("flow completion time (ms)")
        axes.set_ylim(0, 100)

    note = f"Every completed transfer of measured traffic, including the warm-up, at {place}."
    return chart("Flow completion times", note, [("Transfers that took no longer (%)", draw)], lines)


def colors(names: Iterable[str]) -> dict[str, str]:
    """Choose a color for each name: its own if it is a scheme that has one."""
    listed = list(dict.fromkeys(names))
    known = {name: COLOURS[name] for name in listed if name in COLOURS}
    free = cycle([color for color in OTHERS if color not in known.values()])
    return {name: known.get(name) or next(free) for name in listed}


def dashes(lines: dict[Any, str]) -> dict[Any, Any]:
    """Choose the dashes of each line, other ones for each line that repeats a color."""
    seen: Counter[str] = Counter()
    kinds = {}
    for name, color in lines.items():
        kinds[name] = DASHES[seen[color] % len(DASHES)]
        seen[color] += 1
    return kinds


def chart(
    title: str,
    note: str,
    panels: list[Panel],
    legend: dict[str, str],
    height: float = 2.9,
    *,
    marked: bool = False,
) -> Chart:
    """Draw panels with one legend, of `marked` or plain lines."""
    return save(title, note, lambda: arrange(panels, legend, height, marked=marked))


def save(title: str, note: str, draw: Callable[[], Drawing]) -> Chart:
    """Draw a figure in the style of reports, as SVG."""
    with rc_context({**RULES, "svg.fonttype": "path"}):
        figure = draw()
        written = BytesIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
        pyplot.close(figure)
    return Chart(title, note, written.getvalue())


def arrange(panels: list[Panel], legend: dict[str, str], height: float, *, marked: bool) -> Drawing:
    """Arrange panels two in a row, each `height` inches high, below the legend."""
    rows = (len(panels) + 1) // 2
    figure = pyplot.figure(figsize=(WIDTH, height * rows + 0.4), layout="constrained")
    titles = []
    for place, (name, draw) in enumerate(panels):
        axes = figure.add_subplot(rows, min(2, len(panels)), place + 1)
        draw(axes)
        titles.append(axes.set_title(name))
    if len(legend) > 1:
        marks, kinds = markers(legend) if marked else {}, dashes(legend)
        handles = [
            Line2D([], [], color=color, linestyle=kinds[name], marker=marks.get(name)) for name, color in legend.items()
        ]
        lines = add_legend(figure, handles, list(legend))
        figure.set_figheight(height * rows + 0.2 + 0.2 * lines)
    break_titles(figure, titles)
    return figure


def add_legend(figure: Drawing, handles: list[Line2D], names: list[str]) -> int:
    """Write the legend in as many columns as the figure has room for. Return the number of its lines."""
    for columns in range(min(6, len(names)), 0, -1):
        legend = figure.legend(handles, names, loc="outside upper left", ncols=columns)
        figure.draw_without_rendering()
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return -(-len(names) // columns)
        legend.remove()
    return 0


def break_titles(figure: Drawing, titles: list[Any]) -> None:
    """Break the titles that are wider than their panels into lines."""
    figure.draw_without_rendering()
    for title in titles:
        width, room = title.get_window_extent().width, title.axes.bbox.width
        if width > room:
            title.set_text(fill(title.get_text(), max(10, int(len(title.get_text()) * room / width))))
