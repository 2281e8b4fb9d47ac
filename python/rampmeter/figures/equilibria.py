"""Equilibria of Scalable TCP: response curves, marking and their crossing. Theory with simulated points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib import pyplot, rc_context

from rampmeter.figures.along import number
from rampmeter.figures.figure import Drawing
from rampmeter.figures.style import RULES, name_lines, note, plain_log
from rampmeter.figures.traces import marked_share, values
from rampmeter.running import Run
from rampmeter.theory.delay import Array
from rampmeter.theory.marking import AmongBatches, Batches, Gaussian, GaussianAmongBatches, Marking, Poisson
from rampmeter.theory.stable import conventional_rate, equilibrium, mean_rate, parameters, rate, timer_variance

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
"""Colors of round trips, bursts or numbers of flows, in their order."""

MARKERS = ["o", "s", "^", "D"]

DASHED: Any = {"linewidth": 1.2, "linestyle": (0, (4, 1.6))}

DOTTED: Any = {"linewidth": 1.4, "linestyle": (0, (1, 1.2))}

PACKET = 8 * 1000.0
"""Bits of a packet."""

PAYLOAD = 8 * 946.0
"""Bits of data in a packet."""

SHARING = 10.0
"""S of the simulated flows, packets per second."""

PHI = 1.1
"""phi of the simulated routers."""

THETA = 0.95
"""theta of the simulated routers that have no traffic except the flows."""

CAPACITY = 20e6 / PACKET
"""Capacity of the links of these flows, packets per second."""

OTHER = 0.4
"""The load of the bursts, as a fraction of the virtual queue's rate."""

GAIN, CAP = 0.02, 0.125
"""Increase and maximum decrease of the simulated flows."""

DRAINED = 20e6 / PACKET
"""The virtual queue's rate, packets per second."""

RESPONDING = 20
"""Number of flows of Stable TCP that compete with the bursts."""

HANDSHAKE = 0.176
"""The load that handshakes add to simulated transfers of a single packet."""

SMOOTH = Gaussian(PHI, timer_variance(0.25, 3.0))
"""Marking of few flows, whose timers are clamped: each sends several packets within the virtual queue's memory."""

Point = tuple[float, float]


def responses(result: Run) -> Drawing:
    """Draw the response curves of both TCPs, and the rates of simulated flows."""
    curves: list[tuple[str, str, Callable[[Array, float], Array]]] = [
        ("stable", "Stable TCP: packets/s", lambda p, _: rate(p, SHARING)),
        ("newreno", "NewReno with ECN: packets/s", conventional_rate),
    ]
    with rc_context(RULES):
        figure, panels = pyplot.subplots(1, 2, figsize=(9.8, 4.6), sharex=True, sharey=True, layout="constrained")
        for axes, (scheme, title, _) in zip(panels, curves, strict=True):
            for place, (rtt, points) in enumerate(responses_of(result, scheme).items()):
                drawn = {"color": COLOURS[place], "markersize": 6}
                axes.plot(*zip(*points, strict=True), MARKERS[place], label=f"{rtt:g} ms", clip_on=False, **drawn)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_title(title)
            axes.set_xlabel("packets marked (%)")
        p = np.geomspace(0.01, 0.99, 400)
        rtts = [number(rtt) for rtt in values(result, "path")]
        for axes, (scheme, _, curve) in zip(panels, curves, strict=True):
            shown = [(0.0, "black")] if scheme == "stable" else list(zip(rtts, COLOURS, strict=False))
            for rtt, color in shown:
                axes.plot(100 * p, curve(p, rtt / 1e3), color=color, linewidth=1.2, zorder=1)
            axes.legend(loc="lower left", title="round trip", alignment="left")
        panels[0].set_ylim(5, 2000)
        panels[0].set_xlim(1, 100)
        for axis in [panels[0].xaxis, panels[1].xaxis, panels[0].yaxis]:
            plain_log(axis)
        off = max(
            abs(x / curve - 1)
            for points in responses_of(result, "stable").values()
            for p, x in points
            for curve in [float(rate(np.array(p / 100), SHARING))]
        )
        varied = max(
            abs(x / mean_rate(p / 100, SHARING, parameters(GAIN, CAP, SHARING, rtt / 1e3)[1]) - 1)
            for rtt, points in responses_of(result, "stable").items()
            for p, x in points
        )
        note(
            figure,
            "Points: long-lived flows on 20 Mb/s with virtual-queue marking, packets of 1000 bytes; 5 to 200 flows, "
            "means of all flows over 40 s.\nLeft: S (1 - p) / p with S = 10 packets/s, one curve for all round trips. "
            f"The largest deviation is {100 * off:.0f}%, or\n{100 * varied:.0f}% if the theory includes the variation "
            "of windows. Right: √(2 (1 - p) / p) / T. NewReno's window is a whole number of packets:\nat one packet it "
            "cannot be halved, and all its packets are marked.",
        )
    return figure


