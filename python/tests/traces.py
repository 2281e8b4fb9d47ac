"""Small traces for tests, as `rampmeter run --trace` writes them, and a server of them."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from rampmeter.view import Server, find
from rampmeter.view.link import LinkReader
from rampmeter.view.model import Link


def lines(*events: dict[str, Any], start: str = "\x1e") -> str:
    return "".join(start + json.dumps(event, separators=(",", ":")) + "\n" for event in events)


def sent(at: float, number: int, name: str = "quic:packet_sent", **more: Any) -> dict[str, Any]:
    """A packet with 1000 bytes of data."""
    stream = {"frame_type": "stream", "stream_id": 0, "offset": 1000 * number, "raw": {"length": 1000}}
    header = {"packet_type": "1RTT", "packet_number": number}
    return {"time": at, "name": name, "data": {"header": header, "frames": [stream], "raw": {"length": 1050}, **more}}


def event(at: float, name: str, **data: Any) -> dict[str, Any]:
    return {"time": at, "name": name, "data": data}


OURS = [
    {
        "qlog_format": "JSON-SEQ",
        "trace": {"title": "bulk 0", "event_schemas": ["urn:x-rampmeter:qlog:events:controller"]},
    },
    event(10.0, "quic:recovery_metrics_updated", congestion_window=12000, bytes_in_flight=0, pacing_rate=8_400_000),
    event(10.0, "quic:congestion_state_updated", new="slow_start"),
    sent(10.0, 0, rampmeter_cause="application"),
    event(10.0, "quic:recovery_metrics_updated", bytes_in_flight=1050),
    sent(11.0, 1, rampmeter_cause="timer"),
    event(11.0, "quic:timer_updated", timer_type="loss_timeout", event_type="set", delta=200.0),
    sent(12.0, 2, rampmeter_cause="timer"),
    event(60.0, "quic:packets_acked", packet_numbers=[0, 2]),
    event(60.0, "quic:recovery_metrics_updated", latest_rtt=50.0, smoothed_rtt=50.0),
    event(60.0, "quic:packet_lost", header={"packet_type": "1RTT", "packet_number": 1}, trigger="pto_expired"),
    event(60.0, "quic:ecn_state_updated", old="testing", new="capable"),
    event(60.0, "rampmeter:controller_updated", max_bandwidth_bps=8e6, filter_s=0.5),
    event(61.0, "loglevel:warning", message="the trace ends here"),
]


def written(directory: Path, name: str, text: str | bytes) -> Path:
    path = directory / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def option(code: int, text: bytes) -> bytes:
    return struct.pack("<HH", code, len(text)) + text + bytes(-len(text) % 4)


def interfaces(link: str) -> bytes:
    """The begin of a link's capture."""
    parts = [block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    for end in ("near end", "far end", "dropped", "marked"):
        name = f"{link}, {end}".encode()
        parts.append(block(1, struct.pack("<HHI", 101, 0, 256) + option(2, name) + option(9, b"\x09")))
    return b"".join(parts)


def header(source: int, destination: int, flow: int, kind: int) -> bytes:
    """IPv4 and UDP as simulated runs make them up, and the first byte of ours."""
    ports = struct.pack(">HHHH", 46000 + flow, 46000 + flow, 1230, 0)
    return bytes([0x45]) + bytes(11) + bytes([10, 0, 0, source, 10, 0, 0, destination]) + ports + bytes([0x10 | kind])


def link_capture() -> bytes:
    """Packets 1 ms apart at the near end, each behind one more; the second is marked, the third is dropped."""
    parts, packet = [interfaces("slow")], header(3, 4, 0, 1)
    for number in range(3):
        marked = [(3, 400_000, "with 5 packets in the queue: CE instead of ECT(0)")] if number == 1 else []
        end = (1 if number < 2 else 2, 500_000, "")
        for interface, delay, comment in ((0, 0, f"behind {number} packets"), *marked, end):
            at = 1_000_000 * number + delay
            head = struct.pack("<IIIII", interface, at >> 32, at & 0xFFFFFFFF, len(packet), 1250)
            parts.append(
                block(6, head + packet + bytes(-len(packet) % 4) + (option(1, comment.encode()) if comment else b""))
            )
    return b"".join(parts)


@contextmanager
def served(*paths: Path) -> Iterator[Server]:
    server = Server(find(list(paths)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def opened_page(browser: str) -> Iterator[Any]:
    """A page of a browser that must log no error and no warning."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    errors: list[str] = []
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = opened.new_page(viewport={"width": 1300, "height": 900})
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield page
        assert errors == []
        opened.close()


def read_link(path: Path) -> Link:
    """What the capture of a link has."""
    reader = LinkReader(path)
    reader.advance()
    return reader.result()
