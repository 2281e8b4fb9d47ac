"""PCP's mechanisms over time: the start of a flow, sharing between flows, a competing CUBIC flow."""

from __future__ import annotations

from math import ceil
from typing import Any

from matplotlib import pyplot, rc_context

from rampmeter.figures.figure import Drawing
from rampmeter.figures.over_time import IN_TURN, first_seed
from rampmeter.figures.style import RULES, note
from rampmeter.figures.traces import Trace, link_trace, traces
from rampmeter.running import Run

CUBIC = "#D55E00"

STARTS = {"no-history": "A flow without history", "history": "A flow with history"}
"""Titles of the cases of one flow on an idle path."""

SHOWN = 0.4
"""The drawn time since the flow's start, seconds."""

SHARED = {"join": "Queue of the four flows (packets)", "cubic": "Queue of PCP and CUBIC (packets)"}
"""Titles of the queues of the cases in which flows share the link."""

DRAIN_EVERY = 2.5
"""Seconds between the moments at which flows drain the queue: the setting `drain_every`."""


def draw(result: Run) -> Drawing:
    """Draw the rate of each flow and, for those that share the link, the queue below it."""
    with rc_context({**RULES, "lines.linewidth": 1.2}):
        figure, panels = pyplot.subplots(3, 2, figsize=(10.4, 8.4), layout="constrained")
        for axes, case in zip(panels[0], STARTS, strict=True):
            _start(axes, result, case)
        _join(panels[1, 0], result)
        _cubic(panels[1, 1], result)
        for axes, rates, case in zip(panels[2], panels[1], SHARED, strict=True):
            trace = link_trace(result, "bottleneck", case=case, seed=first_seed(result))
            axes.plot(trace.times, trace.packets, color="black", linewidth=0.8)
            axes.set_title(SHARED[case])
            axes.set_xlabel("time (s)")
            axes.set_ylim(0, 104)
            if case == "join":  # shows both drains of a few packets and a full buffer
                axes.set_yscale("symlog", linthresh=10)
                axes.set_yticks([0, 5, 10, 100], ["0", "5", "10", "100"])
            axes.set_xlim(rates.get_xlim())
        for axes in panels[:2].flat:
            axes.set_ylim(0, 46)
        note(
            figure,
            "40 Mb/s, a round trip of 25 ms, a drop-tail buffer of 100 packets; simulated, one run. Top: the "
            "controller's rate, and the delivery\nrate over 10 ms. Left: a flow starts every 8 s; the controllers' "
            "rates; a fall to a quarter is a queue drain. Right: delivery rates over 0.2 s;\nthe PCP flow starts at 5 "
            "s; dotted: every 2.5 s, when flows drain a queue.",
        )
    return figure


def _start(axes: Any, result: Run, case: str) -> None:
    (trace,) = _flows(result, case)
    begin = trace.times[0]
    times = [1e3 * (time - begin) for time in trace.times]
    axes.plot(times, [rate / 1e6 for rate in trace.controller_rates], color=IN_TURN[0], label="rate")
    times, rates = trace.rates(0.01)
    axes.plot(
        [1e3 * (time - begin) for time in times], [rate / 1e6 for rate in rates], color="#777777", label="delivered"
    )
    axes.set_xlim(0, 1e3 * SHOWN)
    axes.set_title(f"{STARTS[case]} (Mb/s)")
    axes.set_xlabel("time since its start (ms)")
    axes.legend(loc="lower right")


def _join(axes: Any, result: Run) -> None:
    for trace, color in zip(_flows(result, "join"), IN_TURN, strict=True):
        axes.plot(trace.times, [rate / 1e6 for rate in trace.controller_rates], color=color, linewidth=0.9)
    axes.set_xlim(0, trace.times[-1])
    axes.set_title("Four flows that join one after another (Mb/s)")


def _cubic(axes: Any, result: Run) -> None:
    for trace in _flows(result, "cubic"):
        times, rates = trace.rates(0.2)
        color = CUBIC if trace.traffic == "cubic" else IN_TURN[0]
        axes.plot(times, [rate / 1e6 for rate in rates], color=color, label=trace.traffic.upper())
        if trace.traffic == "pcp":
            for drain in range(ceil(trace.times[0] / DRAIN_EVERY), ceil(trace.times[-1] / DRAIN_EVERY)):
                axes.axvline(drain * DRAIN_EVERY, color="#777777", linewidth=0.8, linestyle=":")
    axes.set_xlim(3, trace.times[-1])
    axes.set_title("A PCP flow that competes with a CUBIC flow (Mb/s)")
    axes.legend(loc="upper right", ncols=2, frameon=True)


def _flows(result: Run, case: str) -> list[Trace]:
    return traces(result, case=case, seed=first_seed(result))