def crossing(result: Run) -> Drawing:
    """Draw where the response curves of all flows cross the marking function, and the simulated equilibria."""
    law, found = Batches(PHI), _by_flows(result)
    loads, counts = np.linspace(0.005, 0.9995, 600), np.geomspace(4, 250, 60)
    drains = THETA * CAPACITY
    with rc_context(RULES):
        figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(12.4, 4.5), layout="constrained")
        left.plot(100 * THETA * loads, 100 * law.probability(loads), color="black")
        left.plot(100 * THETA * loads, 100 * Poisson(PHI).probability(loads), color="black", **DASHED)
        left.plot(100 * THETA * loads, 100 * SMOOTH.probability(loads), color="black", **DOTTED)
        ends = []
        for flows, color in zip([5, 20, 50, 200], COLOURS, strict=False):
            pull = flows * SHARING / drains
            wanted = pull / (pull + loads)
            left.plot(100 * THETA * loads, 100 * wanted, color=color, linewidth=1.2)
            ends.append((f"{flows} flows", 100 * THETA, 100 * float(wanted[-1])))
        for points in found.values():
            left.plot([u for _, u, _ in points], [p for _, _, p in points], "o", color="#555555", markersize=3.5)
        left.set_xlim(0, 100 * THETA)
        left.set_ylim(0, 100)
        left.set_title("Marking, and the response of all flows (%)")
        left.set_xlabel("load of the link (%)")
        name_lines(left, ends, colors={name: color for (name, *_), color in zip(ends, COLOURS, strict=False)})
        for axes, column, title in [(middle, 1, "Utilization (%)"), (right, 2, "Packets marked (%)")]:
            laws: list[tuple[Marking, Any]] = [(law, {"linewidth": 1.4}), (Poisson(PHI), DASHED), (SMOOTH, DOTTED)]
            for one, drawn in laws:
                settled = [_settled(one, count, drains)[column - 1] for count in counts]
                axes.plot(counts, settled, color="black", **drawn)
            for place, (rtt, points) in enumerate(found.items()):
                axes.plot(
                    [point[0] for point in points],
                    [point[column] for point in points],
                    MARKERS[place],
                    color=COLOURS[place],
                    label=f"{rtt:g} ms",
                )
            axes.set_xscale("log")
            plain_log(axes.xaxis)
            axes.set_title(title)
            axes.set_xlabel("flows")
        middle.set_ylim(0, 100)
        right.set_ylim(bottom=0)
        middle.legend(loc="lower right", title="round trip", alignment="left")
        note(
            figure,
            "20 Mb/s, S = 10 packets/s, virtual-queue marking with $\\theta$ = 0.95 and $\\phi$ = 1.1. Solid: "
            "Poisson arrivals of packets of one size. Dashed: exponential service times (M/M/1), as in the "
            f"report.\nDotted: Gaussian arrivals with the variance {SMOOTH.variance:.2f} of the senders' clamped "
            "timers, the limit of few flows. Colored: the p at which that many flows together send the load on the "
            "axis. Utilization\nis where the curves cross. Points: simulated, long-lived flows, means over 40 s.",
        )
    return figure


def marking(result: Run) -> Drawing:
    """Draw marking against load of Poisson and of bursty arrivals, and the largest stable gain."""
    loads = np.linspace(0.01, 0.99, 300)
    bursts = [int(burst) for burst in values(result, "burst")]
    found = _marked(result)
    with rc_context(RULES):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(9.8, 4.7), layout="constrained")
        for axes, what in [(left, "probability"), (right, "margin")]:
            report: list[tuple[Marking, Mapping[str, Any]]] = [(Poisson(PHI), {"color": "black", **DASHED})]
            for burst, color in zip(bursts, COLOURS, strict=False):
                report.append((Gaussian(PHI, burst), {"color": color, **DASHED}))
                report.append((Batches(PHI, burst), {"color": color, "linewidth": 1.4}))
            for law, drawn in report:
                heights = getattr(law, what)(loads)
                axes.plot(100 * loads, 100 * heights if what == "probability" else heights, **drawn)
            axes.set_xlabel("load of the virtual queue (%)")
            axes.set_xlim(0, 100)
        for place, (burst, points) in enumerate(found.items()):
            name = "single packets" if burst == 1 else f"bursts of {burst}"
            left.plot(*zip(*points, strict=True), MARKERS[place], color=COLOURS[place], label=name, markersize=6)
        left.plot([], [], color="black", label="M/M/1", **DASHED)
        left.set_ylim(0, 100)
        left.set_title("Packets marked (%)")
        left.legend(loc="upper left")
        right.set_ylim(0, 1.5)
        right.set_title("The largest stable gain, p / (y p')")
        note(
            figure,
            "$\\phi$ = 1.1. Points: transfers of 1, 4 or 16 packets in one burst, at Poisson times, through a "
            "virtual queue of 20 Mb/s, 60 s each.\nSolid: the exact law of such batches. Dashed: the report's two "
            "laws, M/M/1, and Gaussian arrivals with the variance of the batches of\nthe same color. Right, theory "
            "alone: at a given load burstier traffic allows a higher gain.",
        )
    return figure


