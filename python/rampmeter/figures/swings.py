"""The onset of oscillation in Scalable TCP: gains around the bound, in the fluid model and with packets."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean, pstdev
from typing import Any

import numpy as np
from matplotlib import pyplot, rc_context

from rampmeter.figures.figure import Drawing
from rampmeter.figures.style import RULES, note
from rampmeter.figures.traces import link_trace, values
from rampmeter.running import Run
from rampmeter.theory.marking import Batches
from rampmeter.theory.stable import Loop

ROUND_TRIPS: Mapping[str, list[float]] = {"equal": [0.1], "mixed": [0.02, 0.04, 0.1, 0.2]}
"""Round trips in seconds; each has the same number of flows."""

NAMES = {"equal": "100 ms", "mixed": "20 to 200 ms"}

COLOURS = {"equal": "#0072B2", "mixed": "#D55E00"}

FLOWS, SHARING, DRAINED, PHI = 20, 74.0, 12_500.0, 1.03
"""Settings of the scenario; rates in packets per second."""

BITS = 8000.0
"""Bits of a packet."""

OVER = 0.05
"""Averaging interval of rates in seconds: an eighth of the period of the first oscillation at 100 ms."""

WARMUP = 1 / 3
"""The fraction of a run before its measured phase."""

SHOWN = 6.0
"""The drawn time of rates, seconds."""


def loop(mix: str) -> Loop:
    """Return the scenario's link in theory."""
    rtts = ROUND_TRIPS[mix]
    return Loop(Batches(PHI), rtts, [FLOWS * SHARING / DRAINED / len(rtts)] * len(rtts))


def draw(result: Run) -> Drawing:
    """Draw the variation of the link's rate against the gain, and rates below and above the bound."""
    gains = [float(gain) for gain in values(result, "gain")]
    curve = np.linspace(0.02, max(gains), 40).tolist()
    calm, wild = min(gains, key=lambda gain: abs(gain - 0.06)), min(gains, key=lambda gain: abs(gain - 0.4))
    with rc_context(RULES):
        figure, panels = pyplot.subplot_mosaic(
            [["swing", "equal calm", "mixed calm"], ["swing", "equal wild", "mixed wild"]],
            figsize=(12, 5.2),
            width_ratios=[1.5, 1, 1],
            layout="constrained",
        )
        axes = panels["swing"]
        criticals = []
        for mix, color in COLOURS.items():
            model = loop(mix)
            longest = max(model.rtts)
            swings = 100 * model.swing(curve, until=90 * longest, over=50 * longest, steps=8)
            axes.plot(curve, swings, color=color, linewidth=1.4)
            points = [100 * swing(result, mix, gain) for gain in gains]
            axes.plot(gains, points, "o" if mix == "equal" else "s", color=color, label=NAMES[mix], markersize=6)
            criticals.append(f"{model.critical_gain():.2f} at {NAMES[mix]}")
            axes.axvline(model.critical_gain(), color=color, linewidth=1, linestyle=(0, (4, 1.6)))
            for kind, gain in [("calm", calm), ("wild", wild)]:
                _rates(panels[f"{mix} {kind}"], result, mix, gain, color)
        bound = loop("equal").bound
        axes.axvline(bound, color="black", linewidth=1)
        axes.annotate(
            "p / (y p')",
            (bound, 0.97),
            xycoords=("data", "axes fraction"),
            xytext=(-4, 0),
            textcoords="offset points",
            ha="right",
            va="top",
        )
        axes.set_xlim(0, max(gains) * 1.02)
        axes.set_ylim(bottom=0)
        axes.set_title("Standard deviation of the link's rate (% of its mean)")
        axes.set_xlabel("gain a")
        axes.legend(loc="center right", title="round trips", alignment="left", borderaxespad=1.5)
        for mix in COLOURS:
            panels[f"{mix} wild"].set_xlabel("time (s)")
        note(
            figure,
            f"{FLOWS} flows on 200 Mb/s, the virtual queue drains half of it, $\\phi$ = {PHI:g}: a load of "
            f"{100 * loop('equal').load:.0f}% with {100 * loop('equal').marked:.0f}% marked. Points: simulated "
            "packets, 60 s without the first 20 s; rates are\nmeans over 50 ms, in which Poisson "
            f"arrivals alone vary by {100 / (OVER * DRAINED * loop('equal').load) ** 0.5:.0f}%. Lines: the fluid "
            "model, without randomness. Black: the bound for any mix; dashed: where the fluid model itself\nloses "
            f"stability, {' and '.join(criticals)} (5 flows each of 20, 40, 100 and 200 ms). Right: rates of the "
            "link divided by the virtual queue's rate.",
        )
    return figure


def swing(result: Run, mix: str, gain: float) -> float:
    """Return the standard deviation of the link's rate divided by its mean, after the warm-up."""
    rates = _after(result, mix, gain)[1]
    return pstdev(rates) / fmean(rates)


def _after(result: Run, mix: str, gain: float) -> tuple[list[float], list[float]]:
    """Return times and rates after the warm-up, of the first run."""
    times, rates = link_trace(result, "bottleneck", mix=mix, gain=gain, seed=values(result, "seed")[0]).rates(OVER)
    begin = sum(time < WARMUP * times[-1] for time in times)
    return times[begin:], rates[begin:]


def _rates(axes: Any, result: Run, mix: str, gain: float, color: str) -> None:
    times, rates = _after(result, mix, gain)
    shown = [(time, 100 * each / (DRAINED * BITS)) for time, each in zip(times, rates, strict=True)]
    shown = [(time, each) for time, each in shown if time < times[0] + SHOWN]
    axes.plot(*zip(*shown, strict=True), color=color, linewidth=1.1)
    axes.axhline(100 * loop(mix).load, color="#777777", linewidth=1, linestyle=(0, (4, 1.6)))
    axes.set_ylim(0, 150)
    axes.set_xlim(shown[0][0], shown[-1][0])
    axes.set_title(f"{NAMES[mix]}, a = {gain:g}: rate (%)")
