"""Max-min fair rates by filling: D. Bertsekas and R. Gallager, Data Networks, 2nd edition, section 6.5.2.

The rates of all flows rise together until a link is full. Its flows keep their rates, the others continue to rise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def fill(paths: Sequence[Sequence[int]], level: Callable[[int, float, int], float]) -> list[float]:
    """Return the rate of each flow; `paths` lists each flow's links.

    `level(link, fixed, flows)` is the rate at which the link stops those `flows` of its flows that have no rate yet,
    where the rates of the other flows sum up to `fixed`.
    """
    rates: dict[int, float] = {}
    while len(rates) < len(paths):
        levels = {}
        for link in sorted({link for path in paths for link in path}):
            users = [flow for flow, path in enumerate(paths) if link in path]
            waiting = sum(flow not in rates for flow in users)
            if waiting:
                levels[link] = level(link, sum(rates.get(flow, 0.0) for flow in users), waiting)
        first = min(levels, key=levels.__getitem__)
        stopped = [flow for flow, path in enumerate(paths) if first in path and flow not in rates]
        rates.update(dict.fromkeys(stopped, levels[first]))
    return [rates[flow] for flow in range(len(paths))]


def max_min(capacities: Sequence[float], paths: Sequence[Sequence[int]]) -> list[float]:
    """Return the max-min fair rates, in the unit of the capacities."""
    return fill(paths, lambda link, fixed, flows: (capacities[link] - fixed) / flows)
