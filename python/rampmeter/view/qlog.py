"""Reads qlog, ours and that of other QUIC stacks, as JSON text sequences, as lines of JSON, or as one JSON object.

The forms that differ: names of events (`quic:packet_sent`, `transport:packet_sent`, or in two fields), events as lists
(picoquic), times (relative, since the event before, or of the calendar; milliseconds, or microseconds in picoquic),
lengths in `raw` or beside it, numbers as strings. A stack without `packets_acked` logs acknowledgements as frames.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from rampmeter.view.model import CAUSES, EPOCH, Flow, Rows, TraceError

Event = dict[str, Any]

METRICS = {
    "congestion_window": "window",
    "cwnd": "window",
    "bytes_in_flight": "in_flight",
    "pacing_rate": "rate",
    "latest_rtt": "latest_rtt",
    "smoothed_rtt": "smoothed_rtt",
    "min_rtt": "min_rtt",
    "ssthresh": "ssthresh",
}
GRANT = ("waiting_flows", "macroflow_window_bytes", "macroflow_in_flight_bytes")
"""The values of a grant, which are drawn with the controller's own."""
APPLICATION_EVENTS = {
    "stream_opened",
    "message_written",
    "message_received",
    "stream_finished",
    "stream_ended",
    "transfer_completed",
}
"""What applications do: a moment for each."""
PACKET = ("number", "offset", "length", "bytes")
DATA_FRAMES = {"stream", "crypto", "datagram"}
BIG = 100_000_000
"""The size from which reading takes so long that the command says what it does."""

BAD = (KeyError, TypeError, ValueError, IndexError, AttributeError)


def read(path: Path) -> list[Flow]:
    """Read a file; one JSON object can have several flows."""
    with path.open("rb") as file:
        head = file.read(1 << 12)
    if not head.strip():
        raise TraceError(f"{path}:1: empty: qlog begins with a JSON object")
    if b"\x1e" in head[:1] or b'"trace"' in head.split(b"\n")[0] or b"JSON-SEQ" in head or b"NDJSON" in head:
        reader = LineReader(path)
        reader.advance()
        return [reader.result()]
    try:
        whole = orjson.loads(path.read_bytes())
        traces = whole["traces"]
    except orjson.JSONDecodeError as error:
        raise TraceError(f"{path}:{error.lineno}: not JSON: {error.msg}") from error
    except BAD as error:
        raise TraceError(f"{path}:1: this JSON is not qlog: it has no `traces`") from error
    return [read_trace(path, trace, number, len(traces)) for number, trace in enumerate(traces, 1)]


def read_trace(path: Path, trace: Event, number: int, of: int) -> Flow:
    """Read one of the traces of a JSON object."""
    reader = Reader(trace)
    fields = [name.lower() for name in trace.get("event_fields", [])]
    for count, event in enumerate(trace.get("events", []), 1):
        try:
            reader.take(listed(event, fields) if isinstance(event, list) else event)
        except BAD as error:
            raise TraceError(f"{path}: event {count} is not as in qlog: {problem(error)}") from error
    return reader.flow(flow_name(path) + (f" {number}" if of > 1 else ""))


def listed(event: list[Any], fields: list[str]) -> Event:
    """Name the parts of an event that is a list. picoquic puts its path before the data, unnamed."""
    found = dict(zip(fields, event, strict=False))
    when = found.get("relative_time", found.get("time", event[0]))
    name = found.get("event_type", found.get("event"))
    return {"time": when, "name": f"{found['category']}:{name}", "data": event[-1]}


