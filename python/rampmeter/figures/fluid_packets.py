"""VCP's packets compared with its fluid model, from the same windows: load and convergence to equal shares.

The model begins where the simulated windows first sum up to 80% of gamma C T, with these windows as its history.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import pyplot, rc_context

from rampmeter.figures.figure import Drawing
from rampmeter.figures.style import RULES, name_lines, note, plain_log
from rampmeter.figures.traces import traces, values
from rampmeter.running import Run
from rampmeter.theory.delay import Array
from rampmeter.theory.vcp import GAMMA, KAPPA, STEPS, Network
from rampmeter.theory.vcp_saw import Saw

ROUND = 0.2
"""T = t_rho, in seconds."""

PACKET = 1000.0
"""Bytes."""

BEGIN = 0.8
"""The load at which multiplicative growth ends (section III-B)."""

CUT = 0.05
"""A window that falls by more than this fraction between two samples was cut."""

SHOWN = "20 Mb/s"
"""The link of the upper panels."""

OVER = 3.0
"""The drawn time of differences, in units of P round trips."""

FLUID: Any = {"color": "black", "linewidth": 1.2, "linestyle": (0, (4, 1.6))}

PACKETS = "#0072B2"

FIRST = [4, 8, 12, 16, 20]
"""The unequal initial windows of the flows, packets."""

IN_TURN = ["#CC79A7", "#0072B2", "#009E73", "#E69F00", "#D55E00"]
"""Colors of flows, from the smallest initial window to the largest."""

SHARES = ["#E69F00", "#009E73", "#0072B2", "#CC79A7"]
"""Colors of links, from the slowest."""


@dataclass(frozen=True)
class Laid:
    """A run from when its load passes 80%."""

    share: float
    """P, in packets."""
    times: Array
    """In round trips since then."""
    windows: Array
    """In packets, one row per flow, sorted by the initial window."""

    @property
    def load(self) -> Array:
        """Return the sum of the windows divided by gamma C T."""
        load: Array = self.windows.mean(axis=0) / self.share
        return load

    @property
    def shares(self) -> Array:
        """Return each window divided by the mean window."""
        shares: Array = self.windows / self.windows.mean(axis=0)
        return shares

    @property
    def apart(self) -> Array:
        """Return the remaining fraction of the initial differences between shares: 1 at first, 0 when all are equal.

        It is the projection of the differences on the initial ones.
        """
        first = self.shares[:, 0] - 1
        apart: Array = first @ (self.shares - 1) / (first @ first)
        return apart

    def between_cuts(self) -> Laid:
        """Leave out the round trip after each cut, in which the overload has reached only some flows."""
        times = np.concatenate([self.times[1:][cut] for cut in self._cuts()])
        since = self.times[:, None] - times
        kept = ~((since > -1e-9) & (since < 1)).any(axis=1)
        return Laid(self.share, self.times[kept], self.windows[:, kept])

    def fluid(self) -> Laid:
        """Return the model's solution from this state."""
        flows = len(self.windows)
        capacity = self.share * flows / (GAMMA * ROUND)
        network = Network([capacity], [[0]] * flows, ROUND)
        solved = network.flows(until=float(self.times[-1]), steps=STEPS, start=self.windows[:, 0].tolist())
        return Laid(self.share, solved.times, np.exp(solved.states.T))

    def decay(self, over: float = 2.5) -> float:
        """Measure the rate per round trip at which the shares' differences decay, over `over` times P round trips."""
        within = self.times <= over * self.share
        rate, _ = np.polyfit(self.times[within], np.log(np.abs(self.apart[within])), 1)
        return -float(rate)

    def settled(self) -> Laid:
        """Return the second half of the run."""
        late = self.times >= self.times[-1] / 2
        return Laid(self.share, self.times[late], self.windows[:, late])

    def saw(self) -> tuple[float, float]:
        """Measure the mean window before cuts and after them."""
        cuts = self._cuts()
        return float(self.windows[:, :-1][cuts].mean()), float(self.windows[:, 1:][cuts].mean())

    def cycle(self) -> float:
        """Measure the mean time between two cuts of a flow, in round trips."""
        return float(np.concatenate([np.diff(self.times[1:][cut]) for cut in self._cuts()]).mean())

    def _cuts(self) -> Any:
        """Return where a flow's window was cut since the sample before, one row per flow."""
        return self.windows[:, 1:] < (1 - CUT) * self.windows[:, :-1]


def lay(result: Run, rate: str, start: str) -> Laid:
    """Return a run of the first seed from when its load passes 80%."""
    found = traces(result, rate=rate, start=start, seed=int(values(result, "seed")[0]))
    begin, end = max(trace.times[0] for trace in found), min(trace.times[-1] for trace in found)
    times = np.array([time for time in found[0].times if begin <= time <= end])
    windows = np.array([np.interp(times, trace.times, trace.windows) for trace in found]) / PACKET
    share = GAMMA * ROUND * float(rate.split()[0]) * 1e6 / 8 / PACKET / len(found)
    since = int(np.argmax(windows.mean(axis=0) >= BEGIN * share))
    windows = windows[np.argsort(windows[:, since])]
    return Laid(share, (times[since:] - times[since]) / ROUND, windows[:, since:])


