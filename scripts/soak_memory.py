"""Whether a server's memory grows, from samples of its resident bytes at equal intervals.

Memory follows the load: what clients do at the same time differs from second to second. So the quiet samples count: the
lower quartile of the second quarter of the time, after the start, is compared with that of the last quarter.
"""

from __future__ import annotations

import statistics

# In soaks of three minutes with 40 and 100 clients the lower quartile grew by 0.0 of 27 MB and by 1.7 of 52 MB, and by
# 5.5% at most between any two quarters after the first 20 s; maxima differed by up to 11%. A leak of 2 MB a minute
# adds 3 MB in three minutes, which is above the limit up to 50 MB of memory, and 20 MB in twenty minutes: up to 330 MB.
MIN_LIMIT = 2 << 20  # bytes
LIMIT_SHARE = 0.06  # of the memory in the second quarter


def quiet(samples: list[int]) -> float:
    """Return the lower quartile."""
    return statistics.quantiles(samples, n=4)[0] if len(samples) > 1 else samples[0]


def growth(samples: list[int]) -> tuple[float, float]:
    """Return by how many bytes memory grew from the second quarter to the last, and how many are permitted."""
    length = max(len(samples) // 4, 1)
    before = quiet(samples[length : 2 * length] or samples)
    return quiet(samples[-length:]) - before, max(MIN_LIMIT, LIMIT_SHARE * before)