class LineReader:
    """What was read so far of JSON text sequences, or of lines of JSON."""

    def __init__(self, path: Path) -> None:
        """Start before the first line."""
        self.path = path
        self.offset = 0
        """How many bytes of the file were read."""
        self.lines = 0
        self.reader: Reader | None = None
        self.remarks: list[str] = []

    def advance(self, end: int | None = None) -> None:
        """Read what the file has more, up to the line with this position. A line that is cut is not taken."""
        if end is None and (size := self.path.stat().st_size - self.offset) > BIG:
            print(f"reading {self.path}, {size / 1e6:.0f} MB", file=sys.stderr)
        self.remarks.clear()
        with self.path.open("rb") as file:
            file.seek(self.offset)
            for line in file:
                record = line.lstrip(b"\x1e")
                try:
                    event = None if record.isspace() else orjson.loads(record)
                except orjson.JSONDecodeError as error:
                    if self.reader and not line.endswith(b"\n"):
                        where = f"line {self.lines + 1}; what is before it is shown"
                        self.remarks.append(f"{self.path.name}: the file is cut at {where}")
                        return
                    raise TraceError(f"{self.path}:{self.lines + 1}: not JSON: {error.msg}") from error
                self.lines += 1
                self.offset += len(line)
                try:
                    if event is not None:
                        self.take(event)
                except BAD as error:
                    raise TraceError(f"{self.path}:{self.lines}: not an event of qlog: {problem(error)}") from error
                if end is not None and self.offset >= end:
                    return

    def take(self, event: Event) -> None:
        """Take the header or an event."""
        if self.reader is None:
            self.reader = Reader(event.get("trace") or event)
        else:
            self.reader.take(event)

    def result(self, may_grow: bool = False) -> Flow:
        """Return everything, in tables. A file that may grow is not cut."""
        if self.reader is None:
            raise TraceError(f"{self.path}:{max(self.lines, 1)}: no header: qlog begins with a JSON object")
        flow = self.reader.flow(flow_name(self.path))
        flow.remarks += [] if may_grow else self.remarks
        return flow


def problem(error: Exception) -> str:
    """Say what is wrong with an event."""
    return str(error) if isinstance(error, ValueError) else repr(error)


def seconds(time: Any, scale: float) -> float:
    """Return a time in units of `scale` in seconds."""
    try:
        return float(time) * scale
    except ValueError:
        raise ValueError(f'the time "{time}" is not a number') from None


def headline(head: bytes) -> tuple[str, float]:
    """Return the title of a trace of ours and the time of its first event, in seconds, from the begin of its file."""
    try:
        header, event = (orjson.loads(line.lstrip(b"\x1e")) for line in head.split(b"\n", 2)[:2])
        return str(header["title"]), float(event["time"]) / 1e3
    except BAD:
        return "", 0.0


def flow_name(path: Path) -> str:
    """Return the name of a flow: `0-bulk.client`."""
    return path.name.removesuffix(".gz").removesuffix(".qlog").removesuffix(".sqlog").removesuffix(".json")