def draw(result: Run) -> Drawing:
    """Draw the load, the shares, their remaining differences, and the final windows of packets and model."""
    rates = values(result, "rate")
    unequal = [lay(result, rate, "unequal") for rate in rates]
    with rc_context(RULES):
        figure, panels = pyplot.subplots(2, 2, figsize=(10.4, 7.8), layout="constrained")
        _fill(panels[0, 0], lay(result, SHOWN, "equal"))
        _shares(panels[0, 1], lay(result, SHOWN, "unequal"))
        _apart(panels[1, 0], unequal)
        _ends(panels[1, 1], [lay(result, rate, "equal") for rate in rates])
        note(
            figure,
            "Five flows, T = $t_\\rho$ = 200 ms, P = $\\gamma$CT/N; initial windows equal (top left, bottom right) or "
            "as 1 to 5. Time since the windows first sum\nup to 80% of $\\gamma$CT; dashed: the model (9) from these "
            "windows, $\\kappa$ = 0.25. Lower right: windows before and after cuts and their mean\nin the second half "
            "of 200 s; lines: from the protocol's rules. Shares and differences: without the round trip after each "
            "cut;\npackets as the paper sends them, not spread over the round trip; the first run.",
        )
    return figure


def _fill(axes: Any, laid: Laid) -> None:
    """Draw the aggregate window."""
    until = min(69.0, laid.times[-1])
    model = laid.fluid()
    lines = []
    for name, each, how in [("model", model, FLUID), ("packets", laid, {"color": PACKETS, "linewidth": 1.5})]:
        within = each.times <= until
        axes.plot(each.times[within], 100 * each.load[within], **how)
        lines.append((name, until, 100 * float(each.load[within][-1])))
    axes.axhline(100, color="#777777", linewidth=1)
    axes.set_xlim(0, until)
    axes.set_ylim(78, 108)
    axes.set_title(f"The link fills, P = {laid.share:g}: load (% of $\\gamma$CT)")
    axes.set_xlabel("time (round trips)")
    name_lines(axes, [*lines, ("overload", until, 100.0)], colors={"packets": PACKETS, "overload": "#777777"})


def _shares(axes: Any, laid: Laid) -> None:
    """Draw each flow's share."""
    until = min(400.0, laid.times[-1])
    model, calm = laid.fluid(), laid.between_cuts()
    for packets, color, first in reversed(list(zip(calm.shares, IN_TURN, FIRST, strict=True))):
        axes.plot(calm.times, packets, color=color, linewidth=1.6, label=str(first))
    for each in model.shares:
        axes.plot(model.times, each, **FLUID)
    axes.set_xlim(0, until)
    axes.set_ylim(0, 1.8)
    axes.legend(loc="upper right", title="initial window (packets)", ncols=5, columnspacing=1.0, handlelength=1.2)
    axes.set_title(f"Five unequal flows, P = {laid.share:g}: window divided by the mean")
    axes.set_xlabel("time (round trips)")


def _apart(axes: Any, runs: list[Laid]) -> None:
    """Draw the remaining differences."""
    for laid, color in zip(runs, SHARES, strict=False):
        calm, model = laid.between_cuts(), laid.fluid()
        for each, how in [(calm, {"color": color, "linewidth": 1.6}), (model, FLUID)]:
            within = each.times <= OVER * laid.share
            axes.plot(each.times[within], 100 * np.abs(each.apart[within]), **how)
        end = (OVER * laid.share, 100 * np.exp(-OVER))
        how = {"color": color, "fontweight": "bold", "ha": "center", "va": "top"}
        name = f"P = {laid.share:g}" if laid is runs[-1] else f"{laid.share:g}"
        axes.annotate(name, end, xytext=(0, -8), textcoords="offset points", **how)
    axes.set_yscale("log")
    axes.set_xlim(0, 1.1 * OVER * max(laid.share for laid in runs))
    axes.set_ylim(2, 110)
    axes.set_title("Remaining difference (%)")
    axes.set_xlabel("time (round trips)")
    plain_log(axes.yaxis)


def _ends(axes: Any, runs: list[Laid]) -> None:
    """Draw the final oscillation of the packets and w*."""
    shares = np.geomspace(min(run.share for run in runs) / 1.25, max(run.share for run in runs) * 1.25, 61)
    axes.plot(shares, 100 * (1 + 1 / (KAPPA * shares)), **FLUID)
    saws = [Saw(share) for share in shares]
    lines = {
        "before cuts": [saw.peak for saw in saws],
        "mean": [saw.mean for saw in saws],
        "after cuts": [saw.trough for saw in saws],
    }
    colors = {"before cuts": "#D55E00", "mean": PACKETS, "after cuts": "#009E73"}
    for name, line in lines.items():
        axes.plot(shares, 100 * np.array(line) / shares, color=colors[name])
    for laid in runs:
        settled = laid.settled()
        peak, trough = settled.saw()
        for height, name in [(peak, "before cuts"), (settled.load.mean() * laid.share, "mean"), (trough, "after cuts")]:
            axes.plot(laid.share, 100 * height / laid.share, "o", color=colors[name])
    ends = [(name, shares[-1], 100 * line[-1] / shares[-1]) for name, line in lines.items()]
    axes.set_xscale("log")
    axes.set_xlim(shares[0], shares[-1])
    axes.set_ylim(80, 125)
    axes.set_title("Final windows (% of $\\gamma$CT)")
    axes.set_xlabel("P (packets)")
    plain_log(axes.xaxis)
    name_lines(axes, [*ends, ("w* of the model", shares[-1], 100 + 100 / (KAPPA * shares[-1]))], colors=colors)
