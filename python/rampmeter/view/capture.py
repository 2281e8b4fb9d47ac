"""Reads pcap and pcapng: where each packet is in the file, and the links that `rampmeter run --trace` captures.

Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng. A capture that is cut ends at its last complete packet.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rampmeter.view.model import Floats, Link, Table, TraceError, ordered

PCAPNG = 0x0A0D0D0A
BYTE_ORDER = 0x1A2B3C4D
INTERFACE, SIMPLE, ENHANCED = 1, 3, 6
END, COMMENT, NAME, RESOLUTION = 0, 1, 2, 9
PCAP = {0xA1B2C3D4: 1e-6, 0xA1B23C4D: 1e-9}
"""The magic numbers of pcap, and their unit of time."""


@dataclass
class Interface:
    """An interface of a capture."""

    link_type: int
    name: str = ""
    unit: float = 1e-6


@dataclass
class Capture:
    """The packets of a file."""

    path: Path
    buffer: bytes
    interfaces: list[Interface] = field(default_factory=list)
    rows: array[float] = field(default_factory=lambda: array("d"))
    """For each packet: time, interface, position of its bytes, captured and original length, packets before it."""
    remarks: list[str] = field(default_factory=list)

    def columns(self) -> tuple[Floats, NDArray[np.int64]]:
        """Return the times, and everything else as whole numbers, a row for each column."""
        rows = np.frombuffer(self.rows, dtype=np.float64).reshape(-1, 6)
        return np.ascontiguousarray(rows[:, 0]), rows[:, 1:].T.astype(np.int64)

    def cut(self, position: int) -> None:
        """Note that the file ends within a packet."""
        where = f"packet {self.next()}, byte {position}"
        self.remarks.append(f"{self.path.name}: cut at {where}; the packets before it are shown")

    def next(self) -> int:
        """Return the number of the next packet, from 1."""
        return len(self.rows) // 6 + 1


def is_capture(path: Path) -> bool:
    """Whether a file begins as a capture does."""
    with path.open("rb") as file:
        head = file.read(4)
    return len(head) == 4 and any(struct.unpack(order + "I", head)[0] in (PCAPNG, *PCAP) for order in "<>")


def is_link(path: Path) -> bool:
    """Whether a file is a capture of one of our links."""
    with path.open("rb") as file:
        return b", near end" in file.read(512)


def walk(path: Path) -> Capture:
    """Find the packets of a file."""
    capture = Capture(path, path.read_bytes())
    buffer = capture.buffer
    order = next((o for o in "<>" if struct.unpack_from(o + "I", buffer)[0] in PCAP), None)
    try:
        if order:
            walk_pcap(capture, order)
        else:
            walk_pcapng(capture)
    except struct.error as error:
        raise TraceError(f"{path}: packet {capture.next()}: its block is too short") from error
    return capture


def walk_pcap(capture: Capture, order: str) -> None:
    """Find the packets of a pcap file."""
    buffer, at = capture.buffer, 24
    if len(buffer) < at:
        raise TraceError(f"{capture.path}: cut in its header of 24 bytes: capture it again")
    unit = PCAP[struct.unpack_from(order + "I", buffer)[0]]
    capture.interfaces.append(Interface(struct.unpack_from(order + "I", buffer, 20)[0] & 0xFFFF))
    record = struct.Struct(order + "IIII")
    while at < len(buffer):
        if at + 16 > len(buffer):
            return capture.cut(at)
        seconds, parts, length, original = record.unpack_from(buffer, at)
        if at + 16 + length > len(buffer):
            return capture.cut(at)
        capture.rows.extend((seconds + parts * unit, 0, at + 16, length, original, 0))
        at += 16 + length
    return None


def walk_pcapng(capture: Capture) -> None:
    """Find the packets of a pcapng file."""
    buffer, at, first = capture.buffer, 0, 0
    order = "<"
    while at < len(buffer):
        if at + 12 > len(buffer):
            return capture.cut(at)
        kind, length = struct.unpack_from(order + "II", buffer, at)
        if kind == PCAPNG:
            order = "<" if struct.unpack_from("<I", buffer, at + 8)[0] == BYTE_ORDER else ">"
            length = struct.unpack_from(order + "I", buffer, at + 4)[0]
            head, short = struct.Struct(order + "IIIII"), struct.Struct(order + "HH")
            first = len(capture.interfaces)
        if length < 12 or length % 4:
            raise TraceError(f"{capture.path}: packet {capture.next()}, byte {at}: a block cannot have {length} bytes")
        if at + length > len(buffer):
            return capture.cut(at)
        end = at + length - 4
        if kind == ENHANCED:
            interface, high, low, captured, original = head.unpack_from(buffer, at + 8)
            if first + interface >= len(capture.interfaces) or at + 28 + captured > end:
                where = f"packet {capture.next()}, byte {at}"
                raise TraceError(f"{capture.path}: {where}: its interface or its length is wrong")
            time = (high << 32 | low) * capture.interfaces[first + interface].unit
            options = at + 28 + (captured + 3 & ~3)
            queued = 0
            if options + 4 <= end:
                code, size = short.unpack_from(buffer, options)
                words = buffer[options + 4 : options + 4 + size].split() if code == COMMENT else []
                if words[:1] == [b"behind"] and words[1:] and words[1].isdigit():
                    queued = int(words[1])
            capture.rows.extend((time, first + interface, at + 28, captured, original, queued))
        elif kind == INTERFACE:
            capture.interfaces.append(interface_at(buffer, at, end, order))
        at += length
    return None


def interface_at(buffer: bytes, at: int, end: int, order: str) -> Interface:
    """Read the description of an interface."""
    interface = Interface(struct.unpack_from(order + "H", buffer, at + 8)[0])
    at += 16
    while at + 4 <= end:
        code, size = struct.unpack_from(order + "HH", buffer, at)
        if code == END:
            break
        if code == NAME:
            interface.name = buffer[at + 4 : at + 4 + size].decode(errors="replace")
        elif code == RESOLUTION:
            power = buffer[at + 4]
            interface.unit = 2.0 ** -(power & 0x7F) if power & 0x80 else 10.0**-power
        at += 4 + (size + 3 & ~3)
    return interface


def read_link(path: Path) -> Link:
    """Read the capture of a link."""
    capture = walk(path)
    time, (interface, _, _, length, queued) = capture.columns()
    sizes = length.astype(np.float64)

    def at_end(end: str) -> Table:
        chosen = [number for number, each in enumerate(capture.interfaces) if each.name.endswith(end)]
        rows = np.isin(interface, chosen)
        return ordered({"time": time[rows], "bytes": sizes[rows], "queued": queued[rows].astype(np.float64)})

    return Link(path.stem, capture.remarks, at_end(", near end"), at_end(", far end"), at_end(", dropped"))
