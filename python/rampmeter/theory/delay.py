"""Delay differential equations with constant delays, x'(t) = f(x(t), x(t - T), ...), by the method of steps.

The step h divides every delay, so that x(t - T) is a point of the grid where a step begins and where it ends, and the
points where derivatives jump (0 and all sums of delays) are ends of steps and never lie within one. Steps are the
classical Runge-Kutta ones of fourth order. Halfway through a step the delayed state lies between two points of the
grid, on the cubic that has the values and slopes of both (Hermite); it is off by O(h^4), so the whole stays of fourth
order: A. Bellen and M. Zennaro, Numerical Methods for Delay Differential Equations, chapters 4 and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Solution:
    """The states at the ends of all steps."""

    times: Array
    """From 0 on, in the unit of the delay."""
    states: Array
    """A row for each time, as long as the state is."""

    def since(self, time: float) -> Array:
        """Return the states from `time` on."""
        return self.states[self.times >= time - 1e-9]


def integrate(
    slope: Callable[[Array, Array], Array],
    history: Callable[[float], Array],
    *,
    delay: float,
    until: float,
    steps: int,
) -> Solution:
    """Integrate x'(t) = `slope`(x(t), x(t - delay)) from 0 to `until`, a whole number of steps, or the next such time.

    `history` gives x from -delay to 0; a delay is `steps` steps long.
    """
    if steps < 1 or delay <= 0:
        raise ValueError(f"{steps} steps in a delay of {delay}: give one step or more, and a delay above 0")
    return integrate_delays(
        lambda now, then: slope(now, then[0]), history, step=delay / steps, delays=[steps], until=until
    )


def integrate_delays(
    slope: Callable[[Array, Array], Array],
    history: Callable[[float], Array],
    *,
    step: float,
    delays: Sequence[int],
    until: float,
) -> Solution:
    """Integrate x'(t) = `slope`(x(t), [x(t - each of `delays`)]) from 0 to `until`, or to the next end of a step.

    The delays are in steps, and the states they lead to are stacked in their order. `history` gives x until 0.
    """
    if not delays or min(delays) < 1 or step <= 0:
        raise ValueError(f"delays of {list(delays)} steps of {step}: give one or more, all of one step or longer")
    h = step
    count = int(np.ceil(until / h - 1e-9))
    times: Array = np.arange(count + 1, dtype=np.float64) * h
    states = np.empty((count + 1, *history(0.0).shape))
    slopes = np.empty_like(states)
    states[0] = history(0.0)

    def end_of(place: int) -> Array:
        """Return the state at an end of a step, which may lie in the history."""
        row: Array = states[place] if place >= 0 else history(h * place)
        return row

    def middle_of(place: int) -> Array:
        """Return the state halfway from the end `place` to the next."""
        if place < 0:
            return history(h * (place + 0.5))
        row: Array = (states[place] + states[place + 1]) / 2 + h / 8 * (slopes[place] - slopes[place + 1])
        return row

    for place in range(count):
        now = states[place]
        start = slope(now, np.stack([end_of(place - delay) for delay in delays]))
        slopes[place] = start
        between = np.stack([middle_of(place - delay) for delay in delays])
        first_middle = slope(now + h / 2 * start, between)
        second_middle = slope(now + h / 2 * first_middle, between)
        end = slope(now + h * second_middle, np.stack([end_of(place + 1 - delay) for delay in delays]))
        states[place + 1] = now + h / 6 * (start + 2 * first_middle + 2 * second_middle + end)
    return Solution(times, states)
