r"""The fluid model of VCP: Xia, Subramanian, Stoica and Kalyanaraman, "One More Bit Is Enough", section V.

Flow i of round trip T adjusts its window, in packets, to the load of its path a round trip ago:

    w_i'(t) = 1/T [w_i(t) xi_i(t) + alpha],  xi_i(t) = kappa (1/rho_i(t) - 1)                              (9), (10)
    rho_i(t) = max over its links l of  sum of w_j(t - T) over the flows j of l / (gamma C_l T)            (11), (15)

Summed over the N flows of a single bottleneck,

    w'(t) = 1/T {kappa w(t) [gamma C T / w(t - T) - 1] + N alpha}                                          (13)

The model has no queue, uses the exact load, and adds both increases at all times; the protocol uses one of three
ranges of the load. Time is in round trips here, because these equations depend on T only through gamma C T.

The integrated variable is x = ln w, x' = kappa (gamma C T / w(t - T) - 1) + N alpha / w. The paper's initial condition
of one packet per flow requires this: at a load near zero, w grows by exp(kappa (P - 1)) in the first round trip, where
P is a flow's share of gamma C T, and that overflows for P of some thousands.

**Beyond the paper.** (13) linearized at w*, with eps = N alpha / (gamma C T) = 1/P for alpha = 1 and y = w - w*, is

    y'(t) = -a y(t) - b y(t - 1),  a = kappa eps / (kappa + eps),  b = kappa^2 / (kappa + eps)

Its roots cross the imaginary axis at i omega where omega = sqrt(b^2 - a^2) and cos omega = -a/b (Hayes, 1950), that is

    kappa sqrt((kappa - eps) / (kappa + eps)) = arccos(-eps / kappa)

whose solution, the critical kappa, is pi/2 for eps -> 0 and grows with eps. So Theorem 1's kappa <= 1/2 is sufficient,
and at most a third of the critical kappa. For alpha = 0 (13) is Wright's equation in ln w. No oscillation at all, not
even one that decays, takes a real root: b e^(a + 1) <= 1, or kappa <= 1/e for eps -> 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import acos, exp, pi, sqrt

import numpy as np

from rampmeter.theory.delay import Array, Solution, integrate
from rampmeter.theory.max_min import fill

KAPPA = 0.25
"""The protocol's kappa (section III-C)."""

ALPHA = 1.0
"""Packets per round trip (section III-C)."""

GAMMA = 0.98
"""The target utilization (section III-B)."""

STEPS = 16
"""Steps in a round trip."""

LARGEST = 700.0
"""Upper limit of ln w for loads: e^700 packets are practically infinite, but do not overflow."""


@dataclass(frozen=True)
class Bottleneck:
    """One link and N flows of the same round trip."""

    capacity: float
    """C, in packets per second."""
    rtt: float
    """T, in seconds."""
    flows: int
    """N."""
    kappa: float = KAPPA
    """The stability coefficient of the multiplicative increase."""
    alpha: float = ALPHA
    """The additive increase, in packets per round trip."""
    gamma: float = GAMMA
    """The target utilization."""

    @property
    def target(self) -> float:
        """Return gamma C T, in packets."""
        return self.gamma * self.capacity * self.rtt

    @property
    def epsilon(self) -> float:
        """Return the additive increase of all flows as a fraction of the target."""
        return self.flows * self.alpha / self.target

    @property
    def equilibrium(self) -> float:
        """Return w* = gamma C T + N alpha / kappa, in packets (Theorem 1)."""
        return self.target + self.flows * self.alpha / self.kappa

    @property
    def rate(self) -> float:
        """Return each flow's rate r* = gamma C / N + alpha / (kappa T), in packets per second (Theorem 1)."""
        return self.gamma * self.capacity / self.flows + self.alpha / (self.kappa * self.rtt)


def aggregate(
    cases: Sequence[Bottleneck], *, until: float, steps: int = STEPS, start: Sequence[float] | None = None
) -> Solution:
    """Integrate (13) for many bottlenecks in parallel, over `until` round trips of each.

    States are ln w, a column per case.
    The history is the window `start`, in packets, by default one packet per flow as in the paper.
    """
    target = np.array([case.target for case in cases])
    kappa = np.array([case.kappa for case in cases])
    pushed = np.array([case.flows * case.alpha for case in cases])
    begin = np.log(np.array([float(case.flows) for case in cases] if start is None else start))

    def slope(now: Array, then: Array) -> Array:
        grown: Array = kappa * (target * np.exp(-then) - 1) + pushed * np.exp(-now)
        return grown

    return integrate(slope, lambda _: begin, delay=1.0, until=until, steps=steps)


