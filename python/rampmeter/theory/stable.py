r"""Scalable TCP's equilibrium and stability: T. Kelly, "On engineering a stable and scalable TCP variant", 2002.

The text of the report is available without its formulas. Marks: [text] the text says it, [derived] it follows from the
text as shown, [chosen] a value that is missing in the text.

**The control** [text]. An unmarked acknowledgement adds a to the window w, a marked one takes b w from it, and
b = a / (S T) makes S, the *sharing constant*, the same for all round trips T.

**Equilibrium** [derived]. a (1 - p) = b w p, hence the response curve x = w/T = S (1 - p) / p.

**The fluid model** [text for its shape]. Acknowledgements arrive at the rate of a round trip ago, with the marks of
the load at that time. Let u_r be the arrival rate of all flows with the round trip T_r, as a fraction of the virtual
capacity theta C, and pi_r = n_r S / (theta C) their *pull*. Then, with y = sum of u_r,

    u_r'(t) = a/T_r u_r(t - T_r) [1 - p(y(t - T_r)) - p(y(t - T_r)) u_r(t) / pi_r]

The position of a source does not matter, only T_r does: u_r is its rate on arrival at the link.

**Stability** [text]: any mix of round trips, and any network, is stable if a < p / (y p') at each link.

**Beyond the text** [derived]. Linearized at the equilibrium, with m = p / (y p') and the classes' fractions f_r of y,
the characteristic roots s are those of

    1 + a/m sum of f_r e^(-s T_r) / (s T_r + a (1 - p)) = 0

With one round trip they cross the imaginary axis at omega where cos(omega T) = -c, c = m (1 - p), and there

    a = m arccos(-c) / sqrt(1 - c^2)

This is (pi/2) m for c -> 0 and more for any other, so at least a third of the stable range is above the bound of the
text. The curve e^(-j theta) / (j theta) turns one way only for theta from 0 to pi, so no convex combination of its
points passes the negative real axis left of -2/pi: for c -> 0 no mix of round trips has a lower critical gain than
equal round trips. A mix has a higher one, because its members do not oscillate in phase.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import acos, exp, inf, log, pi, sqrt

import numpy as np

from rampmeter.theory.delay import Array, Solution, integrate_delays
from rampmeter.theory.marking import Marking

STEPS = 16
"""Integration steps in the shortest round trip."""


def rate(p: Array, sharing: float) -> Array:
    """Return the response curve, x = S (1 - p) / p [derived], in packets per second for S in packets per second."""
    x: Array = sharing * (1 - p) / p
    return x


def conventional_rate(p: Array, rtt: float) -> Array:
    """Return the response curve of conventional ECN TCP, x = sqrt(2 (1 - p) / p) / T, in packets per second.

    It is that of a = 1/w and b = 1/2. It omits that a window is halved at most once per round trip, "for ease of
    analysis" [text for that, the form derived].
    """
    x: Array = np.sqrt(2 * (1 - p) / p) / rtt
    return x


def parameters(gain: float, cap: float, sharing: float, rtt: float) -> tuple[float, float]:
    """Return (a, b): b = min(a0 / (S T), b_max), a = b S T [text, form derived, values chosen]. S stays exact."""
    b = min(gain / (sharing * rtt), cap)
    return b * sharing * rtt, b


def variation(b: float, p: float = 0.0) -> float:
    """Return the coefficient of variation of a window, sqrt(b / (2 - b)) for p -> 0 [derived].

    From E[w'^2] = E[w^2] over an acknowledgement: var w / (E w)^2 = b / ((2 - b) (1 - p)), on average over
    acknowledgements, where marks are independent of w.
    """
    return sqrt(b / ((2 - b) * (1 - p)))


def mean_rate(p: float, sharing: float, b: float) -> float:
    """Return a flow's mean rate over time if its window varies slowly: S (1 - p) / p / (1 + v^2) [derived].

    More acknowledgements arrive while w is large. Averaged over acknowledgements w is on the response curve, averaged
    over time below it by E[w] E[1/w] = 1 + v^2, to the first order in b: 3% for b = 1/16. The feedback delay of a
    round trip reduces the difference.
    """
    return sharing * (1 - p) / p / (1 + variation(b, p) ** 2)


def timer_variance(shortest: float, longest: float) -> float:
    """Return the variance of a clamped exponential interval over the square of its mean [clamps in the text, derived].

    An interval is clamp(X, l, h) in units of its mean, with X exponential of the mean k that makes it so:

        l + k (e^(-l/k) - e^(-h/k)) = 1
        E[clamp^2] = l^2 + 2 k ((l + k) e^(-l/k) - (h + k) e^(-h/k))

    Over long times this is sigma^2 of the packets that such timers send together; over short times many timers are a
    Poisson process, whose sigma^2 is 1.
    """
    l, h = shortest, longest  # noqa: E741
    low, high = 1e-6, 100.0
    for _ in range(100):
        k = (low + high) / 2
        low, high = (k, high) if l + k * (exp(-l / k) - exp(-h / k)) < 1 else (low, k)
    return l * l + 2 * k * ((l + k) * exp(-l / k) - (h + k) * exp(-h / k)) - 1


def cut_round_trips(factor: float, window: float, b: float) -> float:
    """Return the time in which a window falls by `factor` if all packets are marked, from the first feedback on.

    In round trips: log f / (w log(1 / (1 - b))), w acknowledgements in each [text for the shape, constants derived].
    """
    return log(factor) / (window * log(1 / (1 - b)))


def growth_round_trips(factor: float, a: float) -> float:
    """Return the time in which a window grows by `factor` without marks, in round trips: log f / log(1 + a).

    That it does not depend on w is [text], the constants are [derived].
    """
    return log(factor) / log(1 + a)


def equilibrium(marking: Marking, pull: float, other: float = 0.0) -> float:
    """Return the load rho where responses and marking cross [text]: rho = other + pull (1 - p(rho)) / p(rho).

    `pull` is N S / (theta C) of the responsive flows, `other` the load of traffic that does not respond.
    """
    if not (pull > 0 and 0 <= other < 1):
        raise ValueError(f"pull = {pull}, other = {other}: use a pull above 0, and another load from 0 to below 1")
    low, high = other, 1.0  # the flows' response is above the load at `low`, and 0 at `high`, where p = 1
    while high - low > 1e-13:
        middle = (low + high) / 2
        p = float(marking.probability(np.array(middle)))
        if p * (middle - other) < pull * (1 - p):
            low = middle
        else:
            high = middle
    return (low + high) / 2


@dataclass(frozen=True)
class Loop:
    """One link, and classes of flows that respond to its marks."""

    marking: Marking
    """p(rho) of its virtual queue."""
    rtts: Sequence[float]
    """T_r of each class, in seconds."""
    pulls: Sequence[float]
    """pi_r of each class: n_r S / (theta C)."""

    @property
    def load(self) -> float:
        """Return rho at the equilibrium."""
        return equilibrium(self.marking, sum(self.pulls))

    @property
    def marked(self) -> float:
        """Return p at the equilibrium."""
        return float(self.marking.probability(np.array(self.load)))

    @property
    def bound(self) -> float:
        """Return p / (y p') at the equilibrium: the gain below which it is stable according to the text."""
        return float(self.marking.margin(np.array(self.load)))

    def critical_gain(self) -> float:
        """Return the gain a where the equilibrium loses stability: the equations in the head of this file [derived].

        With several round trips it is where the Nyquist curve first goes around 0, found by halving intervals.
        """
        bound, c = self.bound, self.bound * (1 - self.marked)
        if len(set(self.rtts)) == 1:
            return inf if c >= 1 else bound * acos(-c) / sqrt(1 - c * c)
        low, high = bound, 2 * bound
        while not self._unstable(high):
            low, high = high, 2 * high
            if high > 1e3 * bound:
                return inf
        while high - low > 1e-6 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self._unstable(middle) else (middle, high)
        return (low + high) / 2

    def _unstable(self, gain: float) -> bool:
        """Return whether the Nyquist curve encircles 0: then there are roots to the right of the imaginary axis."""
        rtts, shares = np.array(self.rtts)[:, None], np.array(self.pulls)[:, None] / sum(self.pulls)
        last = 8 * max(1.0, gain / self.bound) / float(rtts.min())  # from there on it is within 1/8 of 1
        omega = np.linspace(0.0, last, int(last * float(rtts.max()) / (pi / 200)) + 2)
        angle = 1j * omega * rtts
        curve = 1 + gain / self.bound * (shares * np.exp(-angle) / (angle + gain * (1 - self.marked))).sum(axis=0)
        return bool(abs(np.unwrap(np.angle(curve))[-1]) > pi)

    def integrate(
        self, gains: Sequence[float], *, until: float, steps: int = STEPS, start: float = 1.001
    ) -> tuple[Array, Array]:
        """Integrate the model for many gains in parallel.

        Returns times in seconds, and y as a fraction of theta C with a column per gain.
        The history is `start` times the equilibrium. Round trips are rounded to whole steps, `steps` in the shortest.
        """
        h = min(self.rtts) / steps
        delays = [round(rtt / h) for rtt in self.rtts]
        rtts = h * np.array(delays, dtype=np.float64)[:, None]
        pulls = np.array(self.pulls)[:, None]
        own = np.arange(len(delays))
        push = np.array(gains) / rtts  # a row per class, a column per gain
        begin = np.repeat(pulls / pulls.sum() * self.load * start, len(gains), axis=1)

        def slope(now: Array, then: Array) -> Array:
            marked = self.marking.probability(then.sum(axis=1))
            changed: Array = push * then[own, own] * (1 - marked - marked * now / pulls)
            return changed

        solved: Solution = integrate_delays(slope, lambda _: begin, step=h, delays=delays, until=until)
        return solved.times, solved.states.sum(axis=1)

    def onset(self, gains: Sequence[float]) -> float:
        """Measure the model's gain from which a disturbance of the equilibrium by a thousandth grows.

        `gains` rise, and the disturbance decays at the first and grows at the last. The result is where its growth,
        which is linear near there, is 0.
        """
        longest = max(self.rtts)
        times, loads = self.integrate(gains, until=80 * longest)
        early, late = (
            np.ptp(loads[(times >= begin * longest) & (times < (begin + 20) * longest)], axis=0) for begin in (20, 60)
        )
        growth = np.log(late / early)
        if not growth[0] < 0 < growth[-1]:
            raise ValueError(
                f"gains from {gains[0]} to {gains[-1]}: no onset in this range; give a range that contains it"
            )
        after = int(np.argmax(growth > 0))
        return float(np.interp(0.0, growth[after - 1 : after + 1], list(gains)[after - 1 : after + 1]))

    def swing(self, gains: Sequence[float], *, until: float, over: float, steps: int = STEPS) -> Array:
        """Return the standard deviation of y over the last `over` seconds, as a fraction of its mean there."""
        times, loads = self.integrate(gains, until=until, steps=steps)
        last = loads[times >= until - over]
        share: Array = last.std(axis=0) / last.mean(axis=0)
        return share
