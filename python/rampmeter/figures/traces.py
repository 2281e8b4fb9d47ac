"""Flows over time, from a run's samples: delivered bytes, rates and windows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from rampmeter.running import Run, Value


@dataclass
class Trace:
    """A flow's samples."""

    traffic: str
    """The name of its `[[traffic]]` in the scenario."""
    seed: int
    """The seed of its run."""
    times: list[float] = field(default_factory=list)
    """In seconds since the run began."""
    delivered: list[float] = field(default_factory=list)
    """Bytes delivered to the receiver's application since the flow's start."""
    windows: list[float] = field(default_factory=list)
    """The controller's window in bytes, 0 where it has none."""
    controller_rates: list[float] = field(default_factory=list)
    """The controller's rate in b/s, 0 where it has none."""

    def rates(self, over: float) -> tuple[list[float], list[float]]:
        """Return the delivery rate of each interval of `over` seconds in b/s, at its middle."""
        times, rates = [], []
        start = 0
        for end, time in enumerate(self.times):
            if time - self.times[start] >= over - 1e-9:
                bits = 8 * (self.delivered[end] - self.delivered[start])
                times.append((self.times[start] + time) / 2)
                rates.append(bits / (time - self.times[start]))
                start = end
        return times, rates


def traces(result: Run, **at: Value) -> list[Trace]:
    """Return the traces of the runs at these values of the axes, by seed and then as the scenario lists the flows."""
    if result.flow_series is None:
        return []
    own = "its_flow" if "flow" in result.about["axes"] else "flow"
    keys = [*result.about["axes"], own]
    flows = {tuple(row[key] for key in keys): row for row in _where(result.flows, at)}
    found: dict[tuple[int, int], Trace] = {}
    for row in _where(result.flow_series, at):
        traffic = flows[tuple(row[key] for key in keys)]["traffic"]
        trace = found.setdefault((row["seed"], row[own]), Trace(traffic, row["seed"]))
        trace.times.append(row["time_s"])
        trace.delivered.append(row["delivered_bytes"])
        trace.windows.append(row["window_bytes"] or 0)
        trace.controller_rates.append(row["rate_bps"] or 0)
    return [found[key] for key in sorted(found)]


@dataclass
class LinkTrace:
    """A link's samples."""

    times: list[float]
    """In seconds since the run began."""
    packets: list[float]
    """Packets in the queue at these times."""
    transmitted: list[float]
    """Bytes sent since the run began."""

    def rates(self, over: float) -> tuple[list[float], list[float]]:
        """Return the rate of each interval of `over` seconds in b/s, at its middle."""
        return Trace("", 0, self.times, self.transmitted).rates(over)


def link_trace(result: Run, link: str, **at: Value) -> LinkTrace:
    """Return the trace of `link` in the one run at these values of the axes."""
    samples = [] if result.link_series is None else _where(result.link_series, {**at, "link": link})
    return LinkTrace(
        times=[row["time_s"] for row in samples],
        packets=[row["queue_packets"] for row in samples],
        transmitted=[row["transmitted_bytes"] for row in samples],
    )


def marked_share(row: Mapping[str, Any]) -> float:
    """Return the fraction of packets with data that the link of this row marked; it never marks acknowledgements."""
    return float(row["marked_packets"] / max(row["offered_data_packets"], 1))


def sums(lines: Sequence[tuple[Sequence[float], Sequence[float]]]) -> tuple[list[float], list[float]]:
    """Return the sum of lines where all of them have a point."""
    at = defaultdict(list)
    for line in lines:
        for x, y in zip(*line, strict=True):
            at[round(x, 6)].append(y)
    places = sorted(x for x, ys in at.items() if len(ys) == len(lines))
    return places, [sum(at[x]) for x in places]


def mean(lines: Sequence[tuple[Sequence[float], Sequence[float]]]) -> tuple[list[float], list[float]]:
    """Return the mean of lines where all of them have a point."""
    places, heights = sums(lines)
    return places, [each / len(lines) for each in heights]


def values(result: Run, axis: str) -> list[Any]:
    """Return the values of an axis, in the requested order."""
    return list(dict.fromkeys(result.runs[axis].to_pylist()))


def rows(result: Run, **at: Value) -> list[dict[str, Any]]:
    """Return the rows of `runs` at these values of the axes."""
    return _where(result.runs, at)


def _where(table: Any, at: Mapping[str, Value]) -> list[dict[str, Any]]:
    for axis, value in at.items():
        table = table.filter(pc.field(axis) == value)
    return list(table.to_pylist())
