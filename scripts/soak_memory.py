"""Whether a server's memory grows, from samples of its resident bytes at equal intervals.

Memory follows the load: what clients do at the same time differs from second to second, and tables fill for some
minutes. So the quiet samples of the second half count: the lower quartile of the third quarter of the time is compared
with that of the last.
"""

from __future__ import annotations

import statistics

# In ten minutes with 100 clients the quartile of the file server grew by 3.3 of 51 MB, and that of the tunnels' server
# fell by 0.9 of 32 MB. A leak of 2 MB a minute adds 10 MB in twenty minutes, which is above the limit up to 100 MB.
MIN_LIMIT = 3 << 20  # bytes
LIMIT_SHARE = 0.1  # of the memory in the third quarter


def quiet(samples: list[int]) -> float:
    """Return the lower quartile."""
    return statistics.quantiles(samples, n=4)[0] if len(samples) > 1 else samples[0]


def growth(samples: list[int]) -> tuple[float, float]:
    """Return by how many bytes memory grew from the third quarter to the last, and how many are permitted."""
    length = max(len(samples) // 4, 1)
    before = quiet(samples[-2 * length : -length] or samples)
    return quiet(samples[-length:]) - before, max(MIN_LIMIT, LIMIT_SHARE * before)
