"""What is under the pointer, from the exact events and not from what was thinned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rampmeter.view.model import Flow
from rampmeter.view.panels import Panel, Series
from rampmeter.view.sources import Shown

REACH = 20
"""How far from the pointer a mark may be, in pixels."""

MARKS = ("sequence", "events")
"""Panels whose marks are described, not their values at a time."""

SCALES = {
    "b/s": [(1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1, "b/s")],
    "B": [(1e6, "MB"), (1e3, "kB"), (1, "B")],
    "s": [(1, "s"), (1e-3, "ms"), (1e-6, "µs")],
}


@dataclass(frozen=True)
class Pointer:
    """A place in a panel, and the size of a pixel there."""

    time: float
    value: float
    per_x: float
    per_y: float

    def nearest(self, series: Series) -> tuple[float, int] | None:
        """Return the distance in pixels and the row of the nearest mark."""
        reach = REACH * self.per_x
        first, last = np.searchsorted(series.time, [self.time - reach, self.time + reach])
        if first == last:
            return None
        low = series.value[first:last]
        high = low if series.height is None else low + series.height[first:last]
        up = (self.value - np.clip(self.value, low, high)) / self.per_y
        distances = np.hypot((series.time[first:last] - self.time) / self.per_x, up)
        row = int(np.nanargmin(distances))
        return (float(distances[row]), int(first) + row) if distances[row] <= REACH else None


Found = tuple[list[str], tuple[float, float] | None]
"""Lines of text, and the time and the value of the mark that they describe."""


def under(shown: Shown, key: str, pointer: Pointer) -> Found:
    """Describe what is under the pointer."""
    panel = next((panel for panel in shown.panels if panel.key == key), None)
    if panel is None:
        return [], None
    if key in MARKS:
        marks = [(*near, each) for each in panel.series if (near := pointer.nearest(each))]
        _, nearest, of = min(marks, key=lambda each: each[0], default=(0.0, 0, None))
        return mark(shown, of, nearest) if of else ([], None)
    lines = [f"At {pointer.time:.6f} s"]
    for series in panel.series:
        row = int(np.searchsorted(series.time, pointer.time, "right")) - 1
        if series.kind in ("dots", "cross"):
            found = pointer.nearest(Series(series.label, "", "", series.time, np.full(len(series.time), pointer.value)))
            row = found[1] if found else -1
        if row >= 0:
            lines.append(f"{series.label}: {reading(series, row, panel.unit)}")
    flow = shown.source
    if isinstance(flow, Flow) and len(flow.sent["time"]):
        row = int(np.searchsorted(flow.sent["time"], pointer.time, "right")) - 1
        if row >= 0 and pointer.time - flow.sent["time"][row] < 3 * REACH * pointer.per_x:
            lines += ["", *flow.describe(row)]
    return lines, None


@dataclass(frozen=True)
class Event:
    """A row of a series of a panel."""

    series: int
    row: int


def neighbour(panel: Panel, off: list[str], time: float, at: Event | None, is_later: bool) -> Event | None:
    """Return the event after or before `at`, which is at this time, or next to the time.

    Events of one time are in the order of their series. `off`: the labels of series that are left out.
    """
    found = []
    for number, series in enumerate(panel.series):
        if series.label in off:
            continue
        side = "right" if at and number < at.series else "left"
        row = int(np.searchsorted(series.time, time, side)) - (0 if is_later else 1)  # type: ignore[call-overload]
        if at and number == at.series:
            row = at.row + (1 if is_later else -1)
        if 0 <= row < len(series.time):
            found.append((float(series.time[row]), number, row))
    if not found:
        return None
    _, number, row = min(found) if is_later else max(found)
    return Event(number, row)


def describe(shown: Shown, panel: Panel, event: Event) -> Found:
    """Describe an event."""
    series = panel.series[event.series]
    if panel.key in MARKS:
        return mark(shown, series, event.row)
    time, value = float(series.time[event.row]), float(series.value[event.row])
    return [f"At {time:.6f} s", f"{series.label}: {reading(series, event.row, panel.unit)}"], (time, value)


def reading(series: Series, row: int, unit: str) -> str:
    """Write the value of a series in a row."""
    return series.names[int(series.value[row])] if series.kind == "band" else text(float(series.value[row]), unit)


def mark(shown: Shown, series: Series, row: int) -> Found:
    """Describe a mark."""
    time, value = float(series.time[row]), float(series.value[row])
    height = float(series.height[row]) if series.height is not None else 0.0
    at = (time, value + height / 2)
    if series.kind == "lanes":
        return [f"{series.names[int(value)]} at {time:.6f} s"], at
    flow = shown.source
    if isinstance(flow, Flow) and series.label != "received":
        column = {"acknowledged": "acked_at", "lost": "lost_at"}.get(series.label, "time")
        same = (flow.sent[column] == time) & (flow.sent["offset"] == value)
        rows = np.flatnonzero(same)
        if len(rows):
            first = [f"{series.label.capitalize()} at {time:.6f} s", ""] if column != "time" else []
            return first + flow.describe(int(rows[-1])), at
    return [f"{series.label.capitalize()} at {time:.6f} s", f"stream {value:,.0f} to {value + height:,.0f}"], at


def text(value: float, unit: str) -> str:
    """Write a value with a unit of a suitable size."""
    scales = SCALES.get(unit, [(1, unit)])
    size, name = next((scale for scale in scales if abs(value) >= scale[0]), scales[-1])
    return f"{value / size:,.6g} {name}".rstrip()
