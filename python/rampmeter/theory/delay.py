"""Delay differential equations with one constant delay, x'(t) = f(x(t), x(t - T)), by the method of steps.

The step h divides the delay, so that x(t - T) is a point of the grid where a step begins and where it ends, and the
places where derivatives jump (0, T, 2T, ...) are ends of steps and never lie within one. Steps are the classical
Runge-Kutta ones of fourth order. Halfway through a step the delayed state lies between two points of the grid, on the
cubic that has the values and slopes of both (Hermite); it is off by O(h^4), so the whole stays of fourth order:
A. Bellen and M. Zennaro, Numerical Methods for Delay Differential Equations, chapters 4 and 6.
"""

from __future__ import annotations

from collections.abc import Callable
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
        """Give the states from `time` on."""
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
    h = delay / steps
    count = int(np.ceil(until / h - 1e-9))
    times: Array = np.arange(count + 1, dtype=np.float64) * h
    states = np.empty((count + 1, *history(0.0).shape))
    slopes = np.empty_like(states)
    states[0] = history(0.0)

    def delayed(step: int) -> Array:
        """Give the state a delay before the end `step`."""
        row: Array = states[step - steps] if step >= steps else history(h * (step - steps))
        return row

    for step in range(count):
        now = states[step]
        start = slope(now, delayed(step))
        slopes[step] = start
        before = step - steps
        if before < 0:
            between = history(h * (before + 0.5))
        else:
            between = (states[before] + states[before + 1]) / 2 + h / 8 * (slopes[before] - slopes[before + 1])
        first_middle = slope(now + h / 2 * start, between)
        second_middle = slope(now + h / 2 * first_middle, between)
        end = slope(now + h * second_middle, delayed(step + 1))
        states[step + 1] = now + h / 6 * (start + 2 * first_middle + 2 * second_middle + end)
    return Solution(times, states)
