r"""The marking probability of a virtual queue: T. Kelly, "On engineering a stable and scalable TCP variant", 2002.

The queue q drains at theta C, a fraction of the link's rate, and a packet is marked with the probability
1 - phi^(-q/s), s the size of packets [text, the form derived]. The load is rho = y / (theta C) with the arrival rate y.
With L = ln phi, a packet that finds Q packets is marked with the probability 1 - e^(-L Q), so the fraction of marked
packets is a Laplace transform of the queue that arrivals find:

    p = 1 - E[e^(-L Q)]

The text has no formulas but names the arrivals: a Poisson process with Poisson service, and Gaussian traffic. Three
laws:

- `Poisson` [text, derived]: Q is geometric, P(Q = n) = (1 - rho) rho^n, hence p = rho (1 - 1/phi) / (1 - rho/phi).
- `Gaussian` [text, derived]: traffic of mean y tau and variance y sigma^2 tau leaves a queue that is exponential with
  the parameter eta = 2 (theta C - y) / (y sigma^2), hence p = L / (L + eta).
- `Batches` [derived, beyond the text]: packets of one size, as on our links, in batches of k at Poisson times.
  The queue drains continuously, so it is the work of an M^k/D/1 queue, whose transform is Pollaczek and
  Khinchine's: E[e^(-L Q)] = (1 - rho) L / (L - rho (1 - phi^-k) / k) for the first packet of a batch, times phi^-1 for
  each that goes before. Exact at every load; a batch's variance is k, and for rho -> 1 it is `Gaussian` of sigma^2 = k.

For single packets among unresponsive traffic with the load rho_o in batches of k there are two more [derived]:
`AmongBatches`, which is exact like `Batches`, and `GaussianAmongBatches`, the report's.

None of them bounds the queue. `margin` is p / (y p'), the upper bound of stable gains; y is the responsive part of the
load [derived: only that part changes with the marks].
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from typing import Protocol

import numpy as np

from rampmeter.theory.delay import Array


class Marking(Protocol):
    """A law of marking. Loads are those of the virtual queue, below 1 except for `probability`."""

    def probability(self, load: Array) -> Array:
        """Return p, the fraction of marked packets: 1 from a load of 1 upwards."""

    def margin(self, load: Array) -> Array:
        """Return p / (y p') with the responsive part y of the load."""


@dataclass(frozen=True)
class Poisson:
    """Poisson arrivals, and Poisson service: an M/M/1 queue [text]."""

    phi: float
    """The base of marking, above 1."""

    def probability(self, load: Array) -> Array:
        """Return rho (1 - 1/phi) / (1 - rho/phi) [derived]."""
        rho = np.minimum(load, 1.0)
        p: Array = rho * (1 - 1 / self.phi) / (1 - rho / self.phi)
        return p

    def margin(self, load: Array) -> Array:
        """Return 1 - rho/phi [derived], at least 1 - 1/phi: "higher phi allows more aggressive gain" [text]."""
        m: Array = 1 - load / self.phi
        return m


@dataclass(frozen=True)
class Gaussian:
    """Brownian arrivals, drained at a constant rate [text]."""

    phi: float
    """The base of marking, above 1."""
    variance: float = 1.0
    """sigma^2, packets: the variance of arrivals divided by their mean; 1 for a Poisson process."""

    def probability(self, load: Array) -> Array:
        """Return L / (L + eta), eta = 2 (1 - rho) / (rho sigma^2) [derived]."""
        rho = np.minimum(load, 1.0)
        weight = log(self.phi) * self.variance * rho
        p: Array = weight / (weight + 2 * (1 - rho))
        return p

    def margin(self, load: Array) -> Array:
        """Return 1 - rho (1 - sigma^2 L / 2) [derived from p]: it grows with the burstiness of arrivals.

        "Bursts in traffic aid stability at the expense of lower utilization" [text].
        """
        m: Array = 1 - load * (1 - self.variance * log(self.phi) / 2)
        return m


@dataclass(frozen=True)
class Batches:
    """Batches of packets of one size at Poisson times, drained at a constant rate [derived]."""

    phi: float
    """The base of marking, above 1."""
    size: int = 1
    """k, packets of a batch."""

    def probability(self, load: Array) -> Array:
        """Return 1 - g h with g of the queue that a batch finds and h of the batch itself: the head of this file."""
        rho = np.minimum(load, 1.0)
        ell, kept = log(self.phi), self._kept()
        return np.asarray(1 - self._of_batch() * (1 - rho) * ell / (ell - rho * kept))

    def margin(self, load: Array) -> Array:
        """Return p / (rho dp/drho), by g' = L (c - L) / (L - rho c)^2 with c = (1 - phi^-k) / k."""
        ell, kept = log(self.phi), self._kept()
        slope = self._of_batch() * ell * (ell - kept) / (ell - load * kept) ** 2
        return np.asarray(self.probability(load) / (load * slope))

    def _kept(self) -> float:
        return (1 - exp(-log(self.phi) * self.size)) / self.size

    def _of_batch(self) -> float:
        """Return the mean of phi^-j over the packets of a batch, j of which go before each."""
        return self._kept() / (1 - 1 / self.phi)


@dataclass(frozen=True)
class AmongBatches:
    """Single packets at Poisson times among batches of other traffic with a load of their own [derived].

    What single packets meet is the same transform with the mean of both: c = (rho - rho_o) (1 - 1/phi) + rho_o
    (1 - phi^-k) / k, p = 1 - (1 - rho) L / (L - c).
    """

    phi: float
    """The base of marking, above 1."""
    other: float
    """rho_o, the load that arrives in batches."""
    size: float
    """k, packets of a batch; interpolated between integers."""

    def probability(self, load: Array) -> Array:
        """Return p of the single packets where the whole load is `load`."""
        rho = np.minimum(load, 1.0)
        return np.asarray(1 - (1 - rho) * log(self.phi) / self._left(rho))

    def margin(self, load: Array) -> Array:
        """Return p / ((rho - rho_o) dp/drho): the load of the single packets changes alone."""
        left, one = self._left(load), 1 - 1 / self.phi
        slope = log(self.phi) * (left - (1 - load) * one) / left**2
        return np.asarray(self.probability(load) / ((load - self.other) * slope))

    def _left(self, rho: Array) -> Array:
        """Return L - c."""
        batch = (1 - exp(-log(self.phi) * self.size)) / self.size
        left: Array = log(self.phi) - (rho - self.other) * (1 - 1 / self.phi) - self.other * batch
        return left


@dataclass(frozen=True)
class GaussianAmongBatches:
    """`Gaussian` with the common variance of single packets and batches of other traffic [derived].

    A Poisson process has a variance of 1 packet for each packet, of batches of k it is k. So sigma^2 rho is
    (rho - rho_o) + rho_o k.
    """

    phi: float
    """The base of marking, above 1."""
    other: float
    """rho_o, the load that arrives in batches."""
    size: float
    """k, packets of a batch."""

    def probability(self, load: Array) -> Array:
        """Return L / (L + eta), eta = 2 (1 - rho) / (rho sigma^2), where the whole load is `load`."""
        rho = np.minimum(load, 1.0)
        weight = self._weight(rho)
        p: Array = weight / (weight + 2 * (1 - rho))
        return p

    def margin(self, load: Array) -> Array:
        """Return p / ((rho - rho_o) dp/drho): the load of the single packets changes alone."""
        weight, ell = self._weight(load), log(self.phi)
        m: Array = weight * (weight + 2 * (1 - load)) / (2 * (load - self.other) * (ell * (1 - load) + weight))
        return m

    def _weight(self, rho: Array) -> Array:
        """Return L sigma^2 rho."""
        weight: Array = log(self.phi) * ((rho - self.other) + self.other * self.size)
        return weight
