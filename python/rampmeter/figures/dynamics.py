"""VCP over time: changes of capacity and demand, convergence, and long and short round trips.

Figures 1, 10, 11 and 13 of the VCP paper. As there, rates are means over 500 ms; queues and windows are as sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib import pyplot, rc_context

from rampmeter.figures.figure import Drawing
from rampmeter.figures.schemes import COLOURS
from rampmeter.figures.style import RULES, name_lines, note
from rampmeter.figures.traces import Trace, link_trace, rows, traces, values
from rampmeter.running import Run

OVER = 0.5
"""Averaging interval of rates in seconds (section IV)."""

IN_TURN = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"]
"""Colors of flows, in the order of their starts."""

CAPACITY = [(0.0, 10.0), (100.0, 20.0), (140.0, 10.0), (180.0, 20.0)]
"""The capacity of Figure 1's link: seconds, Mb/s from then on."""

CONVERGENCE = 45e6
"""Rate of Figure 10's link, b/s."""

DEMAND = 200e6
"""Rate of Figure 11's link, b/s."""

BURST = (80.0, 160.0)
"""The time with 150 more flows in Figure 11."""

DATA = 0.946
"""Bits of data in a packet, without headers."""

BEGINNING = 30.0
"""The enlarged first seconds of Figure 13."""

SWITCHES = 12.06, 12.37
"""The end of multiplicative increase of the near and the far flow in the paper (section VI-B)."""

THIN: Any = {"linewidth": 1.2}


def jumps(result: Run) -> Drawing:
    """Figure 1: the throughputs of two flows while the capacity jumps."""
    schemes = values(result, "scheme")
    with rc_context(RULES):
        figure, panels = _stack(len(schemes), 2.7)
        for axes, scheme in zip(panels, schemes, strict=True):
            found = traces(result, scheme=scheme, seed=_seed(result))
            end = max(trace.times[-1] for trace in found)
            steps = [*CAPACITY, (end, CAPACITY[-1][1])]
            axes.step(*zip(*steps, strict=True), where="post", color="#999999", linewidth=1.2, linestyle=(0, (4, 1.6)))
            axes.annotate("capacity", (18, 10), xytext=(0, 4), textcoords="offset points", color="#666666")
            _throughputs(axes, found, 22)
            axes.set_title(f"{scheme.upper()}: throughput (Mb/s)")
        panels[-1].set_xlabel("time (s)")
        note(
            figure,
            "Round trips of 80 ms, a buffer of one bandwidth-delay product at 10 Mb/s; the second flow starts at "
            "40 s.\nMeans over 500 ms; the first run.",
        )
    return figure


def convergence(result: Run) -> Drawing:
    """Figure 10: throughputs of five flows under VCP and XCP, utilization and queue under VCP."""
    seed = _seed(result)
    with rc_context(RULES):
        figure, panels = _stack(4, 2.1, heights=[1.5, 0.8, 0.8, 1.5])
        for axes, scheme in [(panels[0], "vcp"), (panels[3], "xcp")]:
            _throughputs(axes, traces(result, scheme=scheme, seed=seed), 1.05 * CONVERGENCE / 1e6)
            axes.set_title(f"{scheme.upper()}: throughput (Mb/s)")
        _link(panels[1], panels[2], result, CONVERGENCE, scheme="vcp", seed=seed)
        panels[-1].set_xlabel("time (s)")
        note(
            figure,
            "45 Mb/s; flows with round trips of 40, 60, 80, 100 and 120 ms start every 100 s, five more in the reverse "
            "direction; a buffer of 80 ms.\nRates are means over 500 ms; the first run.",
        )
    return figure


