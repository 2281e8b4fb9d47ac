"""Whether a server's memory grows: what it has at rest halfway, compared with what it has at rest at the end.

While clients are busy, memory follows what they do, which may differ by more than a leak adds: in twenty minutes with
200 clients the lower quartile of the last quarter was 92 MB, and that of the third 80 MB.
"""

from __future__ import annotations

import time
from collections.abc import Callable

# A server discards the sessions of clients that are gone after a minute, and returns free memory every 30 seconds.
REST = 100.0  # seconds
MIN_LIMIT = 3 << 20  # bytes
LIMIT_SHARE = 0.1  # of the memory halfway


def at_rest(measure: list[Callable[[], int]], seconds: float = REST) -> list[int]:
    """Wait, and return the lowest results of the last third of the time, in which each function is called often."""
    end = time.monotonic() + seconds
    time.sleep(seconds * 2 / 3)
    lowest = [each() for each in measure]
    while time.monotonic() < end:
        time.sleep(min(1.0, seconds / 30))
        lowest = [min(pair) for pair in zip(lowest, (each() for each in measure), strict=True)]
    return lowest


def permitted_growth(before: int) -> int:
    """Return by how many bytes memory may grow that was `before` halfway."""
    return max(MIN_LIMIT, round(LIMIT_SHARE * before))
