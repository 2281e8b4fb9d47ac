"""Reads pcap and pcapng: where each packet is in the file.

Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng. A capture that is cut ends at its last complete packet.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rampmeter.view.model import Floats, TraceError

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
    buffer: bytes = b""
    order: str = "<"
    interfaces: list[Interface] = field(default_factory=list)
    first: int = 0
    """The first interface of the section."""
    bytes_before: int = 0
    """The bytes of the file before the buffer."""
    packets_before: int = 0
    """The packets of the file before the buffer."""
    rows: array[float] = field(default_factory=lambda: array("d"))
    """For each packet: time, interface, position of its bytes, captured and original length, packets before it."""
    remarks: list[str] = field(default_factory=list)

    def columns(self) -> tuple[Floats, NDArray[np.int64]]:
        """Return the times, and everything else as whole numbers, a row for each column."""
        rows = np.frombuffer(self.rows, dtype=np.float64).reshape(-1, 6)
        return np.ascontiguousarray(rows[:, 0]), rows[:, 1:].T.astype(np.int64)

    def cut(self, position: int) -> None:
        """Note that the file ends within a packet."""
        where = f"packet {self.next()}, byte {self.bytes_before + position}"
        self.remarks.append(f"{self.path.name}: cut at {where}; the packets before it are shown")

    def next(self) -> int:
        """Return the number of the next packet, from 1."""
        return self.packets_before + len(self.rows) // 6 + 1


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
    end = walk_pcap(capture, order) if order else walk_pcapng(capture)
    if not end:
        raise TraceError(f"{path}: cut at byte {len(buffer)}, within its header: capture it again")
    if end < len(buffer):
        capture.cut(end)
    return capture


def walk_pcap(capture: Capture, order: str) -> int:
    """Find the packets of a pcap file. Returns where the last complete one ends."""
    buffer, at = capture.buffer, 24
    if len(buffer) < at:
        return 0
    unit = PCAP[struct.unpack_from(order + "I", buffer)[0]]
    capture.interfaces.append(Interface(struct.unpack_from(order + "I", buffer, 20)[0] & 0xFFFF))
    record = struct.Struct(order + "IIII")
    while at + 16 <= len(buffer):
        seconds, parts, length, original = record.unpack_from(buffer, at)
        if at + 16 + length > len(buffer):
            break
        capture.rows.extend((seconds + parts * unit, 0, at + 16, length, original, 0))
        at += 16 + length
    return at


def walk_pcapng(capture: Capture) -> int:
    """Find the packets of a pcapng file. Returns where the last complete block ends."""
    try:
        return walk_blocks(capture)
    except struct.error as error:
        raise TraceError(f"{capture.path}: packet {capture.next()}: its block is too short") from error


def walk_blocks(capture: Capture) -> int:
    """Find the packets in blocks."""
    buffer, at, order, first = capture.buffer, 0, capture.order, capture.first
    head, short = struct.Struct(order + "IIIII"), struct.Struct(order + "HH")
    while at + 12 <= len(buffer):
        kind, length = struct.unpack_from(order + "II", buffer, at)
        if kind == PCAPNG:
            order = capture.order = "<" if struct.unpack_from("<I", buffer, at + 8)[0] == BYTE_ORDER else ">"
            length = struct.unpack_from(order + "I", buffer, at + 4)[0]
            head, short = struct.Struct(order + "IIIII"), struct.Struct(order + "HH")
            first = capture.first = len(capture.interfaces)
        if length < 12 or length % 4:
            where = f"packet {capture.next()}, byte {capture.bytes_before + at}"
            raise TraceError(f"{capture.path}: {where}: a block cannot have {length} bytes")
        if at + length > len(buffer):
            break
        end = at + length - 4
        if kind == ENHANCED:
            interface, high, low, captured, original = head.unpack_from(buffer, at + 8)
            if first + interface >= len(capture.interfaces) or at + 28 + captured > end:
                where = f"packet {capture.next()}, byte {capture.bytes_before + at}"
                raise TraceError(f"{capture.path}: {where}: its interface or its length is wrong")
            time = (high << 32 | low) * capture.interfaces[first + interface].unit
            options = at + 28 + (captured + 3 & ~3)
            queued = 0
            if options + 4 <= end:
                code, size = short.unpack_from(buffer, options)
                words = buffer[options + 4 : options + 4 + size].split() if code == COMMENT else []
                if words[:1] in ([b"behind"], [b"with"]) and words[1:] and words[1].isdigit():
                    queued = int(words[1])
            capture.rows.extend((time, first + interface, at + 28, captured, original, queued))
        elif kind == INTERFACE:
            capture.interfaces.append(interface_at(buffer, at, end, order))
        at += length
    return at


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
