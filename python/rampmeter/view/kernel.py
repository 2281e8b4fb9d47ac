"""Flows of TCP from a capture at their sender: sequence numbers, bytes in flight, round trips of matched ACKs.

A capture shows neither the congestion window nor losses as the sender counts them: a segment below the highest one
counts as retransmitted. Round trips follow Karn's rule: a segment that was sent twice gives none.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rampmeter.view.capture import Capture, walk
from rampmeter.view.model import Floats, Flow, TraceError, empty, relative

Ints = NDArray[np.int64]
Rows = NDArray[np.bool_]
Columns = dict[str, NDArray[Any]]

HEADERS = {0: 4, 1: 14, 101: 0, 113: 16, 228: 0, 229: 0, 276: 20}
"""The bytes before the network layer's header, by link type: loopback, Ethernet, raw, Linux cooked, IPv4, IPv6."""

TCP, FIN, SYN, ACK = 6, 1, 2, 16


def read(path: Path) -> list[Flow]:
    """Read every direction of a TCP connection that carries data."""
    capture = walk(path)
    packets = decode(capture)
    flows = []
    for key in np.unique(packets["key"]) if packets else ():
        rows = packets["key"] == key
        ends = {name: column[rows] for name, column in packets.items()}
        for forward in (True, False):
            if (ends["length"][ends["forward"] == forward] > 0).sum() > 1:
                flows.append(flow(path, capture, ends, forward))
    if not flows:
        raise TraceError(f"{path}: no TCP connection with data in it; it has {len(capture.rows) // 6} packets")
    return flows


def decode(capture: Capture) -> Columns:
    """Return the fields of all TCP segments, in columns."""
    time, (interface, start, captured, original, _) = capture.columns()
    buffer = np.frombuffer(capture.buffer + bytes(128), dtype=np.uint8)

    def number(at: Ints, size: int) -> Ints:
        found = np.zeros(len(at), dtype=np.int64)
        for byte in range(size):
            found = found << 8 | buffer[at + byte]
        return found

    skip = np.array([HEADERS.get(each.link_type, -1) for each in capture.interfaces], dtype=np.int64)
    known = skip[interface] >= 0 if len(skip) else np.zeros(0, bool)
    ip = start + np.where(known, skip[interface], 0) if len(skip) else start
    version = buffer[ip] >> 4
    v4 = (version == 4) & (buffer[ip + 9] == TCP)
    v6 = (version == 6) & (buffer[ip + 6] == TCP)
    tcp = ip + np.where(v4, 4 * (buffer[ip] & 15).astype(np.int64), 40)
    kept = np.flatnonzero(known & (v4 | v6) & (tcp + 20 <= start + captured))
    if len(kept) == 0:
        return {}
    ip, tcp, v4, end = ip[kept], tcp[kept], v4[kept], start[kept] + original[kept]
    # Packets that the host's interface will divide or pad: the length in the header counts, unless it is zero.
    announced = np.where(v4, number(ip + 2, 2), 40 + number(ip + 4, 2))
    end = np.where((announced > 40) & (ip + announced <= end), ip + announced, end)
    source, sink = (end_of(buffer, np.where(v4, ip + a, ip + b), v4, tcp + c) for a, b, c in ((12, 8, 0), (16, 24, 2)))
    forward = source < sink
    return {
        "time": time[kept],
        "key": np.where(forward, np.char.add(source, sink), np.char.add(sink, source)),
        "forward": forward,
        "at": tcp,
        "source": source,
        "sink": sink,
        "number": number(tcp + 4, 4),
        "ack": number(tcp + 8, 4),
        "flags": buffer[tcp + 13],
        "window": number(tcp + 14, 2),
        "length": end - tcp - 4 * (buffer[tcp + 12] >> 4).astype(np.int64),
        "bytes": end - ip,
    }


def end_of(buffer: NDArray[np.uint8], address: Ints, v4: Rows, port: Ints) -> NDArray[np.str_]:
    """Return an address and a port as one text for each packet."""
    sizes = np.where(v4, 4, 16)
    raw = np.column_stack([np.where(byte < sizes, buffer[address + byte], 0) for byte in range(16)])
    raw = np.column_stack([raw, buffer[port], buffer[port + 1], v4]).astype(np.uint8)
    distinct, places = np.unique(raw, axis=0, return_inverse=True)
    texts = np.array([end_name(bytes(each)) for each in distinct])
    return texts[places.ravel()]


def end_name(raw: bytes) -> str:
    """Write an address and a port."""
    port = struct.unpack(">H", raw[16:18])[0]
    if raw[18]:
        return f"{'.'.join(map(str, raw[:4]))}:{port} "
    return f"[{':'.join(f'{part:x}' for part in struct.unpack('>8H', raw[:16]))}]:{port} "


