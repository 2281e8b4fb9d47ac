"""The charts of a report, each an SVG: metrics over the sweep, flow completion times, and traces over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from itertools import cycle, pairwise
from textwrap import fill
from typing import Any

from matplotlib import pyplot, rc_context
from matplotlib.lines import Line2D

from rampmeter.figures.figure import Drawing
from rampmeter.figures.style import COLOURS, RULES, markers, plain_log
from rampmeter.report.sweep import Sweep
from rampmeter.tables import Row, deviation, grouped, mean

OTHERS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7A7A7A"]
"""Colors for lines without a color of their own (Okabe and Ito, 2008)."""

DASHES = ["-", (0, (4, 1.5)), (0, (1, 1.2))]
"""How lines of one color differ."""

WIDTH = 9.6
"""The width of a chart in inches."""

MAX_LINES = 24
"""The maximum number of lines in a readable chart; the tables contain all."""

RUN_PANELS = [
    ("Mean flow completion time (ms)", "fct_mean_s", 1e3),
    ("99th percentile of the completion time (ms)", "fct_p99_s", 1e3),
    ("Mean goodput (Mb/s)", "goodput_mean_bps", 1e-6),
    ("Jain's index of goodputs", "goodput_jain", 1.0),
]
"""Title, column and factor."""

LINK_PANELS = [
    ("utilization (%)", "utilization", 1e2),
    ("mean queue (packets)", "queue_mean_packets", 1.0),
    ("99% wait at most (ms)", "delay_p99_s", 1e3),
    ("packets dropped (%)", "dropped", 1e2),
    ("packets marked (%)", "marked", 1e2),
]


@dataclass(frozen=True)
class Chart:
    """A chart."""

    title: str
    note: str
    """The caption."""
    svg: bytes


Panel = tuple[str, Callable[[Any], None]]


def draw_all(sweep: Sweep) -> list[Chart]:
    """Draw every chart for which the run has data."""
    made = [over_the_sweep(sweep), completion_times(sweep), queues(sweep), long_lived(sweep)]
    return [chart for chart in made if chart is not None]


def over_the_sweep(sweep: Sweep) -> Chart | None:
    """Draw a panel for each metric: along the numbers of an axis, or as bars."""
    sources = [(title, sweep.run.runs.to_pylist(), column, unit) for title, column, unit in RUN_PANELS]
    for link in sweep.links():
        sources += [(f"{link}: {title}", sweep.link(link), column, unit) for title, column, unit in LINK_PANELS]
    # Panels without data or with zeros only (no marks, no drops) are omitted.
    drawn = [source for source in sources if any(row[source[2]] for row in source[1])]
    lines = colors(sweep, sweep.run.runs.to_pylist())
    if not drawn or len(lines) > MAX_LINES:
        return None
    draw = draw_along if sweep.along is not None else draw_bars
    panels: list[Panel] = [(title, draw(sweep, lines, *rest)) for title, *rest in drawn]
    bars = f"; bars are the standard deviation over {len(sweep.seeds)} seeds" if len(sweep.seeds) > 1 else ""
    along = f"Against {sweep.along}" if sweep.along is not None else "One bar per line of the sweep"
    height, legend = (2.9, lines) if sweep.along is not None else (0.7 + 0.3 * len(lines), {})
    return chart("Over the sweep", f"{along}{bars}.", panels, legend, height, marked=True)


def draw_along(sweep: Sweep, lines: dict[str, str], rows: list[Row], column: str, unit: float) -> Callable[[Any], None]:
    """Draw lines along an axis."""
    along = sweep.along or ""
    marks, kinds = markers(lines), dashes(lines)

    def draw(axes: Any) -> None:
        for name, of_line in grouped(rows, sweep.name).items():
            points = grouped(of_line, lambda row: row[along])
            found = [(at, mean(some, column), deviation(some, column)) for at, some in sorted(points.items())]
            shown = [(at, unit * value, unit * spread) for at, value, spread in found if value is not None]
            if shown:
                looks = {"marker": marks[name], "color": lines[name], "linestyle": kinds[name]}
                axes.errorbar(*zip(*shown, strict=True), capsize=2.5, elinewidth=1, **looks)
        places = sorted({row[along] for row in rows})
        if places[0] > 0 and places[-1] >= 30 * places[0]:
            axes.set_xscale("log")
            plain_log(axes.xaxis)
            axes.minorticks_off()
        if len(places) <= 8:
            axes.set_xticks(places, [f"{place:g}" for place in places])
        axes.set_xlabel(along)
        axes.set_ylim(bottom=0)

    return draw


def draw_bars(sweep: Sweep, lines: dict[str, str], rows: list[Row], column: str, unit: float) -> Callable[[Any], None]:
    """Draw a bar for each line."""

    def draw(axes: Any) -> None:
        for name, of_line in reversed(grouped(rows, sweep.name).items()):
            value = mean(of_line, column)
            spread = unit * deviation(of_line, column)
            axes.barh(name, unit * (value or 0.0), xerr=spread or None, capsize=2.5, color=lines[name])
        axes.grid(visible=False, axis="y")

    return draw


def completion_times(sweep: Sweep) -> Chart | None:
    """Draw the distribution of flow completion times at one point of the sweep."""
    rows, place = sweep.example(sweep.run.flows)
    rows = [row for row in rows if row["measured"] and row["fct_s"] is not None]
    lines = colors(sweep, rows)
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


def queues(sweep: Sweep) -> Chart | None:
    """Draw queue and throughput of measured links over time, at one point of the sweep."""
    if sweep.run.link_series is None:
        return None
    rows, place = sweep.example(sweep.run.link_series)
    lines = colors(sweep, rows)
    if not rows or len(lines) > MAX_LINES:
        return None
    panels: list[Panel] = []
    for link, of_link in grouped(rows, lambda row: row[sweep.link_column]).items():
        of_line = grouped(of_link, sweep.name)
        waiting = {name: [(row["time_s"], row["queue_packets"]) for row in some] for name, some in of_line.items()}
        sent = {name: rates(some, "transmitted_bytes") for name, some in of_line.items()}
        panels += [(f"{link}: queue (packets)", over_time(waiting, lines))]
        panels += [(f"{link}: sent (Mb/s)", over_time(sent, lines))]
    return chart("Links over time", f"Samples at {place}.", panels, lines)


def long_lived(sweep: Sweep) -> Chart | None:
    """Draw the goodput of each long-lived flow over time, one panel per line of the sweep."""
    if sweep.run.flow_series is None:
        return None

    def flow(row: Row) -> Any:
        return row[sweep.flow_column]

    flows, place = sweep.example(sweep.run.flows)
    lasting = {(sweep.name(row), flow(row)) for row in flows if row["size_bytes"] is None and row["measured"]}
    rows = [row for row in sweep.example(sweep.run.flow_series)[0] if (sweep.name(row), flow(row)) in lasting]
    panels: list[Panel] = []
    for name, of_line in grouped(rows, sweep.name).items():
        by_flow = {flow: rates(some, "delivered_bytes") for flow, some in grouped(of_line, flow).items()}
        panels.append((f"{name} (Mb/s)", over_time(by_flow, dict(zip(by_flow, cycle(OTHERS), strict=False)))))
    if not panels or len(panels) > MAX_LINES:
        return None
    return chart("Goodput of long-lived flows", f"One line per flow, at {place}.", panels, {})


def rates(rows: list[Row], column: str) -> list[tuple[float, float]]:
    """Return Mb/s between one sample of a count of bytes and the next."""
    pairs = [(before, row) for before, row in pairwise(rows) if row["time_s"] > before["time_s"]]
    return [
        (row["time_s"], 8e-6 * (row[column] - before[column]) / (row["time_s"] - before["time_s"]))
        for before, row in pairs
    ]


def over_time(series: dict[Any, list[tuple[float, float]]], lines: dict[Any, str]) -> Callable[[Any], None]:
    """Draw lines along time."""
    kinds = dashes(lines)

    def draw(axes: Any) -> None:
        for name, points in series.items():
            if points:
                axes.plot(*zip(*points, strict=True), color=lines[name], linestyle=kinds[name], linewidth=1.1)
        axes.set_xlabel("time (s)")
        axes.set_ylim(bottom=0)

    return draw


def colors(sweep: Sweep, rows: list[Row]) -> dict[str, str]:
    """Choose a color for each line: its scheme's own, if it has one."""
    names = list(dict.fromkeys(sweep.name(row) for row in rows))
    known = {name: COLOURS[name] for name in names if name in COLOURS}
    free = cycle([color for color in OTHERS if color not in known.values()])
    return {name: known.get(name) or next(free) for name in names}


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
    with rc_context({**RULES, "svg.fonttype": "path"}):
        figure = arrange(panels, legend, height, marked=marked)
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
