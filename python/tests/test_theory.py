"""The fluid models, compared with known results."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import cos, exp, factorial, floor, pi, sin

import numpy as np
import pytest

from rampmeter.theory.delay import Array, integrate
from rampmeter.theory.max_min import max_min
from rampmeter.theory.vcp import (
    Bottleneck,
    Network,
    aggregate,
    critical_kappa,
    onset,
    oscillation,
    smooth_kappa,
)
from rampmeter.theory.vcp_plus import MI_LIMIT, Loop, largest_round_trip
from rampmeter.theory.vcp_plus import critical_kappa as critical_plus_kappa
from rampmeter.theory.vcp_saw import BETA, LATE, Saw

# Links and paths. A parking lot: a long flow across all links, two, one and four across one each; and a ring, whose
# flows use two links each, except four flows that use one.
PARKING_LOT = ([11_200, 8_200, 16_000], [[0, 1, 2], [0], [0], [1], [2], [2], [2], [2]])
RING = ([9_000, 10_600, 8_400, 18_400], [[0, 1], [1, 2], [2, 3], [3, 0], [0], [1], [3], [3]])


def network(links: tuple[list[int], list[list[int]]]) -> Network:
    """Return the network with windows of hundreds of packets, of which alpha / kappa is 0.7% at most."""
    return Network(capacities=links[0], paths=links[1], rtt=0.1, kappa=0.5)


def bottlenecks(kappas: Sequence[float]) -> list[Bottleneck]:
    """Return 1 to 1000 Mb/s, 10 to 300 ms and 1 to 1000 flows, of packets of 1000 bytes, with each kappa."""
    given = [
        Bottleneck(mbps * 125.0, rtt, flows, kappa)
        for mbps in [1, 10, 100, 1000]
        for rtt in [0.01, 0.08, 0.3]
        for flows in [1, 10, 100, 1000]
        for kappa in kappas
    ]
    return [case for case in given if case.epsilon > 0.01]  # the way back from the first overshoot takes P round trips


def test_the_integrator_is_of_fourth_order() -> None:
    # x' = -x - sqrt(2) x(t - 3 pi / 4) has the solution cos t: its roots are where omega = 1, cos omega T = -1/sqrt(2).
    delay, until = 3 * pi / 4, 12 * pi
    errors = []
    for steps in [8, 16, 32, 64]:
        solved = integrate(
            lambda now, then: -now - 2**0.5 * then,
            lambda t: np.array([cos(t)]),
            delay=delay,
            until=until,
            steps=steps,
        )
        errors.append(float(np.abs(solved.states[:, 0] - np.cos(solved.times)).max()))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert orders == pytest.approx(4, abs=0.2), (errors, orders)
    assert errors[-1] < 1e-6


def test_the_integrator_is_exact_for_polynomials() -> None:
    # x' = -x(t - 1), 1 until 0: the sum of (-1)^k (t - k + 1)^k / k! over k up to floor(t) + 1, a polynomial of degree
    # 4 before t = 4. The derivatives jump at 0, 1, 2, ...; a step across a jump would show.
    solved = integrate(lambda _, then: -then, lambda _: np.ones(1), delay=1.0, until=4.0, steps=3)
    known = [
        sum((-1) ** k * (t - k + 1) ** k / factorial(k) for k in range(min(floor(t + 1e-9), 3) + 2))
        for t in solved.times
    ]
    assert solved.states[:, 0] == pytest.approx(known, abs=1e-13)


def test_the_first_round_trip_is_the_known_exponential() -> None:
    # Until T the load is that of the history: w' = g w + N alpha with g = kappa (P - 1) has a solution in closed form.
    case = Bottleneck(capacity=1000.0, rtt=0.1, flows=10, kappa=0.3)
    growth = case.kappa * (case.target / case.flows - 1)
    solved = aggregate([case], until=1, steps=64)
    known = case.flows * ((1 + 1 / growth) * np.exp(growth * solved.times) - 1 / growth)
    assert np.exp(solved.states[:, 0]) == pytest.approx(known, rel=1e-6)


def test_theorem_1_bottlenecks_converge_up_to_kappa_one_half() -> None:
    cases = bottlenecks([0.05, 0.1, 0.25, 0.5])
    assert len(cases) > 100
    expected = [case.target + case.flows * case.alpha / case.kappa for case in cases]
    end = np.exp(aggregate(cases, until=340, steps=8).since(300))
    assert np.abs(end / expected - 1).max() < 1e-4
    assert [case.equilibrium for case in cases] == pytest.approx(expected)


def test_theorem_1_unequal_flows_converge_to_the_same_rate() -> None:
    case = Bottleneck(capacity=1000.0, rtt=0.1, flows=4, kappa=0.5)
    together = Network([case.capacity], [[0]] * case.flows, case.rtt, case.kappa)
    solved = together.flows(until=250, steps=8, start=[1, 5, 20, 60])
    assert np.exp(solved.states[-1]) / case.rtt == pytest.approx([case.rate] * 4, rel=0.001)
    # Differences decay by exp(-N alpha / w*) per round trip, from any start.
    apart = np.exp(solved.states[:, 3]) - np.exp(solved.states[:, 0])
    decay = np.log(apart[8 * 50] / apart[8 * 150]) / 100
    assert decay == pytest.approx(case.flows * case.alpha / case.equilibrium, rel=0.01)


def test_flows_of_one_bottleneck_add_up_to_equation_13() -> None:
    case = Bottleneck(capacity=1000.0, rtt=0.1, flows=4, kappa=0.5)
    start = [1.0, 5.0, 20.0, 60.0]
    flows = Network([case.capacity], [[0]] * case.flows, case.rtt, case.kappa).flows(until=20, start=start)
    whole = aggregate([case], until=20, start=[sum(start)])
    assert np.exp(flows.states).sum(axis=1) == pytest.approx(np.exp(whole.states[:, 0]), rel=1e-4)


@pytest.mark.parametrize("share", [1.0, 10.0, 1000.0])
def test_oscillation_begins_as_in_the_linearized_equation(share: float) -> None:
    exact = critical_kappa(1 / share)
    case = Bottleneck(capacity=share * 10, rtt=1.0, flows=10, gamma=1.0)
    assert onset(case, [factor * exact for factor in [0.9, 0.95, 1.0, 1.05, 1.1]]) == pytest.approx(exact, rel=0.01)


def test_the_critical_kappa_is_a_root_on_the_imaginary_axis() -> None:
    for epsilon in [0.001, 0.1, 1.0, 30.0]:
        kappa = critical_kappa(epsilon)
        present, delayed = kappa * epsilon / (kappa + epsilon), kappa**2 / (kappa + epsilon)
        omega = (delayed**2 - present**2) ** 0.5
        root = complex(present + delayed * cos(omega), omega - delayed * sin(omega))
        assert abs(root) < 1e-9
    assert critical_kappa(1e-9) == pytest.approx(pi / 2)
    # ... and, to the first order, pi/2 + eps (1 + 2/pi).
    assert (critical_kappa(1e-5) - pi / 2) / 1e-5 == pytest.approx(1 + 2 / pi, rel=1e-3)


def test_theorem_1_is_sufficient_and_not_necessary() -> None:
    kappas = [0.5, 1.0, 1.5, 1.65, 1.8, 2.0]
    cases = [Bottleneck(capacity=300.0, rtt=1.0, flows=10, kappa=kappa, gamma=1.0) for kappa in kappas]
    assert 1.5 < critical_kappa(cases[0].epsilon) < 1.65
    left = oscillation(cases, until=340)
    assert left[:3] == pytest.approx(0, abs=0.01)
    assert 0.1 < left[3] < left[4] < left[5]


def test_below_the_smooth_kappa_disturbances_do_not_oscillate() -> None:
    case = Bottleneck(capacity=100.0, rtt=1.0, flows=10, gamma=1.0)
    smooth = smooth_kappa(case.epsilon)
    assert smooth_kappa(1e-9) == pytest.approx(exp(-1), rel=1e-6)
    pair = [Bottleneck(100.0, 1.0, 10, factor * smooth, gamma=1.0) for factor in [0.9, 1.3]]
    solved = aggregate(pair, until=25, start=[0.99 * each.equilibrium for each in pair])
    above = np.exp(solved.states).max(axis=0) / [each.equilibrium for each in pair] - 1
    assert above[0] < 1e-9
    assert above[1] > 1e-6


def test_filling_gives_every_flow_a_bottleneck() -> None:
    # The definition of max-min fairness: Bertsekas and Gallager, section 6.5.2.
    chance = random.Random(5)
    for _ in range(100):
        links = range(chance.randint(1, 6))
        capacities = [chance.uniform(1, 10) for _ in links]
        paths = [chance.sample(links, chance.randint(1, len(links))) for _ in range(chance.randint(1, 12))]
        rates = max_min(capacities, paths)
        for rate, path in zip(rates, paths, strict=True):
            assert any(
                sum(users) == pytest.approx(capacities[link]) and rate >= max(users) - 1e-9
                for link in path
                for users in [[rates[flow] for flow, other in enumerate(paths) if link in other]]
            )
    assert max_min([10, 4], [[0, 1], [1], [0]]) == [2, 2, 8]


def test_filling_finds_an_equilibrium_for_any_alpha() -> None:
    chance = random.Random(6)
    for alpha in [0.01, 1.0, 50.0]:
        links = range(5)
        paths = [chance.sample(links, chance.randint(1, 3)) for _ in range(9)]
        some = Network([chance.uniform(100, 900) for _ in links], paths, rtt=0.2, alpha=alpha)
        rates = np.array(some.equilibrium())
        assert some.theorem_2(some.loads(rates * some.rtt)) == pytest.approx(rates)


@pytest.mark.parametrize("links", [PARKING_LOT, RING], ids=["parking lot", "ring"])
def test_theorem_2_rates_of_a_network_are_max_min_fair(links: tuple[list[int], list[list[int]]]) -> None:
    some = network(links)
    fair: Array = np.array(max_min([some.gamma * capacity for capacity in some.capacities], some.paths))
    assert len({round(rate) for rate in fair}) >= 3
    # From shares that are wrong by half. Differences decay by a factor e in as many round trips as a window has
    # packets.
    wrong = np.where(np.arange(len(fair)) % 2, 0.5, 1.5)
    windows = np.exp(
        some.flows(until=5 * fair.max() * some.rtt, steps=2, start=(fair * some.rtt * wrong).tolist()).states[-1]
    )
    rates = windows / some.rtt
    assert np.abs(rates / fair - 1).max() < 0.01, rates / fair
    assert np.abs(rates / some.equilibrium() - 1).max() < 0.01
    assert np.abs(rates / some.theorem_2(some.loads(windows)) - 1).max() < 0.01


@pytest.mark.parametrize("share", [20.5, 98.5, 980.5])
def test_the_saw_model_matches_vcps_rules_round_by_round(share: float) -> None:
    # Two flows: a packet more each round trip up to P + LATE, a cut to 7/8, a round trip without increase.
    near, far = 0.5 * share, 1.5 * share
    seen, cuts, apart = [], [0], [far - near]
    fine = 0.01  # round trips
    frozen = 0.0
    for place in range(int(60 * Saw(share).cycle / fine)):
        if (near + far) / 2 >= share + LATE:
            near, far, frozen = BETA * near, BETA * far, 1.0
            cuts.append(place)
            apart.append(far - near)
        elif frozen <= 0:
            near, far = near + fine, far + fine
        frozen -= fine
        seen.append((near + far) / 2)
    saw = Saw(share)
    assert (cuts[-1] - cuts[1]) * fine / (len(cuts) - 2) == pytest.approx(saw.cycle, rel=0.01)
    assert np.log(apart[1] / apart[-1]) / ((cuts[-1] - cuts[1]) * fine) == pytest.approx(saw.decay, rel=0.01)
    whole = seen[cuts[1] : cuts[-1]]
    assert [max(whole), min(whole), np.mean(whole)] == pytest.approx([saw.peak, saw.trough, saw.mean], rel=0.003)


def test_the_saw_converges_like_the_fluid_for_large_windows() -> None:
    # 8 ln (8/7) = 1.068 compared with 1, and on average 15/16 of the target compared with all of it.
    share = 1e6
    fluid = Bottleneck(capacity=share, rtt=1.0, flows=1, gamma=1.0)
    assert Saw(share).decay * fluid.equilibrium == pytest.approx(8 * np.log(8 / 7), rel=1e-4)
    assert Saw(share).mean / fluid.equilibrium == pytest.approx(15 / 16, rel=1e-4)


def growth(loop: Loop) -> float:
    """Return the factor by which a small disturbance of the whole, non-linear loop grows in its second half."""
    h = min(1, MI_LIMIT / loop.round_trip)
    goal = 0.99
    target = goal / loop.load_factor

    def slope(now: Array, then: Array) -> Array:
        rate, gamma = loop.packets * np.exp(now[0]), target * np.exp(now[1])
        load_factor = goal * np.exp(then[0]) / (target * np.exp(then[1]))
        additive = 1 / (rate + 2 / loop.kappa)
        change = h * (additive + loop.kappa * (1 / load_factor - 1))
        return np.array([change, loop.gain * (goal - goal * np.exp(now[0])) / gamma])

    delay = loop.round_trip + 1
    solved = integrate(slope, lambda _: np.array([0.001, 0.0]), delay=delay, until=120 * delay, steps=24)
    middle = 60 * delay
    early = np.abs(solved.states[(solved.times > middle - 20 * delay) & (solved.times <= middle), 0]).max()
    return float(np.abs(solved.since(100 * delay)[:, 0]).max() / early)


@pytest.mark.parametrize("round_trip", [0.4, 1.0, 2.5, 7.5])
def test_vcp_plus_loses_stability_at_its_critical_kappa(round_trip: float) -> None:
    kappa = critical_plus_kappa(round_trip)
    assert growth(Loop(1e6, round_trip, 0.97 * kappa)) < 1 < growth(Loop(1e6, round_trip, 1.03 * kappa))


def test_vcp_plus_is_stable_up_to_its_largest_round_trip() -> None:
    longest = largest_round_trip()
    assert 2.5 < longest * 0.2 < 2.8  # seconds, with intervals of 200 ms
    rates = [10.0**n for n in range(-1, 6)]
    assert all(Loop(x, 0.9 * longest).phase_margin() > 0 for x in rates)
    assert min(Loop(x, 1.1 * longest).phase_margin() for x in rates) < 0