def flow(path: Path, capture: Capture, ends: Columns, forward: bool) -> Flow:
    """Make the flow of one direction: its data, and the ACKs of the other."""
    origin = float(ends["time"][0]) if ends["time"][0] > 1e8 else 0.0
    ours, flags = ends["forward"] == forward, ends["flags"]
    data, acks = ours & (ends["length"] > 0), ~ours & (flags & ACK > 0)
    numbers = ends["number"].astype(np.int64)
    syn = np.flatnonzero(ours & (flags & SYN > 0))
    first = int(numbers[syn[0]]) + 1 if len(syn) else int(numbers[data][0])
    time, offset = ends["time"][data] - origin, relative(numbers[data], first)
    length = ends["length"][data].astype(np.float64)
    highest = np.concatenate([[-np.inf], np.maximum.accumulate(offset + length)])
    again = offset < highest[:-1]
    ack_time = ends["time"][acks] - origin
    ack = np.maximum.accumulate(np.clip(relative(ends["ack"][acks].astype(np.int64), first), 0, None))

    # The first ACK that covers a segment acknowledges it; a later copy of the same bytes gives no round trip.
    covered = np.searchsorted(ack, offset + length)
    acked_at = np.append(ack_time, np.nan)[covered]
    acked_at = np.where(acked_at >= time, acked_at, np.nan)
    starts, counts = np.unique(offset, return_counts=True)
    once = counts[np.searchsorted(starts, offset)] == 1
    good = once & ~again & (acked_at == acked_at)
    # One round trip for each ACK: that of the segment that was sent last of those that it covers.
    last = good & np.concatenate([covered[1:] != covered[:-1], [True]])
    trips = acked_at[last] - time[last]

    moments = np.concatenate([time, ack_time])
    order = np.argsort(moments, kind="stable")
    moments = moments[order]
    sent = np.maximum.accumulate(np.concatenate([offset + length, np.zeros(len(ack))])[order])
    got = np.maximum.accumulate(np.concatenate([np.zeros(len(offset)), ack])[order])
    flying = {"time": moments, "value": np.clip(sent - got, 0, None)}
    before = np.searchsorted(moments, time, "left") - 1
    window = receive_window(capture, ends, ~ours, acks)
    pair = (str(ends["source"][data][0]).strip(), str(ends["sink"][data][0]).strip())
    made = Flow(f"{path.stem}: {pair[0]} > {pair[1]}", "TCP, from a capture", list(capture.remarks))
    made.sent = {
        "time": time,
        "number": np.arange(len(time), dtype=np.float64),
        "offset": offset,
        "length": length,
        "bytes": ends["bytes"][data].astype(np.float64),
        "repeated": again.astype(np.float64),
        "cause": np.zeros(len(time)),
        "window": np.full(len(time), np.nan),
        "in_flight": np.where(before >= 0, flying["value"][before], 0.0),
        "rate": np.full(len(time), np.nan),
        "acked_at": acked_at,
        "lost_at": np.full(len(time), np.nan),
    }
    made.received, made.lost = empty("offset", "length"), empty("offset", "length")
    advance = np.diff(np.concatenate([[0.0], ack]))
    new = advance > 0
    advance = advance[new]
    made.acked = {"time": ack_time[new], "offset": ack[new] - advance, "length": advance, "bytes": advance}
    made.metrics = {
        "in_flight": flying,
        "latest_rtt": {"time": acked_at[last], "value": trips},
        "receive_window": {"time": ack_time, "value": window},
    }
    if len(trips):
        made.metrics["min_rtt"] = {"time": acked_at[last], "value": np.minimum.accumulate(trips)}
    made.moments = {"retransmitted": time[again]} if again.any() else {}
    duplicate = ~new & (ends["length"][acks] == 0) & (flags[acks] & (SYN | FIN) == 0)
    if duplicate.any():
        made.moments["duplicate ACK"] = ack_time[duplicate]
    return made


def receive_window(capture: Capture, ends: Columns, theirs: Rows, acks: Rows) -> Floats:
    """Return the window of each ACK, scaled as the SYN says (RFC 7323)."""
    scale = 0
    for at in ends["at"][theirs & (ends["flags"] & SYN > 0)][:1]:
        options, end = int(at) + 20, int(at) + 4 * (capture.buffer[at + 12] >> 4)
        while options < end and capture.buffer[options]:
            kind, size = capture.buffer[options], 1 if capture.buffer[options] == 1 else capture.buffer[options + 1]
            if kind == 3:
                scale = capture.buffer[options + 2]
            options += max(size, 1)
    is_scaled = ends["flags"][acks] & SYN == 0
    return ends["window"][acks] * np.where(is_scaled, 2.0 ** min(scale, 14), 1.0)