def burstiness(result: Run) -> Drawing:
    """Draw utilization, rates and the largest stable gain against the burstiness of other traffic."""
    sizes = np.geomspace(1, 64, 40)
    pull = RESPONDING * SHARING / DRAINED
    others = OTHER * (1 + HANDSHAKE / sizes)
    exact: list[Marking] = [AmongBatches(PHI, other, float(size)) for other, size in zip(others, sizes, strict=True)]
    report: list[Marking] = [
        GaussianAmongBatches(PHI, other, float(size)) for other, size in zip(others, sizes, strict=True)
    ]
    rows = [
        (row["burst"], 100 * row["utilization"] / 0.5, row["goodput_mean_bps"] / PAYLOAD)
        for row in result.runs.join(result.links, [*result.about["axes"]]).to_pylist()
    ]
    with rc_context(RULES):
        figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(11.6, 4.2), sharex=True, layout="constrained")
        for laws, drawn in [(exact, {"linewidth": 1.4}), (report, DASHED)]:
            loads = [equilibrium(law, pull, other) for law, other in zip(laws, others, strict=True)]
            marked = [float(law.probability(np.array(load))) for law, load in zip(laws, loads, strict=True)]
            gains = [float(law.margin(np.array(load))) for law, load in zip(laws, loads, strict=True)]
            left.plot(sizes, [100 * load for load in loads], color=COLOURS[0], **drawn)
            middle.plot(sizes, [float(rate(np.array(p), SHARING)) for p in marked], color=COLOURS[0], **drawn)
            right.plot(sizes, gains, color=COLOURS[0], **drawn)
        for axes, column in [(left, 1), (middle, 2)]:
            axes.plot([row[0] for row in rows], [row[column] for row in rows], "o", color=COLOURS[1], markersize=6)
        left.set_ylim(40, 100)
        middle.set_ylim(bottom=0)
        right.set_yscale("log")
        plain_log(right.yaxis)
        left.set_title("Load of the virtual queue (%)")
        middle.set_title("A flow's rate (packets/s)")
        right.set_title("The largest stable gain, p / (y p')")
        for axes in [left, middle, right]:
            axes.set_xscale("log", base=2)
            axes.set_xticks([1, 4, 16, 64], ["1", "4", "16", "64"])
            axes.set_xlabel("packets per burst of the other traffic")
        note(
            figure,
            f"{RESPONDING} flows of Stable TCP with S = 10 packets/s and an unresponsive load of {100 * OTHER:g}% "
            "in bursts at Poisson times; handshakes add 18% to it if bursts are single packets. A virtual queue "
            "of\n20 Mb/s, $\\phi$ = 1.1. Solid: the crossing of the flows' responses with the exact law of single "
            "packets among batches. Dashed: with the report's Gaussian law\nof the variance of both together. Right: y "
            "is the responsive part of the load. Points: simulated, 80 ms, 50 s, two seeds per point.",
        )
    return figure


def _settled(law: Marking, flows: float, drains: float) -> Point:
    """Return utilization and marking in percent where `flows` settle."""
    load = equilibrium(law, flows * SHARING / drains)
    return 100 * THETA * load, 100 * float(law.probability(np.array(load)))


def _rows(result: Run) -> list[dict[str, Any]]:
    joined = result.runs.join(result.links, [*result.about["axes"]]).to_pylist()
    return sorted(joined, key=lambda row: [row[axis] for axis in result.about["axes"] if axis in ("flows", "load")])


def responses_of(result: Run, scheme: str) -> dict[float, list[Point]]:
    """Return, by round trip, the percentage of marked packets and the mean rate of a flow in packets per second."""
    found: dict[float, list[Point]] = {number(rtt): [] for rtt in values(result, "path")}
    for row in _rows(result):
        if row["scheme"] == scheme and row["marked_packets"]:
            marked = 100 * marked_share(row)
            found[number(row["path"])].append((marked, row["goodput_mean_bps"] / PAYLOAD))
    return {rtt: points for rtt, points in found.items() if points}


def _by_flows(result: Run) -> dict[float, list[tuple[int, float, float]]]:
    """Return, by round trip, the number of flows of Stable TCP, the utilization and the marks, in percent."""
    found: dict[float, list[tuple[int, float, float]]] = {number(rtt): [] for rtt in values(result, "path")}
    for row in _rows(result):
        if row["scheme"] == "stable":
            marked = 100 * marked_share(row)
            found[number(row["path"])].append((row["flows"], 100 * row["utilization"], marked))
    return found


def _marked(result: Run) -> dict[int, list[Point]]:
    """Return, by size of bursts, loads and marked packets in percent; only packets with data are marked."""
    found: dict[int, list[Point]] = {burst: [] for burst in values(result, "burst")}
    for row in _rows(result):
        found[row["burst"]].append((100 * row["utilization"] / 0.5, 100 * marked_share(row)))
    return found