class Reader:
    """What was read of a trace so far."""

    def __init__(self, trace: Event) -> None:
        """Start with the trace's header."""
        common = trace.get("common_fields") or {}
        vantage = trace.get("vantage_point") or {}
        parts = [trace.get("title"), trace.get("description"), vantage.get("name"), vantage.get("type")]
        self.about = "; ".join(dict.fromkeys(filter(None, parts)))
        self.is_ours = "rampmeter" in str(trace.get("event_schemas"))
        is_delta = str(common.get("time_format")) in ("delta", "relative_to_previous_event")
        self.scale = 1e-6 if (trace.get("configuration") or {}).get("time_units") == "us" else 1e-3
        self.since: float | None = 0.0 if is_delta else None
        self.origin: float | None = None
        self.sent = Rows("time", *PACKET, "repeated", "cause", "window", "in_flight", "rate")
        self.received = Rows("time", *PACKET)
        self.acked = Rows("time", "offset", "length", "bytes", "row")
        self.lost = Rows("time", "offset", "length", "row")
        self.metrics: dict[str, Rows] = {}
        self.own: dict[str, Rows] = {}
        self.moments: dict[str, list[float]] = {}
        self.states: dict[str, int] = {}
        self.remarks: list[str] = []
        self.now = {"window": np.nan, "in_flight": np.nan, "rate": np.nan}
        self.rows: dict[tuple[str, int], int] = {}
        """The row of each packet in flight."""
        self.highest = 0.0
        self.marks = 0
        self.has_acked = False
        self.takers: dict[str, Callable[[float, Event], None] | None] = {}

    def take(self, event: Event) -> None:
        """Take an event."""
        name = event.get("name") or f"{event['category']}:{event.get('event') or event.get('type')}"
        when = seconds(event["time"] if "time" in event else event["relative_time"], self.scale)
        if self.since is not None:
            self.since = when = when + self.since
        if self.origin is None:
            self.origin = when if when > EPOCH else 0.0
        try:
            taker = self.takers[name]
        except KeyError:
            short = name.lower().rpartition(":")[2].removeprefix("recovery_")
            if name.startswith("rampmeter:") and short in APPLICATION_EVENTS:
                taker = partial(self.take_of_application, short.replace("_", " "))
            else:
                taker = getattr(self, f"on_{short}", None)
            self.takers[name] = taker
        if taker:
            taker(when - self.origin, event["data"])

    def space(self, packet_type: str | None) -> str:
        """Return the space of packet numbers; ours has only one."""
        if self.is_ours or packet_type is None:
            return "application"
        kind = packet_type.lower()
        return kind if kind in ("initial", "handshake") else "application"

    def numbered(self, data: Event) -> tuple[str, int]:
        """Return the space and the number of a packet."""
        header = data.get("header") or data
        number: Any = header.get("packet_number", data.get("packet_number", -1))
        return self.space(header.get("packet_type") or data.get("packet_type")), int(number)

    def packet(self, data: Event) -> tuple[str, int, float, float, float]:
        """Return the space, the number, the stream's offset, the length of its data, and the size."""
        header = data.get("header") or {}
        space, number = self.numbered(data)
        offset, length = np.nan, 0.0
        for frame in data.get("frames") or ():
            if frame.get("frame_type") in DATA_FRAMES:
                raw = frame.get("raw") or frame
                part = float(raw.get("length") or raw.get("payload_length") or 0)
                length += part
                if offset != offset and frame["frame_type"] == "stream":
                    offset = float(frame.get("offset", 0))
        size = (data.get("raw") or {}).get("length") or header.get("packet_size") or header.get("length") or length
        return space, number, offset, length, float(size)

    def on_packet_sent(self, time: float, data: Event) -> None:
        """Add a row for a packet with data."""
        space, number, offset, length, size = self.packet(data)
        if length == 0:
            return
        again = data.get("trigger", "").startswith("retransmit") or (not self.is_ours and offset < self.highest)
        self.highest = max(self.highest, offset + length) if offset == offset else self.highest
        cause = CAUSES.index(data.get("rampmeter_cause", ""))
        self.rows[space, number] = len(self.sent)
        self.sent.add((time, number, offset, length, size, again, cause, *self.now.values()))

    def on_packet_received(self, time: float, data: Event) -> None:
        """Take data and acknowledgements."""
        space, number, offset, length, size = self.packet(data)
        if length:
            self.received.add((time, number, offset, length, size))
        for frame in data.get("frames") or ():
            if frame.get("frame_type") in ("ack", "ack_ecn"):
                self.on_ack(time, space, frame)

    def on_ack(self, time: float, space: str, frame: Event) -> None:
        """Take the frame of an acknowledgement: ours counts its own marks, QUIC those of the connection."""
        marks = int(frame.get("ce") or (frame.get("ecn") or [0])[-1])
        if marks > (0 if self.is_ours else self.marks):
            self.moments.setdefault("marks reported", []).append(time)
        self.marks = marks
        if self.has_acked or self.is_ours:
            return
        for ends in frame.get("acked_ranges") or ():
            first, last = int(ends[0]), int(ends[-1])
            if last - first < len(self.rows):
                self.acknowledge(time, space, range(first, last + 1))
            else:
                found = [number for where, number in self.rows if where == space and first <= number <= last]
                self.acknowledge(time, space, found)

    def on_packets_acked(self, time: float, data: Event) -> None:
        """Take the first acknowledgements of packets."""
        self.has_acked = True
        kind = data.get("packet_number_space")
        self.acknowledge(time, self.space(kind), data.get("packet_numbers") or ())

    def acknowledge(self, time: float, space: str, numbers: Any) -> None:
        """Give each packet that is in flight its acknowledgement."""
        for number in numbers:
            row = self.rows.pop((space, int(number)), None)
            if row is not None:
                first = row * len(self.sent.names)
                _, _, offset, length, size = self.sent.flat[first : first + 5]
                self.acked.add((time, offset, length, size, row))

    def on_packet_lost(self, time: float, data: Event) -> None:
        """Take a packet that counts as lost; its acknowledgement may still come."""
        space, number = self.numbered(data)
        by_timeout = "pto" in data.get("trigger", "") or "timer" in data.get("trigger", "")
        self.moments.setdefault("lost (timeout)" if by_timeout else "lost", []).append(time)
        row = self.rows.get((space, number))
        if row is not None:
            first = row * len(self.sent.names)
            self.lost.add((time, self.sent.flat[first + 2], self.sent.flat[first + 3], row))

    def on_metrics_updated(self, time: float, data: Event) -> None:
        """Take changed values of the sender."""
        for key, number in data.items():
            if (name := METRICS.get(key)) and number is not None:
                value = float(number) * (self.scale if key.endswith("rtt") else 1.0)
                if name in self.now:
                    self.now[name] = value
                self.put(self.metrics, name, time, value)

    def on_controller_updated(self, time: float, data: Event) -> None:
        """Take changed values of the controller's own."""
        for name, value in data.items():
            self.put(self.own, name, time, float(value))

    def on_flow_granted(self, time: float, data: Event) -> None:
        """Take a permission of the Congestion Manager to send."""
        for name in GRANT:
            if data[name] is not None:
                self.put(self.own, name, time, float(data[name]))

    def take_of_application(self, name: str, time: float, _data: Event) -> None:
        """Take something that the application did."""
        self.moments.setdefault(name, []).append(time)

    def on_congestion_state_updated(self, time: float, data: Event) -> None:
        """Take a state of the controller."""
        self.put(self.metrics, "state", time, self.states.setdefault(str(data["new"]), len(self.states)))

    def on_ecn_state_updated(self, time: float, data: Event) -> None:
        """Take what became known about ECN on the path."""
        self.moments.setdefault(f"ECN {data['new']}", []).append(time)

    @staticmethod
    def put(tables: dict[str, Rows], name: str, time: float, value: float) -> None:
        """Add a value to a table."""
        if name not in tables:
            tables[name] = Rows("time", "value")
        tables[name].add((time, value))

    def on_timer_updated(self, time: float, data: Event) -> None:
        """Take a timer that was set, or has expired."""
        if data["event_type"] != "cancelled":
            kind = str(data.get("timer_type", "")).removesuffix("_timeout")
            self.moments.setdefault(f"{kind} timer {data['event_type']}".strip(), []).append(time)

    on_loss_timer_updated = on_timer_updated

    def on_warning(self, time: float, data: Event) -> None:
        """Take a message, for example that the trace is cut."""
        self.remarks.append(f"{time:.6f} s: {data.get('message', '')}")

    def flow(self, name: str) -> Flow:
        """Return everything, in tables."""
        flow = Flow(name, self.about, list(self.remarks), states=list(self.states))
        for fate, rows in (("acked_at", self.acked), ("lost_at", self.lost)):
            flow.sent[fate] = np.full(len(self.sent), np.nan)
            table = rows.table()
            flow.sent[fate][table["row"].astype(int)] = table["time"]
        times = np.frombuffer(self.sent.flat)[:: len(self.sent.names)]
        order = np.argsort(times, kind="stable")
        flow.sent = {name: column[order] for name, column in flow.sent.items()} | self.sent.table()
        flow.received, flow.acked, flow.lost = self.received.table(), self.acked.table(), self.lost.table()
        flow.metrics = {name: rows.table() for name, rows in self.metrics.items()}
        flow.own = {name: rows.table() for name, rows in self.own.items()}
        flow.moments = {name: np.sort(np.array(found)) for name, found in self.moments.items()}
        return flow
