"""Reduces series to what pixels can show, without a loss of extremes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rampmeter.view.model import Floats

ROWS = 400
"""The rows of pixels that marks are thinned to: more than a panel has."""


def between(time: Floats, start: float, end: float) -> slice:
    """Return the rows in an interval, and one more at each side, so that lines cross its borders."""
    first, last = np.searchsorted(time, start, "left"), np.searchsorted(time, end, "right")
    return slice(max(int(first) - 1, 0), min(int(last) + 1, len(time)))


def columns(time: Floats, start: float, end: float, count: int) -> NDArray[np.intp]:
    """Return the first row of each column of pixels that has rows."""
    edges = np.searchsorted(time, np.linspace(start, end, count + 1)[1:-1], "left")
    edges = np.unique(np.concatenate([[0], edges]))
    return edges[edges < len(time)]


def line(time: Floats, value: Floats, start: float, end: float, count: int) -> tuple[Floats, Floats]:
    """Thin a line of steps: in each column its first, least, greatest and last value."""
    rows = between(time, start, end)
    time, value = time[rows], value[rows]
    if len(time) <= 4 * count:
        return time, value
    first = columns(time, start, end, count)
    last = np.append(first[1:], len(time)) - 1
    lows, highs = np.minimum.reduceat(value, first), np.maximum.reduceat(value, first)
    times = np.column_stack([time[first], time[first], time[first], time[last]])
    return times.ravel(), np.column_stack([value[first], lows, highs, value[last]]).ravel()


def marks(time: Floats, value: Floats, start: float, end: float, count: int) -> NDArray[np.intp]:
    """Return rows of which each pixel that has marks has one."""
    rows = between(time, start, end)
    time, value = time[rows], value[rows]
    if len(time) <= 2 * count:
        return np.arange(rows.start, rows.stop)
    low, high = np.nanmin(value), np.nanmax(value)
    across = np.clip((time - start) / max(end - start, 1e-12) * count, 0, count - 1).astype(np.int32)
    up = np.nan_to_num((value - low) / max(high - low, 1e-12) * (ROWS - 1)).astype(np.int32)
    grid = np.full(count * ROWS, -1, dtype=np.intp)
    grid[across * ROWS + up] = np.arange(rows.start, rows.stop)
    chosen: NDArray[np.intp] = grid[grid >= 0]
    return chosen


def bands(time: Floats, value: Floats, start: float, end: float, count: int) -> tuple[Floats, Floats]:
    """Thin states: those at the borders of columns."""
    rows = between(time, start, end)
    time, value = time[rows], value[rows]
    if len(time) <= 2 * count:
        return time, value
    first = columns(time, start, end, count)
    return time[first], value[first]
