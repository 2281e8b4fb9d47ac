"""The theory of Scalable TCP and of virtual queues, against simulations of its assumptions and known limits."""

from __future__ import annotations

from collections.abc import Callable
from math import acos, exp, log, pi, sqrt

import numpy as np
import pytest

from rampmeter.theory.delay import Array, integrate, integrate_delays
from rampmeter.theory.marking import AmongBatches, Batches, Gaussian, GaussianAmongBatches, Marking, Poisson
from rampmeter.theory.stable import (
    Loop,
    conventional_rate,
    cut_round_trips,
    equilibrium,
    growth_round_trips,
    mean_rate,
    parameters,
    rate,
    timer_variance,
    variation,
)


def served_at_random(chance: np.random.Generator, load: float, arrivals: int) -> Array:
    """Simulate an M/M/1 queue: the queue that each arrival finds. A service of an empty queue has no effect."""
    services = chance.poisson(chance.exponential(1 / load, arrivals))
    met = np.empty(arrivals)
    queue = 0
    for place, served in enumerate(services.tolist()):
        queue = max(queue - served, 0)
        met[place] = queue
        queue += 1
    return met


def drained_steadily(chance: np.random.Generator, load: float, arrivals: int, size: int) -> Array:
    """Simulate batches at Poisson times and a drain of one packet per unit of time: the queue that packets find."""
    gaps = chance.exponential(size / load, arrivals // size)
    met = np.empty((len(gaps), size))
    queue = 0.0
    for place, gap in enumerate(gaps.tolist()):
        queue = max(queue - gap, 0.0)
        met[place] = queue + np.arange(size)
        queue += size
    return met.ravel()


def brownian(chance: np.random.Generator, load: float, variance: float, steps: int) -> Array:
    """Simulate a queue with Brownian input exactly: the distribution of the minimum within a step is known."""
    time = 20.0
    moved = chance.normal((load - 1) * time, sqrt(variance * load * time), steps)
    spread = 2 * variance * load * time * np.log(1 - chance.random(steps))
    lowest = (moved - np.sqrt(moved**2 - spread)) / 2
    queues = np.empty(steps)
    queue = 0.0
    for place, (by, low) in enumerate(zip(moved.tolist(), lowest.tolist(), strict=True)):
        queue = by + max(queue, -low)
        queues[place] = queue
    return queues


SIMULATED: dict[str, tuple[Callable[[float], Marking], Callable[[np.random.Generator, float], Array]]] = {
    "Poisson": (Poisson, lambda chance, load: served_at_random(chance, load, 200_000)),
    "one packet": (Batches, lambda chance, load: drained_steadily(chance, load, 200_000, 1)),
    "batches of four": (lambda phi: Batches(phi, 4), lambda chance, load: drained_steadily(chance, load, 600_000, 4)),
    "Gaussian": (lambda phi: Gaussian(phi, 3.0), lambda chance, load: brownian(chance, load, 3.0, 100_000)),
}

LAWS: list[Poisson | Gaussian | Batches] = [
    Poisson(1.05),
    Gaussian(1.05),
    Gaussian(1.5, 4.0),
    Batches(1.05),
    Batches(1.01, 16),
]


@pytest.mark.parametrize("name", SIMULATED)
@pytest.mark.parametrize(("phi", "load"), [(1.05, 0.7), (1.05, 0.9), (1.5, 0.8)])
def test_marking_matches_a_simulation_of_its_assumptions(name: str, phi: float, load: float) -> None:
    law, simulate = SIMULATED[name]
    met = simulate(np.random.default_rng(7), load)
    assert float(law(phi).probability(np.array(load))) == pytest.approx(float((1 - phi**-met).mean()), rel=0.04)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_margin_is_the_marking_divided_by_its_slope(law: Marking) -> None:
    loads, h = np.linspace(0.05, 0.99, 48), 1e-6
    slope = (law.probability(loads + h) - law.probability(loads - h)) / (2 * h)
    assert law.margin(loads) == pytest.approx(law.probability(loads) / (loads * slope), rel=1e-5)
    assert np.all(slope > 0)
    own = 1 - law.phi ** -np.arange(law.size).astype(float) if isinstance(law, Batches) else np.zeros(1)
    assert law.probability(np.array([0.0, 1.0, 1.5])) == pytest.approx(
        [own.mean(), 1, 1]
    )  # packets of a batch find those before them


def found_among_batches(chance: np.random.Generator, load: float, other: float, size: int, arrivals: int) -> Array:
    """Simulate single packets among batches, both at Poisson times, and a steady drain: the queue that they find."""
    rates = np.array([load - other, other / size])
    gaps = chance.exponential(1 / rates.sum(), arrivals)
    single = chance.random(arrivals) < rates[0] / rates.sum()
    met = np.empty(arrivals)
    queue = 0.0
    for place, (gap, alone) in enumerate(zip(gaps.tolist(), single.tolist(), strict=True)):
        queue = max(queue - gap, 0.0)
        met[place] = queue
        queue += 1 if alone else size
    by_single: Array = met[single]
    return by_single


@pytest.mark.parametrize(("load", "other", "size"), [(0.8, 0.4, 4), (0.9, 0.4, 1), (0.6, 0.4, 16), (0.5, 0.1, 64)])
def test_single_packets_among_batches_match_a_simulation(load: float, other: float, size: int) -> None:
    met = found_among_batches(np.random.default_rng(7), load, other, size, 600_000)
    law = AmongBatches(1.1, other, size)
    assert float(law.probability(np.array(load))) == pytest.approx(float((1 - 1.1**-met).mean()), rel=0.04)


@pytest.mark.parametrize(
    "law", [AmongBatches(1.1, 0.4, 16), AmongBatches(1.03, 0.1, 1), GaussianAmongBatches(1.1, 0.4, 16)], ids=str
)
def test_the_margin_is_that_of_the_responsive_load(
    law: AmongBatches | GaussianAmongBatches,
) -> None:
    loads, h = np.linspace(law.other + 0.05, 0.99, 24), 1e-6
    slope = (law.probability(loads + h) - law.probability(loads - h)) / (2 * h)
    assert law.margin(loads) == pytest.approx(law.probability(loads) / ((loads - law.other) * slope), rel=1e-5)
    assert float(law.probability(np.array(1.0))) == pytest.approx(1)


def test_the_model_with_unresponsive_load_has_that_margin() -> None:
    # u'(t) = a/T u(t - T) [1 - p - p u(t) / pi], with p of u(t - T) + rho_o: as in `Loop`.
    law, pull, other = AmongBatches(1.1, 0.3, 16), 1.0, 0.3
    load = equilibrium(law, pull, other)
    bound = float(law.margin(np.array(load)))
    c = bound * (1 - float(law.probability(np.array(load))))
    critical = bound * acos(-c) / sqrt(1 - c * c)

    def swings(gain: float) -> float:
        def slope(now: Array, then: Array) -> Array:
            p = law.probability(then + other)
            changed: Array = gain * then * (1 - p - p * now / pull)
            return changed

        solved = integrate(slope, lambda _: np.array([1.01 * (load - other)]), delay=1.0, until=160, steps=16)
        return float(np.ptp(solved.states[solved.times > 140]))

    assert critical > 1.5 * bound
    assert swings(0.95 * critical) < 0.005 * (load - other) < swings(1.05 * critical)


def test_marking_among_batches_is_gaussian_in_heavy_traffic() -> None:
    for size in [1, 4, 16]:
        laws = [law(1.0005, 0.4, size) for law in (AmongBatches, GaussianAmongBatches)]
        exact, near = (float(law.probability(np.array(0.98))) for law in laws)
        assert near == pytest.approx(exact, rel=0.03)
    # Without batches it is the report's own.
    assert float(GaussianAmongBatches(1.1, 0.4, 1).probability(np.array(0.8))) == float(
        Gaussian(1.1).probability(np.array(0.8))
    )


def test_marking_of_batches_is_gaussian_in_heavy_traffic() -> None:
    for size in [1, 4, 16]:
        load = np.array([0.9, 0.98])
        near = Batches(1.0005, size).probability(load) / Gaussian(1.0005, size).probability(load) - 1
        assert np.abs(near).max() < 0.12
        assert abs(near[1]) < 0.03


def test_higher_phi_and_burstier_traffic_allow_a_higher_gain() -> None:
    load = np.array(0.9)
    assert float(Poisson(1.5).margin(load)) > float(Poisson(1.1).margin(load)) >= 1 - 1 / 1.1
    assert float(Gaussian(1.1, 8).margin(load)) > float(Gaussian(1.1, 1).margin(load))
    assert float(Batches(1.1, 8).margin(load)) > float(Batches(1.1, 1).margin(load))


def window_chain(chance: np.random.Generator, a: float, b: float, p: float, length: int) -> Array:
    """Simulate a window from acknowledgement to acknowledgement."""
    windows = np.empty(length)
    window = a * (1 - p) / (b * p)
    for place, marked in enumerate((chance.random(length) < p).tolist()):
        window = window * (1 - b) if marked else window + a
        windows[place] = window
    return windows


@pytest.mark.parametrize(("b", "p"), [(0.05, 0.05), (0.125, 0.2), (0.5, 0.02)])
def test_a_window_at_random_marks_matches_the_theory(b: float, p: float) -> None:
    sharing, rtt = 100.0, 0.1
    a = b * sharing * rtt
    windows = window_chain(np.random.default_rng(3), a, b, p, 200_000)
    assert windows.mean() / rtt == pytest.approx(float(rate(np.array(p), sharing)), rel=0.02)
    assert windows.std() / windows.mean() == pytest.approx(variation(b, p), rel=0.04)
    over_time = 1 / (1 / windows).mean() / rtt  # each takes T / w
    assert over_time == pytest.approx(mean_rate(p, sharing, b), rel=0.03)


def test_a_clamped_timer_is_smoother_than_a_poisson_process() -> None:
    assert timer_variance(0.0, 60.0) == pytest.approx(1)
    drawn = np.random.default_rng(5).exponential(1.0, 400_000)
    for low, high in [(0.25, 3.0), (0.5, 1.5)]:
        # Clamps in units of the mean before clamping; the whole is scaled to a mean of 1 after it.
        clamped = np.clip(drawn, low, high)
        mean = clamped.mean()
        assert timer_variance(low / mean, high / mean) == pytest.approx(clamped.var() / mean**2, rel=0.01)


def test_the_response_curve_is_independent_of_the_round_trip() -> None:
    for rtt in [0.001, 0.01, 0.1, 1.0]:
        a, b = parameters(gain=0.02, cap=0.125, sharing=100.0, rtt=rtt)
        assert b <= 0.125
        assert a <= 0.02 * (1 + 1e-12)
        assert a / (b * rtt) == pytest.approx(100)
        p = 0.05
        window = float(rate(np.array(p), 100.0)) * rtt
        assert a * (1 - p) == pytest.approx(b * window * p)
    assert parameters(gain=0.02, cap=0.125, sharing=100.0, rtt=0.001)[1] == 0.125


def test_conventional_tcp_is_biased_by_the_ratio_of_round_trips() -> None:
    p = np.array([0.001, 0.01, 0.1])
    assert conventional_rate(p, 0.02) / conventional_rate(p, 0.2) == pytest.approx(10)
    window = conventional_rate(p, 1.0)
    assert (1 - p) / window == pytest.approx(p * window / 2)


def test_response_times_are_those_of_the_window() -> None:
    a, b, window = 0.02, 0.05, 40
    after = window * (1 - b) ** window  # a round trip in which all are marked, of a window that stays in flight
    assert cut_round_trips(window / after, window, b) == pytest.approx(1)
    grown = 40.0
    for _ in range(35):
        grown += a * grown
    assert growth_round_trips(grown / 40.0, a) == pytest.approx(35)


def test_responses_and_marking_are_equal_at_the_crossing() -> None:
    for pull in [1e-4, 0.01, 1.0]:
        for law in LAWS:
            for other in [0.0, 0.6]:
                load = equilibrium(law, pull, other)
                p = law.probability(np.array(load))
                assert load == pytest.approx(other + pull * (1 - float(p)) / float(p), rel=1e-6)
    # Of M/M/1 it is the root of a quadratic: k rho^2 = pull (1 - rho), with k = 1 - 1/phi.
    k, pull = 1 - 1 / 1.1, 0.02
    known = (-pull + sqrt(pull * pull + 4 * k * pull)) / (2 * k)
    assert equilibrium(Poisson(1.1), pull) == pytest.approx(known)
    with pytest.raises(ValueError, match="below 1"):
        equilibrium(Poisson(1.1), 0.1, other=1.0)


def test_several_delays_are_integrated_at_fourth_order() -> None:
    # x' = -a x(t - 1) - b x(t - 2.5) has the solution e^(s t) for s = -a e^-s - b e^(-2.5 s); given s and a, that is b.
    s, a = complex(-0.05, 1.1), 0.3
    b = -(s + a * np.exp(-s)) / np.exp(-2.5 * s)
    turn = np.array([[b.real, -b.imag], [b.imag, b.real]])
    errors = []
    for steps in [8, 16, 32]:
        solved = integrate_delays(
            lambda _, then: -a * then[0] - turn @ then[1],
            lambda t: np.array([np.exp(s * t).real, np.exp(s * t).imag]),
            step=1 / steps,
            delays=[steps, 5 * steps // 2],
            until=12,
        )
        errors.append(float(np.abs(solved.states[:, 0] - np.exp(s * solved.times).real).max()))
    assert np.log2(np.array(errors[:-1]) / errors[1:]) == pytest.approx(4, abs=0.3), errors


def test_the_fluid_model_of_one_class_is_the_window_equation() -> None:
    # Written in a window w of T = 1: w' = w(t - 1) (a (1 - p) - b w p), b = a / S, N = 1, theta C = 10.
    law, a, sharing = Poisson(1.1), 0.3, 0.7
    loop = Loop(law, [1.0], [sharing / 10])
    begin = 1.2 * loop.load * 10

    def slope(now: Array, then: Array) -> Array:
        p = law.probability(then / 10)
        grown: Array = then * (a * (1 - p) - a / sharing * now * p)
        return grown

    known = integrate(slope, lambda _: np.array([begin]), delay=1.0, until=30, steps=16)
    times, loads = loop.integrate([a], until=30, start=1.2)
    assert times == pytest.approx(known.times)
    assert loads[:, 0] * 10 == pytest.approx(known.states[:, 0])


MIXED = [0.02, 0.04, 0.1, 0.2]
SHARES = {"equal": ([0.1], [0.12]), "mixed": (MIXED, [0.03] * 4), "two": ([0.05, 0.2], [0.08, 0.04])}


@pytest.mark.parametrize("mix", SHARES)
@pytest.mark.parametrize("law", [Poisson(1.03), Gaussian(1.02, 2.0)], ids=str)
def test_every_mix_converges_below_the_bound_of_the_text(law: Marking, mix: str) -> None:
    loop = Loop(law, *SHARES[mix])
    times, loads = loop.integrate([0.3 * loop.bound, 0.99 * loop.bound], until=24, steps=6, start=1.02)
    assert np.abs(loads[times > 22] / loop.load - 1).max() < 1e-4


@pytest.mark.parametrize("mix", SHARES)
def test_oscillation_begins_as_in_the_linearized_model(mix: str) -> None:
    loop = Loop(Batches(1.03), *SHARES[mix])
    exact = loop.critical_gain()
    assert loop.onset([factor * exact for factor in [0.94, 0.97, 1.0, 1.03, 1.06]]) == pytest.approx(exact, rel=0.01)


def test_the_critical_gain_is_half_of_pi_times_the_bound() -> None:
    law = Batches(1.002)
    equal, mixed = (Loop(law, rtts, [0.02 / len(rtts)] * len(rtts)) for rtts in [[0.1], MIXED])
    assert equal.bound == pytest.approx(mixed.bound)
    assert 1 < equal.critical_gain() / equal.bound / (pi / 2) < 1.1
    assert mixed.critical_gain() > 1.1 * equal.critical_gain()
    # Two equal classes are one, by the curve as by the formula.
    nearly = Loop(law, [0.1, 0.1 + 1e-9], [0.01, 0.01])
    assert nearly.critical_gain() == pytest.approx(equal.critical_gain(), rel=1e-4)


def test_the_link_oscillates_only_above_the_critical_gain() -> None:
    loop = Loop(Batches(1.02), [0.1], [0.02])
    exact = loop.critical_gain()
    swings = loop.swing([0.9 * exact, 1.1 * exact, 1.5 * exact], until=60, over=10)
    assert swings[0] < 1e-4
    assert 0.02 < swings[1] < swings[2]


def test_without_marks_the_fluid_model_grows_like_a_window() -> None:
    # An empty link: u' = a u(t - 1), whose root is s = a e^-s; log(1 + a) is the same to the first order in a.
    loop = Loop(Poisson(1.0 + 1e-9), [1.0], [1.0])
    times, loads = loop.integrate([0.02], until=50, start=1e-6)
    grown = log(float(loads[-1, 0] / loads[0, 0])) / 50
    assert grown == pytest.approx(0.02 * exp(-grown), rel=0.02)
    assert growth_round_trips(exp(grown * 50), 0.02) == pytest.approx(50, rel=0.03)
    assert times[-1] == pytest.approx(50)