def demand(result: Run) -> Drawing:
    """Figure 11: four windows, utilization and queue while 150 flows join 50 flows for 80 s."""
    seed = _seed(result)
    with rc_context(RULES):
        figure, panels = _stack(3, 2.3, heights=[1.3, 1, 1])
        found = sorted((_round_trip(trace), place, trace) for place, trace in enumerate(_lasting(result, seed)))
        shown = [found[place * (len(found) - 1) // 3] for place in range(4)]
        names = [f"{1e3 * rtt:.0f} ms" for rtt, _, _ in shown]
        _windows(panels[0], [trace for _, _, trace in shown], names)
        panels[0].set_title("VCP: windows of four of the 50 flows (packets)")
        _link(panels[1], panels[2], result, DEMAND, scheme="vcp", seed=seed)
        for axes in panels:
            for time in BURST:
                axes.axvline(time, color="#777777", linewidth=1, linestyle=(0, (4, 1.6)))
        panels[0].annotate(
            "150 more flows",
            (BURST[0], 1),
            xycoords=("data", "axes fraction"),
            xytext=(4, -3),
            textcoords="offset points",
            va="top",
            color="#555555",
        )
        panels[-1].set_xlabel("time (s)")
        note(
            figure,
            "200 Mb/s, 50 flows each way with round trips of 60 to 158 ms, a buffer of 109 ms; 150 more flows from 80 "
            "to 160 s. A window's name is\nits flow's round trip before 80 s: mean window divided by rate. "
            "Utilization: means over 500 ms; the first run.",
        )
    return figure


def two_round_trips(result: Run) -> Drawing:
    """Figure 13: the windows of a flow of 50 ms and one of 500 ms."""
    found = traces(result, scheme="vcp", seed=_seed(result))
    names = {"near": "50 ms", "far": "500 ms"}
    shares = " and ".join(
        f"{row['goodput_bps'] / 1e6:.1f}" for row in result.flows.to_pylist() if row["seed"] == _seed(result)
    )
    (row,) = rows(result, scheme="vcp", seed=_seed(result))
    with rc_context(RULES):
        figure, panels = pyplot.subplots(2, 1, figsize=(8.8, 6.2), layout="constrained")
        for axes, until in zip(panels, [max(trace.times[-1] for trace in found), BEGINNING], strict=True):
            _windows(axes, found, [names.get(trace.traffic, trace.traffic) for trace in found], until=until)
            axes.set_xlabel("time (s)")
        panels[0].set_title("VCP: windows of flows of 50 and 500 ms (packets)")
        panels[1].set_title(f"The first {BEGINNING:g} s (packets)")
        for time, color in zip(SWITCHES, IN_TURN, strict=False):
            panels[1].axvline(time, color=color, linewidth=1, linestyle=(0, (4, 1.6)))
        note(
            figure,
            "10 Mb/s, a buffer of 275 ms. Dashed: when the paper's flows end their multiplicative increase, 12.06 and "
            f"12.37 s. From 60 s on\ntheir goodputs are {shares} Mb/s, Jain's index {row['goodput_jain']:.3f}; the "
            "first run.",
        )
    return figure


def _stack(panels: int, height: float, heights: Sequence[float] | None = None) -> tuple[Drawing, Any]:
    """Return panels above each other with a common time axis."""
    size = (8.8, height * panels + 0.6)
    figure, grid = pyplot.subplots(
        panels, 1, figsize=size, sharex=True, layout="constrained", height_ratios=heights, squeeze=False
    )
    return figure, grid[:, 0]


def _throughputs(axes: Any, found: Sequence[Trace], highest: float) -> None:
    ends = []
    names = [f"flow {place + 1}" for place in range(len(found))]
    for trace, name, color in zip(found, names, IN_TURN, strict=False):
        times, rates = trace.rates(OVER)
        axes.plot(times, [rate / 1e6 for rate in rates], color=color, **THIN)
        ends.append((name, times[-1], rates[-1] / 1e6))
    axes.set_xlim(0, max(trace.times[-1] for trace in found))
    axes.set_ylim(0, highest)
    name_lines(axes, ends, gap=0.1, colors=dict(zip(names, IN_TURN, strict=False)))


def _windows(axes: Any, found: Sequence[Trace], names: Sequence[str], until: float | None = None) -> None:
    ends = []
    for trace, name, color in zip(found, names, IN_TURN, strict=False):
        points = [
            (time, window / 1e3)
            for time, window in zip(trace.times, trace.windows, strict=True)
            if until is None or time <= until
        ]
        axes.plot(*zip(*points, strict=True), color=color, **THIN)
        ends.append((name, *points[-1]))
    axes.set_xlim(0, max(end[1] for end in ends))
    axes.set_ylim(bottom=0)
    name_lines(axes, ends, gap=0.09, colors=dict(zip(names, IN_TURN, strict=False)))


def _link(upper: Any, lower: Any, result: Run, rate: float, **at: Any) -> None:
    """Draw utilization and queue of the bottleneck."""
    trace = link_trace(result, "bottleneck", **at)
    buffer = next(row["buffer_packets"] for row in result.links.to_pylist())
    times, rates = trace.rates(OVER)
    upper.plot(times, [100 * each / rate for each in rates], color=COLOURS["vcp"], **THIN)
    upper.set_title("VCP: utilization (%)")
    upper.set_ylim(0, 105)
    lower.plot(trace.times, [100 * each / buffer for each in trace.packets], color=COLOURS["vcp"], linewidth=0.8)
    lower.set_title(f"VCP: queue (% of the buffer, {buffer} packets)")
    lower.set_ylim(0, 100)
    lower.set_xlim(0, trace.times[-1])


def _lasting(result: Run, seed: int) -> list[Trace]:
    """Return the traces of flows that last for the whole run."""
    found = traces(result, scheme="vcp", seed=seed)
    return [trace for trace in found if trace.traffic == "forward"]


def _round_trip(trace: Trace) -> float:
    """Estimate a flow's round-trip time before more flows join: its window divided by its rate."""
    samples = [
        (window, time, delivered)
        for window, time, delivered in zip(trace.windows, trace.times, trace.delivered, strict=True)
        if BURST[0] / 4 <= time < BURST[0]
    ]
    rate = (samples[-1][2] - samples[0][2]) / (samples[-1][1] - samples[0][1])
    return DATA * sum(window for window, _, _ in samples) / len(samples) / rate


def _seed(result: Run) -> int:
    return int(values(result, "seed")[0])
