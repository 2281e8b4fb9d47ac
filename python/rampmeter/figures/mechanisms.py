"""PCP's three ideas over time: its window at the start, flows that share a link, and drains beside a CUBIC flow."""

from __future__ import annotations

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

DRAIN = 22.5
"""A moment at which flows drain the queue, seconds."""

AROUND = (-0.1, 0.3)
"""The drawn time around it, seconds."""

LINK = "40 Mb/s, a round trip of 25 ms, a drop-tail buffer of 100 packets; simulated, one run."


def draw_window(result: Run) -> Drawing:
    """Draw the rate of a flow without and with a history on an idle path."""
    with rc_context({**RULES, "lines.linewidth": 1.2}):
        figure, panels = pyplot.subplots(1, 2, figsize=(10.4, 3.2), layout="constrained")
        for axes, case in zip(panels, STARTS, strict=True):
            (trace,) = _flows(result, case)
            begin = trace.times[0]
            times = [1e3 * (time - begin) for time in trace.times]
            axes.plot(times, [rate / 1e6 for rate in trace.controller_rates], color=IN_TURN[0], label="rate")
            times, rates = trace.rates(0.01)
            times = [1e3 * (time - begin) for time in times]
            axes.plot(times, [rate / 1e6 for rate in rates], color="#777777", label="delivered")
            axes.set_xlim(0, 1e3 * SHOWN)
            axes.set_ylim(0, 62)
            axes.set_title(f"{STARTS[case]} (Mb/s)")
            axes.set_xlabel("time since its start (ms)")
            axes.legend(loc="lower right")
        note(figure, f"{LINK} The controller's rate, and the delivery rate over 10 ms.")
    return figure


def draw_shares(result: Run) -> Drawing:
    """Draw the rates of flows that join one after another, and their queue."""
    with rc_context({**RULES, "lines.linewidth": 0.9}):
        figure, (rates, queue) = pyplot.subplots(1, 2, figsize=(10.4, 3.2), layout="constrained")
        for trace, color in zip(_flows(result, "join"), IN_TURN, strict=True):
            times, values = trace.rates(0.2)
            rates.plot(times, [rate / 1e6 for rate in values], color=color)
        rates.set_ylim(0, 46)
        rates.set_title("Four flows that join one after another (Mb/s)")
        link = link_trace(result, "bottleneck", case="join", seed=first_seed(result))
        queue.plot(link.times, link.packets, color="black", linewidth=0.8)
        queue.set_title("Their queue (packets)")
        queue.set_ylim(0, 104)
        queue.set_yscale("symlog", linthresh=10)  # shows a few packets and a full buffer
        queue.set_yticks([0, 5, 10, 100], ["0", "5", "10", "100"])
        for axes in (rates, queue):
            axes.set_xlim(0, link.times[-1])
            axes.set_xlabel("time (s)")
        note(figure, f"{LINK} A flow without history starts every 8 s; delivery rates over 0.2 s.")
    return figure


def draw_drains(result: Run) -> Drawing:
    """Draw a PCP flow beside a CUBIC flow, and the queue in a drain with and without it."""
    with rc_context({**RULES, "lines.linewidth": 1.2}):
        figure, (rates, queue) = pyplot.subplots(1, 2, figsize=(10.4, 3.2), layout="constrained")
        for trace in _flows(result, "cubic"):
            times, values = trace.rates(0.2)
            color = CUBIC if trace.traffic == "cubic" else IN_TURN[0]
            rates.plot(times, [rate / 1e6 for rate in values], color=color, label=trace.traffic.upper())
        rates.set_xlim(3, trace.times[-1])
        rates.set_ylim(0, 46)
        rates.set_title("A PCP flow beside a CUBIC flow (Mb/s)")
        rates.set_xlabel("time (s)")
        rates.legend(loc="upper right", ncols=2, frameon=True)
        for case, label, color in [("cubic", "a PCP and a CUBIC flow", CUBIC), ("join", "three PCP flows", IN_TURN[0])]:
            _drain(queue, result, case, label, color)
        queue.set_xlim(1e3 * AROUND[0], 1e3 * AROUND[1])
        queue.set_ylim(0, None)
        queue.axvspan(0, 100, color="#dddddd")
        queue.set_title("The queue around one drain, divided by that before it")
        queue.set_xlabel(f"time after {DRAIN} s (ms)")
        queue.legend(loc="lower left")
        note(figure, f"{LINK} The PCP flow starts at 5 s. Right: shaded, PCP flows send a quarter.")
    return figure


def _drain(axes: Any, result: Run, case: str, label: str, color: str) -> None:
    trace = link_trace(result, "bottleneck", case=case, seed=first_seed(result))
    points = zip(trace.times, trace.packets, strict=True)
    near = [(time - DRAIN, queue) for time, queue in points if AROUND[0] <= time - DRAIN <= AROUND[1]]
    before = [queue for time, queue in near if time < 0]
    mean = max(sum(before) / len(before), 1.0)
    axes.plot([1e3 * time for time, _ in near], [queue / mean for _, queue in near], color=color, label=label)


def _flows(result: Run, case: str) -> list[Trace]:
    return traces(result, case=case, seed=first_seed(result))
