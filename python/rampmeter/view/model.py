"""What a trace has: events in columns of floats, sorted by time, in seconds."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Table = dict[str, Floats]
"""Columns of one length. Each table has the column `time`."""

EPOCH = 1e8
"""Later times, in seconds, are those of a calendar: they are shown relative to the first one."""

CAUSES = ["", "arrival", "timer", "application"]
REASONS = {
    "arrival": "a packet arrived: an acknowledgement made room in the window, or one is due",
    "timer": "a timer expired: pacing, or a timeout",
    "application": "the application wrote",
}


class TraceError(Exception):
    """A file is not what it should be: the message has the file, the place and what is wrong."""


class Rows:
    """A table that is being read."""

    def __init__(self, *names: str) -> None:
        """Start without rows."""
        self.names = names
        self.flat = array("d")
        self.add = self.flat.extend

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.flat) // len(self.names)

    def table(self) -> Table:
        """Return the columns, sorted by time."""
        rows = np.frombuffer(self.flat, dtype=np.float64).reshape(-1, len(self.names))
        table = {name: rows[:, column].copy() for column, name in enumerate(self.names)}
        return ordered(table)


def ordered(table: Table) -> Table:
    """Sort a table by time; other stacks log some events late."""
    if (np.diff(table["time"]) >= 0).all():
        return table
    order = np.argsort(table["time"], kind="stable")
    return {name: column[order] for name, column in table.items()}


def empty(*names: str) -> Table:
    """Return a table without rows."""
    return Rows("time", *names).table()


@dataclass
class Flow:
    """An end of a flow."""

    name: str
    about: str = ""
    remarks: list[str] = field(default_factory=list)
    sent: Table = field(default_factory=dict)
    """Packets with data: number, offset, length (of the data), bytes, repeated, cause; window, in_flight and rate as
    they were before; acked_at and lost_at."""
    received: Table = field(default_factory=dict)
    """Packets with data: number, offset, length, bytes."""
    acked: Table = field(default_factory=dict)
    """The first acknowledgement of each packet: offset, length, bytes."""
    lost: Table = field(default_factory=dict)
    """Packets that count as lost: offset, length."""
    metrics: dict[str, Table] = field(default_factory=dict)
    """Tables with the column `value`: window, in_flight, rate, latest_rtt, smoothed_rtt, min_rtt, and others."""
    own: dict[str, Table] = field(default_factory=dict)
    """The controller's own values."""
    states: list[str] = field(default_factory=list)
    """The names of the controller's states; `metrics["state"]` has their indices."""
    moments: dict[str, Floats] = field(default_factory=dict)
    """Times of losses, timeouts, timers and marks, and of what the application did, by what happened."""

    def describe(self, row: int) -> list[str]:
        """Say what the packet in this row of `sent` was, and why it left then."""
        packet = {name: float(column[row]) for name, column in self.sent.items()}
        cause = CAUSES[int(packet["cause"])]
        again = "retransmission, " if packet["repeated"] else ""
        end = packet["offset"] + packet["length"]
        lines = [
            f"Packet {packet['number']:.0f} left at {packet['time']:.6f} s",
            f"{again}{packet['bytes']:.0f} bytes; stream {packet['offset']:,.0f} to {end:,.0f}",
        ]
        if cause:
            lines.append(f"Why now: {REASONS[cause]}")
        if row > 0:
            lines.append(f"{1e3 * (packet['time'] - self.sent['time'][row - 1]):.3f} ms after the packet before")
        flying, window, rate = packet["in_flight"], packet["window"], packet["rate"]
        if flying == flying:
            room = f" of a window of {window:,.0f}: room for {window - flying:,.0f}" if window == window else ""
            lines.append(f"{flying:,.0f} bytes were in flight{room}")
        if rate == rate:
            gap = f": a packet of this size each {8e3 * packet['bytes'] / rate:.3f} ms" if rate > 0 else ""
            lines.append(f"Pacing rate {rate / 1e6:.3f} Mb/s{gap}")
        if packet["lost_at"] == packet["lost_at"]:
            lines.append(f"Counted as lost {1e3 * (packet['lost_at'] - packet['time']):.3f} ms later")
        if packet["acked_at"] == packet["acked_at"]:
            lines.append(f"Acknowledged {1e3 * (packet['acked_at'] - packet['time']):.3f} ms later")
        return lines


@dataclass
class Pair:
    """What a link knows of the packets from one host to another."""

    entered: float = math.nan
    """When the first one was at the near end."""
    left: float = math.nan
    """When the first one was at the far end."""
    flow: int | None = None
    """The flow of the first packet, modulo 1000, where a simulated run made up its port."""
    opens: bool | None = None
    """Whether that packet goes from the end that opened the flow to the other."""


@dataclass
class Link:
    """A link, as the capture of its packets shows it."""

    name: str
    remarks: list[str] = field(default_factory=list)
    offered: Table = field(default_factory=dict)
    """Packets at the near end: bytes, and how many were queued before it."""
    arrived: Table = field(default_factory=dict)
    """Packets at the far end: bytes."""
    dropped: Table = field(default_factory=dict)
    """Dropped packets: bytes."""
    marked: Table = field(default_factory=dict)
    """Packets that the router marked: bytes, and how many were queued when they left."""
    pairs: dict[tuple[bytes, bytes], Pair] = field(default_factory=dict)
    """By the addresses of the sender and the receiver."""

    @cached_property
    def over(self) -> float:
        """Return the interval of rates, in seconds: that of fifty packets, also where they come in bursts."""
        time = self.arrived["time"]
        packets = min(50, len(time) - 1)
        return max(50 / packets * float(np.median(time[packets:] - time[:-packets])), 1e-3) if packets > 0 else 1e-3

    @cached_property
    def rates(self) -> Table:
        """Return the rate at the far end, in bits per second."""
        return delivery_rate(self.arrived["time"], self.arrived["bytes"], self.over)


def times(source: Flow | Link) -> Iterator[Floats]:
    """Yield the times of all tables."""
    tables = (
        [source.sent, source.received, source.acked, source.lost, *source.metrics.values(), *source.own.values()]
        if isinstance(source, Flow)
        else [source.offered, source.arrived, source.dropped, source.marked]
    )
    yield from (table["time"] for table in tables if table and len(table["time"]))
    if isinstance(source, Flow):
        yield from (moments for moments in source.moments.values() if len(moments))


def span(source: Flow | Link) -> tuple[float, float]:
    """Return the first and the last time."""
    ends = [(float(of[0]), float(of[-1])) for of in times(source)]
    return (min(first for first, _ in ends), max(last for _, last in ends)) if ends else (0.0, 0.0)


def relative(numbers: NDArray[np.int64], first: int) -> Floats:
    """Count from `first`, through wraps at 2^32."""
    steps = np.diff(np.concatenate([[first], numbers]))
    return np.cumsum((steps + (1 << 31)) % (1 << 32) - (1 << 31)).astype(np.float64)


def delivery_rate(time: Floats, size: Floats, over: float) -> Table:
    """Return the rate at each time in the interval of this length before it, in bits per second.

    Where nothing comes for longer, the rate is zero.
    """
    if len(time) == 0 or over <= 0:
        return empty("value")
    total = np.concatenate([[0.0], np.cumsum(size)])
    rate = 8 * (total[1:] - total[np.searchsorted(time, time - over, "right")]) / over
    silent = np.append(np.flatnonzero(np.diff(time) > over), len(time) - 1)
    moments = np.concatenate([time, time[silent] + over])
    return ordered({"time": moments, "value": np.concatenate([rate, np.zeros(len(silent))])})
