"""Reads the capture of a link, as `rampmeter run --trace` writes it, also while it grows."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rampmeter.view.capture import Capture, walk_pcapng
from rampmeter.view.model import Floats, Link, Pair, Table, ordered

ENDS = ["near end", "far end", "dropped", "marked"]
PORT = 46000
"""In a simulated run flow N has this port plus N mod 1000, at both ends."""
IPV4_HEADER, UDP_HEADER = 20, 8
KIND = IPV4_HEADER + UDP_HEADER
"""The position of the kind of a packet of ours, in the lower half of the byte."""
OPENS = {1: True, 2: False}
"""By the kind of packet: a `Syn` comes from the end that opens a flow, a `SynAck` from the other."""


class LinkReader:
    """What was read of a link's file so far."""

    def __init__(self, path: Path) -> None:
        """Start before the first packet."""
        self.capture = Capture(path)
        self.chunks: list[list[Table]] = [[] for _ in ENDS]
        self.pairs: dict[tuple[bytes, bytes], Pair] = {}

    @property
    def offset(self) -> int:
        """Return how many bytes of the file were read."""
        return self.capture.bytes_before

    def advance(self, end: int | None = None) -> None:
        """Read what the file has more, up to this position."""
        capture = self.capture
        with capture.path.open("rb") as file:
            file.seek(self.offset)
            capture.buffer = file.read() if end is None else file.read(end - self.offset)
        used = walk_pcapng(capture)
        self.take()
        capture.remarks.clear()
        if used < len(capture.buffer):
            capture.cut(used)
        capture.bytes_before += used
        capture.buffer = b""

    def take(self) -> None:
        """Move the packets of the capture into tables."""
        time, (interface, start, captured, length, queued) = self.capture.columns()
        self.capture.packets_before += len(time)
        self.capture.rows = self.capture.rows[:0]
        sizes = length.astype(np.float64)
        for end, name in enumerate(ENDS):
            chosen = [number for number, each in enumerate(self.capture.interfaces) if each.name.endswith(f", {name}")]
            rows = np.flatnonzero(np.isin(interface, chosen))
            table = {"time": time[rows], "bytes": sizes[rows]}
            if end in (0, 3):
                table["queued"] = queued[rows].astype(np.float64)
            self.chunks[end].append(table)
            if end < 2:
                whole = rows[captured[rows] >= KIND]
                self.meet(time[whole], start[whole], is_near=end == 0)

    def meet(self, time: Floats, start: NDArray[np.int64], is_near: bool) -> None:
        """Note the first packet of each pair of hosts at an end."""
        buffer = np.frombuffer(self.capture.buffer, dtype=np.uint8)
        key = np.zeros(len(start), dtype=np.uint64)
        for byte in range(12, 20):
            key = key << np.uint64(8) | buffer[start + byte]
        for row in np.unique(key, return_index=True)[1]:
            packet = self.capture.buffer[start[row] : start[row] + KIND + 1]
            pair = self.pairs.setdefault((packet[12:16], packet[16:20]), Pair())
            if is_near and math.isnan(pair.entered):
                pair.entered = float(time[row])
                port, other = packet[IPV4_HEADER : IPV4_HEADER + 2], packet[IPV4_HEADER + 2 : IPV4_HEADER + 4]
                pair.flow = int.from_bytes(port, "big") - PORT if port == other else None
                pair.opens = OPENS.get(packet[KIND] & 15) if len(packet) > KIND else None
            elif not is_near and math.isnan(pair.left):
                pair.left = float(time[row])

    def result(self, may_grow: bool = False) -> Link:
        """Return everything, in tables. A file that may grow is not cut."""
        remarks = [] if may_grow else list(self.capture.remarks)
        offered, arrived, dropped, marked = (
            ordered({name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]})
            for chunks in self.chunks
        )
        return Link(self.capture.path.stem, remarks, offered, arrived, dropped, marked, dict(self.pairs))
