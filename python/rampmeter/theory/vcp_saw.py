r"""VCP's sawtooth: the cycle of its three rules. The fluid model (VCP, section V) replaces them by one equation.

N flows of round trip T = t_rho share a link, each with P packets of gamma C T. Above a load of 80% they add alpha
packets per round trip. An interval whose load is 1 ends this phase: senders reduce their windows to beta and keep them
for a round trip (section III-E):

    peak ---.      /|      /|       peak:  P + LATE alpha
            |    /  |    /  |       fall:  (1 - beta) peak, recovered in (1 - beta) peak / alpha round trips
            |__/    |__/    |__     cycle: one more, in which the window stays

At the cut windows are `LATE` packets above P on average: half a packet because intervals end a round trip apart,
half a packet because an interval's load is that of the windows in its middle, and one packet because feedback takes a
round trip. (The limit to whole packets adds nothing, because senders round at random.)

Additive increase does not change the difference of two windows; a cut reduces it by 1 - beta. So it decays by

    ln(1 / beta) / cycle  =  1.068 alpha / (P + 10)        per round trip, for beta = 7/8 and alpha = 1

In the fluid model it decays by N alpha / w* = 1 / (P + 4). Assumptions: all flows cut in the same round trip, senders
are near the router, and no load after a cut is in the low region, which beta = 7/8 above 80% ensures.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from rampmeter.theory.vcp import ALPHA

BETA = 0.875
"""Factor of the window at a cut (section III-B)."""

LATE = 2.0
"""Round trips of increase above P: see above."""


@dataclass(frozen=True)
class Saw:
    """The cycle of a flow with `share` packets of gamma C T; windows are in packets, times in round trips."""

    share: float
    """P."""

    @property
    def peak(self) -> float:
        """Return the window before a cut."""
        return self.share + LATE * ALPHA

    @property
    def trough(self) -> float:
        """Return the window after a cut."""
        return BETA * self.peak

    @property
    def growing(self) -> float:
        """Return the duration of a cycle's increase."""
        return (self.peak - self.trough) / ALPHA

    @property
    def cycle(self) -> float:
        """Return the time between two cuts."""
        return self.growing + 1

    @property
    def mean(self) -> float:
        """Return the window's mean over time."""
        return (self.trough + self.growing * (self.trough + self.peak) / 2) / self.cycle

    @property
    def decay(self) -> float:
        """Return the rate at which differences of windows decay, per round trip."""
        return log(1 / BETA) / self.cycle
