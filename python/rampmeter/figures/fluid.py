"""The fluid model of VCP: oscillation, convergence and final rates. Theory without packets."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import pyplot, rc_context

from rampmeter.figures.figure import Drawing
from rampmeter.figures.style import RULES, name_lines, note, plain_log
from rampmeter.theory.max_min import max_min
from rampmeter.theory.vcp import Bottleneck, Network, aggregate, critical_kappa, onset, oscillation, smooth_kappa

BOUND = 0.5
"""The kappa of Theorem 1."""

SHARES = {100.0: "#0072B2", 10.0: "#D55E00", 4.0: "#009E73"}
"""A flow's share of gamma C T in packets, and its color."""

KAPPAS = {0.1: "#56B4E9", 0.25: "#0072B2", 0.5: "#009E73", 1.0: "#E69F00", 1.5: "#D55E00", 2.0: "#CC79A7"}
"""The values of kappa of the convergence curves, and their colors."""

FLOWS = 10
"""The number of flows that share the bottleneck; the model's w/w* is the same for any number."""

LOT = Network(capacities=[4000, 2800, 3200], paths=[[0, 1, 2], [0], [0], [1], [2], [2], [2], [2]], rtt=0.1)
"""A parking lot: one long flow, two across the first link, one across the second, four across the third."""

UNTIL = 800.0
"""The drawn time of rates, round trips."""

KINDS = {"long": (0, "#D55E00"), "first link": (1, "#0072B2"), "second": (3, "#009E73"), "third": (4, "#CC79A7")}
"""The kinds of flows in the parking lot: the index of one flow of each kind, and its color."""


def bottleneck(share: float, kappa: float) -> Bottleneck:
    """Return a bottleneck whose flows have `share` packets of gamma C T each."""
    return Bottleneck(capacity=share * FLOWS, rtt=1.0, flows=FLOWS, kappa=kappa, gamma=1.0)


def draw() -> Drawing:
    """Draw amplitude and convergence against kappa, the bounds on kappa, and rates in a parking lot."""
    with rc_context(RULES):
        figure, panels = pyplot.subplots(2, 2, figsize=(10, 7.4), layout="constrained")
        _amplitudes(panels[0, 0])
        _convergence(panels[0, 1])
        _bounds(panels[1, 0])
        _rates(panels[1, 1])
        note(
            figure,
            "Equation (13) from one packet per flow, $\\alpha$ = 1, P = $\\gamma$CT/N. Oscillation: half of the "
            "difference between the maximum and the minimum w\nof the last 40 of 400 round trips. Dashed: where the "
            "linearized equation loses stability; dots: where disturbances of w*\nby 0.1% stop decaying; smooth: the "
            "largest $\\kappa$ without any oscillation. Lower right: (9) and (15), $\\kappa$ = 0.25, T = 100 ms,\n"
            "links of 4000, 2800 and 3200 packets/s with 2, 1 and 4 cross flows, and one flow over all links; dashed: "
            "max-min fair.",
        )
    return figure


def _amplitudes(axes: Any) -> None:
    """Theorem 1: remaining oscillation against kappa."""
    kappas = np.linspace(0.05, 2.0, 79).tolist()
    cases = [bottleneck(share, kappa) for share in SHARES for kappa in kappas]
    left = oscillation(cases, until=400).reshape(len(SHARES), -1)
    ends = []
    for (share, color), line in zip(SHARES.items(), left, strict=True):
        axes.plot(kappas, line, color=color)
        axes.axvline(critical_kappa(1 / share), color=color, linewidth=1, linestyle=(0, (4, 1.6)))
        ends.append((f"P = {share:g}", kappas[-1], line[-1]))
    _theorem(axes.axvline, axes)
    axes.set_xlim(0, 2)
    axes.set_ylim(bottom=0)
    axes.set_title("Sustained oscillation (fraction of w*)")
    axes.set_xlabel("$\\kappa$")
    name_lines(axes, ends, colors={f"P = {share:g}": color for share, color in SHARES.items()})


def _convergence(axes: Any) -> None:
    """Convergence of w to w* from one packet per flow."""
    solved = aggregate([bottleneck(10.0, kappa) for kappa in KAPPAS], until=60)
    for (kappa, color), line in zip(KAPPAS.items(), solved.states.T, strict=True):
        heights = np.exp(line) / bottleneck(10.0, kappa).equilibrium
        axes.plot(solved.times, heights, color=color, linewidth=1.4, label=f"$\\kappa$ = {kappa:g}")
    axes.set_yscale("log")
    axes.set_xlim(0, 60)
    axes.set_title("Convergence from one packet per flow, P = 10 (w/w*)")
    axes.set_xlabel("time (round trips)")
    axes.legend(loc="upper right", ncols=2)
    plain_log(axes.yaxis)


def _bounds(axes: Any) -> None:
    """Bounds on kappa: the theorem's, the exact one, and the simulated onset of oscillation."""
    shares = np.geomspace(1, 1000, 61)
    critical = [critical_kappa(1 / share) for share in shares]
    smooth = [smooth_kappa(1 / share) for share in shares]
    axes.plot(shares, critical, color="#0072B2", linestyle=(0, (4, 1.6)))
    axes.plot(shares, smooth, color="#E69F00")
    for share in [1.0, 3.0, 10.0, 100.0, 1000.0]:
        around = critical_kappa(1 / share) * np.array([0.85, 0.95, 1.05, 1.15])
        axes.plot(share, onset(bottleneck(share, BOUND), around.tolist()), "o", color="#0072B2")
    _theorem(axes.axhline, axes)
    axes.set_xscale("log")
    axes.set_xlim(1, 1000)
    axes.set_ylim(0, 3)
    axes.set_title("The largest stable $\\kappa$")
    axes.set_xlabel("P (packets)")
    plain_log(axes.xaxis)
    ends = [("critical", 1000.0, critical[-1]), ("Theorem 1", 1000.0, BOUND), ("smooth", 1000.0, smooth[-1])]
    name_lines(axes, ends, colors={"critical": "#0072B2", "smooth": "#E69F00"})


def _rates(axes: Any) -> None:
    """Theorem 2: rates in a parking lot, compared with the max-min fair rates."""
    solved = LOT.flows(until=UNTIL, steps=4)
    fair = max_min((LOT.gamma * np.array(LOT.capacities)).tolist(), LOT.paths)
    ends = []
    for name, (flow, color) in KINDS.items():
        rates = np.exp(solved.states[:, flow]) / LOT.rtt
        axes.plot(solved.times, rates, color=color, linewidth=1.4)
        axes.axhline(fair[flow], color=color, linewidth=1, linestyle=(0, (4, 1.6)))
        ends.append((name, UNTIL, rates[-1]))
    axes.set_xlim(0, UNTIL)
    axes.set_ylim(0, 1.25 * max(fair))
    axes.set_title("Rates in a parking lot (packets/s)")
    axes.set_xlabel("time (round trips)")
    name_lines(axes, ends, colors={name: color for name, (_, color) in KINDS.items()})


def _theorem(line: Any, axes: Any) -> None:
    line(BOUND, color="black", linewidth=1)
    if line == axes.axvline:
        axes.annotate(
            "Theorem 1",
            (BOUND, 0.94),
            xycoords=("data", "axes fraction"),
            xytext=(4, 0),
            textcoords="offset points",
        )
