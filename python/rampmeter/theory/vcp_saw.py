r"""VCP's saw: what its three rules come to where the fluid model of its paper (section V) has one equation.

N flows of round trip T = t_rho share a link, each with P packets of gamma C T. Above a load of 80% they add alpha
packets a round trip; an interval whose load is 1 ends that, told by a cut to beta and a round trip without growth
(section III-E):

    peak ---.      /|      /|       peak:  P + LATE alpha
            |    /  |    /  |       fall:  (1 - beta) peak, made up for in (1 - beta) peak / alpha round trips
            |__/    |__/    |__     cycle: one more, in which the window stays

Windows are `LATE` packets beyond P when the cut comes, on average: half a packet since intervals end a round trip
apart, half since an interval's load is that of the windows in its midst, and one since the next packets take a round
trip to tell. (That only whole packets leave adds nothing: senders round by chance.)

Additive growth leaves alone what sets two windows apart, a cut takes 1 - beta of it. So that decays by

    ln(1 / beta) / cycle  =  1.068 alpha / (P + 10)        a round trip, for beta = 7/8 and alpha = 1

where the fluid's decays by N alpha / w* = 1 / (P + 4). Assumed: all cut in the same round trip, senders stand near the
router, and no load after a cut is heard as low, which beta = 7/8 above 80% sees to.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from rampmeter.theory.vcp import ALPHA

BETA = 0.875
"""What a cut leaves (section III-B)."""

LATE = 2.0
"""Round trips of growth beyond P: see above."""


@dataclass(frozen=True)
class Saw:
    """The cycle of a flow with `share` packets of gamma C T; windows are in packets, times in round trips."""

    share: float
    """P."""

    @property
    def peak(self) -> float:
        """Give the window before a cut."""
        return self.share + LATE * ALPHA

    @property
    def trough(self) -> float:
        """Give the window after a cut."""
        return BETA * self.peak

    @property
    def growing(self) -> float:
        """Give how long a cycle's growth takes."""
        return (self.peak - self.trough) / ALPHA

    @property
    def cycle(self) -> float:
        """Give how long it is from cut to cut."""
        return self.growing + 1

    @property
    def mean(self) -> float:
        """Give the window's mean over time."""
        return (self.trough + self.growing * (self.trough + self.peak) / 2) / self.cycle

    @property
    def decay(self) -> float:
        """Give the rate at which what sets windows apart decays, per round trip."""
        return log(1 / BETA) / self.cycle