@dataclass(frozen=True)
class Network:
    """Links, and flows of the same round trip along several of them."""

    capacities: Sequence[float]
    """C_l, in packets per second."""
    paths: Sequence[Sequence[int]]
    """Each flow's links L_i, by their indices in `capacities`."""
    rtt: float
    """T, in seconds."""
    kappa: float = KAPPA
    """As in `Bottleneck`."""
    alpha: float = ALPHA
    """As in `Bottleneck`."""
    gamma: float = GAMMA
    """As in `Bottleneck`."""

    def flows(self, *, until: float, steps: int = STEPS, start: Sequence[float] | None = None) -> Solution:
        """Integrate (9) and (15) over `until` round trips. States are ln w_i, a column per flow.

        The history is the windows `start`, in packets, by default one packet each.
        """
        uses = self._uses()
        targets = self.targets()
        begin = np.log(np.ones(len(self.paths)) if start is None else np.array(start))

        def slope(now: Array, then: Array) -> Array:
            windows = np.exp(np.minimum(then, LARGEST))
            worst = (uses * (uses @ windows / targets)[:, None]).max(axis=0)
            grown: Array = self.kappa * (1 / worst - 1) + self.alpha * np.exp(-now)
            return grown

        return integrate(slope, lambda _: begin, delay=1.0, until=until, steps=steps)

    def targets(self) -> Array:
        """Return gamma C_l T of each link, in packets."""
        return self.gamma * self.rtt * np.array(self.capacities)

    def loads(self, windows: Array) -> Array:
        """Return each link's load rho_l."""
        loads: Array = self._uses() @ windows / self.targets()
        return loads

    def theorem_2(self, loads: Array) -> Array:
        """Return r_i* = alpha / (kappa T (1 - 1 / max rho_l*)) of each flow from the loads, in packets per second."""
        worst = (self._uses() * loads[:, None]).max(axis=0)
        rates: Array = self.alpha / (self.kappa * self.rtt * (1 - 1 / worst))
        return rates

    def equilibrium(self) -> list[float]:
        """Return each flow's rate at the equilibrium, in packets per second, for an alpha of any size.

        Theorem 2's rates fall as the load of the worst link rises, so links stop flows in the order of their loads, and
        filling finds them. The flows that a link stops have the window w where (10) is in equilibrium at its load:
        kappa w (1 - 1/rho) = alpha, and rho gamma C T = n w + X with the others' windows X. That is a quadratic in w.
        """
        push = self.alpha / self.kappa
        targets = self.targets()

        def level(link: int, fixed: float, flows: int) -> float:
            half = (float(targets[link]) + flows * push - fixed) / (2 * flows)
            return half + sqrt(half * half + fixed * push / flows)

        return [window / self.rtt for window in fill(self.paths, level)]

    def _uses(self) -> Array:
        """Return a row for each link, with 1 for each flow over it."""
        return np.array([[float(link in path) for path in self.paths] for link in range(len(self.capacities))])


def critical_kappa(epsilon: float) -> float:
    """Return the kappa above which w* is unstable, exactly: the equation in the head of this file."""
    low, high = epsilon, epsilon + pi  # the left side is 0 and above pi there, and grows; the right side falls
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if middle * sqrt((middle - epsilon) / (middle + epsilon)) < acos(-epsilon / middle):
            low = middle
        else:
            high = middle
    return (low + high) / 2


def smooth_kappa(epsilon: float) -> float:
    """Return the kappa up to which w* is approached without oscillation: b e^(a + 1) = 1 in the head of this file."""
    low, high = 0.0, 1.0 + epsilon  # at the upper end b e is above 1 for every epsilon
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if middle**2 / (middle + epsilon) * exp(middle * epsilon / (middle + epsilon) + 1) < 1:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def onset(network: Bottleneck, kappas: Sequence[float]) -> float:
    """Measure the kappa of the integrated (13) from which a disturbance of w* by a thousandth grows.

    `kappas` rise, and the disturbance decays at the first and grows at the last. The result is where its growth, which
    is linear near there, is 0.
    """
    cases = [
        Bottleneck(network.capacity, network.rtt, network.flows, kappa, network.alpha, network.gamma)
        for kappa in kappas
    ]
    solved = aggregate(cases, until=80, start=[1.001 * case.equilibrium for case in cases])
    early, late = (np.ptp(solved.since(begin)[: 20 * STEPS], axis=0) for begin in (20, 60))
    growth = np.log(late / early)
    if not growth[0] < 0 < growth[-1]:
        raise ValueError(
            f"kappa from {kappas[0]} to {kappas[-1]}: no onset in this range; give a range that contains it"
        )
    after = int(np.argmax(growth > 0))
    return float(np.interp(0.0, growth[after - 1 : after + 1], kappas[after - 1 : after + 1]))


def oscillation(cases: Sequence[Bottleneck], *, until: float, over: float = 40) -> Array:
    """Return half the difference of maximum and minimum w in the last `over` round trips, as a fraction of w*."""
    last = np.exp(aggregate(cases, until=until).since(until - over))
    share: Array = np.ptp(last, axis=0) / 2 / np.array([case.equilibrium for case in cases])
    return share
