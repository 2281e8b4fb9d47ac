"""VCP+'s loop near its equilibrium: for which gains and round trips it is stable.

Time is in load intervals. `x` is the number of packets of a flow in an interval, `rho` the load factor, `gamma` the
router's target and `R` the round trip. A flow's rate changes by

    (ln x)' = h [a(x) + kappa (1 / rho - 1)],    a(x) = 1 / (x / alpha + 2 / kappa),    h = min(1, 2.5 / R)

with `rho` of `R + 1` intervals ago: a round trip, and twice half an interval, in which the router measures the load and
then reports it. The target follows `gamma' = g (goal - load)`. At the equilibrium the load is `goal`, and `rho`
satisfies `kappa (1 - 1 / rho) = a(x)`. With deviations `y` of ln x and `z` of ln gamma, near it

    y' = h [-A y - (kappa / rho) (y - z)(t - R - 1)],    z' = -g rho y,    A = -x a'(x)

so the loop's transfer function is `h e^(-s (R + 1)) (kappa s / rho + kappa g) / (s^2 + h A s)`.
"""

from __future__ import annotations

from cmath import exp, phase
from dataclasses import dataclass
from math import degrees

MI_LIMIT = 2.5
"""`sigma_mi`: a round trip counts as this many intervals at most."""


@dataclass(frozen=True)
class Loop:
    """The linearized loop of flows with equal round trips."""

    packets: float
    """Packets of a flow in a load interval, `x`."""
    round_trip: float
    """The round trip in load intervals, `R`."""
    kappa: float = 0.25
    gain: float = 1 / 32
    """The target's gain in a load interval, `g`."""

    @property
    def additive(self) -> float:
        """AI's relative growth in an interval, `a(x)`."""
        return 1 / (self.packets + 2 / self.kappa)

    @property
    def load_factor(self) -> float:
        """`rho` at the equilibrium."""
        return 1 / (1 - self.additive / self.kappa)

    def open(self, frequency: float) -> complex:
        """Return the transfer function at `frequency`, in radians per load interval."""
        s = 1j * frequency
        h = min(1, MI_LIMIT / self.round_trip)
        stiffness = self.packets * self.additive**2
        pressure = self.kappa * s / self.load_factor + self.kappa * self.gain
        return h * exp(-s * (self.round_trip + 1)) * pressure / (s * s + h * stiffness * s)

    def phase_margin(self) -> float:
        """Return the degrees of phase that the loop can still lose at unit gain; it is unstable if negative."""
        low, high = 1e-6, 100.0
        while high / low > 1 + 1e-9:  # the gain falls with the frequency
            middle = (low * high) ** 0.5
            low, high = (middle, high) if abs(self.open(middle)) > 1 else (low, middle)
        delay = low * (self.round_trip + 1)
        undelayed = phase(self.open(low) * exp(1j * delay))
        return 180 + degrees(undelayed - delay)


def largest_round_trip(kappa: float = 0.25, gain: float = 1 / 32) -> float:
    """Return the round trip, in load intervals, up to which the loop is stable at any rate of the flows."""
    rates = [10 ** (n / 4) for n in range(-4, 21)]
    low, high = 0.1, 1e4
    while high / low > 1 + 1e-6:
        middle = (low * high) ** 0.5
        stable = all(Loop(x, middle, kappa, gain).phase_margin() > 0 for x in rates)
        low, high = (middle, high) if stable else (low, middle)
    return low


def critical_kappa(round_trip: float, gain: float = 1 / 32) -> float:
    """Return the `kappa` from which the loop of fast flows is unstable."""
    low, high = 0.01, 50.0
    while high / low > 1 + 1e-6:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if Loop(1e6, round_trip, middle, gain).phase_margin() > 0 else (low, middle)
    return low
