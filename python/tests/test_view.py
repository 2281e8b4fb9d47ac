"""Traces in the browser. The samples of other stacks have the forms of the sources that they name."""

from __future__ import annotations

import http.client
import json
import os
import struct
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from traces import OURS, event, lines, link_capture, opened_page, read_link, sent, served, written

from rampmeter.view import Server, find, hover, kernel, qlog, thinning
from rampmeter.view.model import Link, TraceError, delivery_rate
from rampmeter.view.panels import drawn

# draft-ietf-quic-qlog-main-schema-01: the time of an event may be the time since the event before.
DELTA = [{"qlog_format": "NDJSON", "trace": {"common_fields": {"time_format": "delta"}}}] + [
    event(at, name, **data)
    for at, name, data in [
        (10, "transport:packet_sent", sent(0, 0)["data"]),
        (1, "transport:packet_sent", sent(0, 1)["data"]),
        (1, "transport:packet_sent", sent(0, 2)["data"]),
        (48, "recovery:packet_lost", {"header": {"packet_type": "1RTT", "packet_number": 1}}),
        (0, "recovery:packets_acked", {"packet_numbers": [0, 2]}),
        (0, "recovery:metrics_updated", {"congestion_window": 12000, "latest_rtt": 50}),
    ]
]

# neqo (neqo-transport/src/qlog.rs) and quiche, with the crate qlog: `packets_acked` names the space of numbers.
NEQO = [
    {"qlog_version": "0.3", "qlog_format": "JSON-SEQ", "trace": {"vantage_point": {"type": "client"}}},
    *(sent(10.0 + number, number, "transport:packet_sent") for number in range(3)),
    event(60.0, "recovery:packets_acked", packet_number_space="application_data", packet_numbers=[0, 2]),
    event(60.0, "recovery:packets_acked", packet_number_space="initial", packet_numbers=[1]),
    event(60.0, "recovery:packet_lost", header={"packet_type": "1RTT", "packet_number": 1}),
    event(60.0, "recovery:metrics_updated", congestion_window=12000, latest_rtt=50.0),
]

# aioquic (src/aioquic/quic/logger.py): one object, times of the calendar, acknowledgements as frames with whole ranges.
AIOQUIC = {
    "qlog_format": "JSON",
    "traces": [
        {
            "common_fields": {"ODCID": "00"},
            "vantage_point": {"name": "aioquic", "type": "client"},
            "events": [
                *(sent(1.7e12 + number, number, "transport:packet_sent") for number in range(3)),
                event(
                    1.7e12 + 50.0,
                    "transport:packet_received",
                    header={"packet_type": "1RTT", "packet_number": 7},
                    frames=[{"frame_type": "ack", "acked_ranges": [[0, 0], [2, 2]]}],
                ),
                event(1.7e12 + 50.0, "recovery:packet_lost", type="1RTT", packet_number=1),
                event(1.7e12 + 50.0, "recovery:metrics_updated", cwnd=12000, latest_rtt=50.0),
            ],
        }
    ],
}


# picoquic (loglib/qlog.c): events are lists, times are microseconds, numbers are strings, lengths are beside offsets.
def picoquic_sent(number: int) -> list[Any]:
    frame = {"frame_type": "stream", "id": 0, "offset": 1000 * number, "length": 1000}
    header = {"packet_number": str(number), "packet_size": 1050}
    return [1000 * number, "transport", "packet_sent", {"packet_type": "1RTT", "header": header, "frames": [frame]}]


PICOQUIC_ACK = {"frame_type": "ack", "acked_ranges": [[2, 2], [0, 0]]}
PICOQUIC = {
    "qlog_version": "draft-00",
    "traces": [
        {
            "event_fields": ["relative_time", "CATEGORY", "EVENT_TYPE", "DATA"],
            "configuration": {"time_units": "us"},
            "events": [
                *map(picoquic_sent, range(3)),
                [50000, "transport", "packet_received", {"packet_type": "1RTT", "header": {"packet_number": "5"},
                                                         "frames": [PICOQUIC_ACK]}],
                [50000, "recovery", "packet_lost", {"packet_type": "1RTT", "header": {"packet_number": "1"}}],
                [50000, "recovery", "metrics_updated", "default", {"cwnd": 12000, "latest_rtt": 50000}],
            ],
        }
    ],
}  # fmt: skip

SAMPLES = {
    "ours": lines(*OURS),
    "delta": lines(*DELTA, start=""),
    "neqo": lines(*NEQO),
    "aioquic": json.dumps(AIOQUIC),
    "picoquic": json.dumps(PICOQUIC),
}


@pytest.mark.parametrize("stack", SAMPLES)
def test_qlog_of_each_stack_gives_the_same_flow(stack: str, tmp_path: Path) -> None:
    [flow] = qlog.read(written(tmp_path, "0.client.qlog", SAMPLES[stack]))
    assert flow.sent["offset"].tolist() == [0, 1000, 2000]
    assert flow.sent["bytes"].tolist() == [1050] * 3
    assert flow.acked["offset"].tolist() in ([0, 2000], [2000, 0])
    assert flow.lost["offset"].tolist() == [1000]
    assert flow.metrics["window"]["value"].tolist() == [12000]
    assert flow.metrics["latest_rtt"]["value"].tolist() == pytest.approx([0.05])
    assert (flow.sent["acked_at"] - flow.sent["time"])[[0, 2]] == pytest.approx([0.05, 0.048], abs=1e-6)
    assert np.isnan(flow.sent["acked_at"][1])


def test_a_packet_says_why_it_left(tmp_path: Path) -> None:
    [flow] = qlog.read(written(tmp_path, "0.client.qlog", SAMPLES["ours"]))
    text = "\n".join(flow.describe(1))
    assert "Packet 1 left at 0.011000 s" in text
    assert "Why now: a timer expired" in text
    assert "1,050 bytes were in flight of a window of 12,000: room for 10,950" in text
    assert "Pacing rate 8.400 Mb/s: a packet of this size each 1.000 ms" in text
    assert "Counted as lost 49.000 ms later" in text
    assert "application wrote" in "\n".join(flow.describe(0))


def test_panels_have_states_own_values_and_timeouts(tmp_path: Path) -> None:
    [flow] = qlog.read(written(tmp_path, "0.client.qlog", SAMPLES["ours"]))
    panels = {panel.key: panel for panel in drawn(flow)}
    assert list(panels) == ["state", "sequence", "window", "rtt", "rate", "own_bps", "own_s", "events"]
    assert panels["state"].series[0].names == ["slow_start"]
    assert panels["own_bps"].series[0].label == "max bandwidth"
    assert panels["events"].series[0].names == ["ECN capable", "loss timer set", "lost (timeout)"]
    assert flow.remarks == ["0.061000 s: the trace ends here"]


def test_grants_and_what_the_application_did_are_drawn(tmp_path: Path) -> None:
    grant = {"macroflow": 0, "flows": 3, "macroflow_window_bytes": None, "macroflow_in_flight_bytes": 3000}
    more = [
        event(62.0, "rampmeter:stream_opened"),
        event(62.0, "rampmeter:message_written", offset=0, length=300),
        event(63.0, "rampmeter:flow_granted", waiting_flows=2, **grant),
        event(90.0, "rampmeter:message_received", offset=0, length=5000, duration=28.0),
        event(91.0, "rampmeter:transfer_completed", duration=29.0),
    ]
    [flow] = qlog.read(written(tmp_path, "0.client.qlog", lines(*OURS, *more)))
    assert flow.moments["message received"].tolist() == pytest.approx([0.09])
    panels = {panel.key: panel for panel in drawn(flow)}
    names = panels["events"].series[0].names
    assert {"stream opened", "message written", "message received", "transfer completed", "lost (timeout)"} <= set(
        names
    )
    assert [series.label for series in panels["own"].series] == ["waiting flows"]
    assert panels["own_bytes"].series[0].value.tolist() == [3000]


def test_broken_qlog_is_named_by_file_and_line(tmp_path: Path) -> None:
    good = [line + "\n" for line in SAMPLES["ours"].rstrip("\n").split("\n")]
    path = written(tmp_path, "x.qlog", "".join([*good[:4], "\x1e{broken}\n", *good[4:]]))
    with pytest.raises(TraceError, match=r"x\.qlog:5: not JSON"):
        qlog.read(path)
    [flow] = qlog.read(written(tmp_path, "cut.qlog", "".join(good[:8])[:-20]))
    assert flow.remarks == ["cut.qlog: the file is cut at line 8; what is before it is shown"]
    with pytest.raises(TraceError, match=r"y\.qlog:2: not an event of qlog"):
        qlog.read(written(tmp_path, "y.qlog", good[0] + '\x1e{"time":1,"name":"quic:packet_sent","data":3}\n'))


# ---- Captures ----


def tcp_capture() -> bytes:
    """Three segments of 1000 bytes near the wrap of sequence numbers; the second is sent again after 30 ms."""
    first = 2**32 - 1500
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 256, 1)

    def packet(ms: float, is_ours: bool, number: int, ack: int, flags: int, length: int = 0) -> bytes:
        ends = [bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])][:: 1 if is_ours else -1]
        ports = (4000, 80) if is_ours else (80, 4000)
        tcp = struct.pack(">HHIIBBHHH", *ports, number % 2**32, ack % 2**32, 0x50, flags, 500, 0, 0)
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 40 + length, 0, 0, 64, 6, 0) + ends[0] + ends[1]
        data = bytes(12) + b"\x08\x00" + ip + tcp
        return struct.pack("<IIII", 1_700_000_000, int(1000 * ms), len(data), len(data) + length) + data

    rows = [
        (0, True, first, 0, 2, 0), (10, False, 9, first + 1, 18, 0), (20, True, first + 1, 10, 16, 1000),
        (21, True, first + 1001, 10, 16, 1000), (22, True, first + 2001, 10, 16, 1000),
        (30, False, 10, first + 1001, 16, 0), (32, False, 10, first + 1001, 16, 0),
        (51, True, first + 1001, 10, 16, 1000), (61, False, 10, first + 3001, 16, 0),
    ]  # fmt: skip
    return out + b"".join(packet(*row) for row in rows)


def test_a_links_capture_gives_rate_queue_marks_and_drops(tmp_path: Path) -> None:
    link = read_link(written(tmp_path, "slow.pcapng", link_capture()))
    assert link.offered["queued"].tolist() == [0, 1, 2]
    assert link.arrived["time"].tolist() == pytest.approx([0.0005, 0.0015])
    assert link.dropped["time"].tolist() == pytest.approx([0.0025])
    queue = drawn(link)[1]
    assert [(series.label, series.value.tolist()) for series in queue.series[1:]] == [("marked", [5]), ("dropped", [2])]


def test_the_rate_of_bursts_is_over_fifty_packets() -> None:
    time = np.repeat(np.arange(0, 1, 0.01), 10)  # ten packets each 10 ms: most have no time between them
    link = Link("bursts", arrived={"time": time, "bytes": np.full(len(time), 1250.0)})
    assert link.over == pytest.approx(0.05)
    assert link.rates["value"].max() < 13e6  # 10 Mb/s, and a burst at the border


def test_a_cut_capture_is_shown_up_to_its_cut(tmp_path: Path) -> None:
    link = read_link(written(tmp_path, "slow.pcapng", link_capture()[:-30]))
    assert link.remarks[0].startswith("slow.pcapng: cut at packet 7, byte ")
    assert len(link.offered["time"]) == 3
    assert len(link.dropped["time"]) == 0


def test_tcp_in_a_capture_has_flight_and_round_trips(tmp_path: Path) -> None:
    [flow] = kernel.read(written(tmp_path, "tcp.pcap", tcp_capture()))
    assert flow.name == "tcp: 10.0.0.1:4000 > 10.0.0.2:80"
    assert flow.sent["offset"].tolist() == [0, 1000, 2000, 1000]
    assert flow.sent["repeated"].tolist() == [0, 0, 0, 1]
    assert flow.sent["in_flight"].tolist() == [0, 1000, 2000, 2000]
    # The last ACK covers a retransmission, which was sent last: it gives no round trip.
    assert flow.metrics["latest_rtt"]["value"].tolist() == pytest.approx([0.010], abs=1e-6)
    assert flow.metrics["in_flight"]["value"].max() == 3000
    assert {name: len(times) for name, times in flow.moments.items()} == {"retransmitted": 1, "duplicate ACK": 1}


@pytest.mark.parametrize("name", ["x.qlog", "x.pcapng", "x.pcap"])
def test_changed_bytes_give_a_flow_or_a_clear_error(name: str, tmp_path: Path) -> None:
    whole = {"x.qlog": SAMPLES["ours"].encode(), "x.pcapng": link_capture(), "x.pcap": tcp_capture()}[name]
    random = np.random.default_rng(1)
    outcomes, errors = set(), ""
    for _ in range(500):
        changed = bytearray(whole)
        for place in random.integers(len(changed), size=random.integers(1, 4)):
            changed[place] = random.integers(256)
        try:
            outcomes |= {len(source.shown().panels) > 0 for source in find([written(tmp_path, name, bytes(changed))])}
        except TraceError as error:
            errors += str(error)
    assert True in outcomes
    assert errors
    assert "\n" not in errors


# ---- Thinning ----


def test_thinned_lines_keep_the_extremes_of_each_column() -> None:
    random = np.random.default_rng(1)
    time, value = np.sort(random.uniform(0, 100, 200_000)), random.normal(size=200_000)
    thin_time, thin_value = thinning.line(time, value, 0, 100, 500)
    assert len(thin_time) <= 4 * 500
    assert (np.diff(thin_time) >= 0).all()
    for column in range(500):
        borders = column / 5, (column + 1) / 5
        exact = value[(time >= borders[0]) & (time < borders[1])]
        kept = thin_value[(thin_time >= borders[0]) & (thin_time < borders[1])]
        assert (exact.min(), exact.max()) == (kept.min(), kept.max())


def test_thinned_marks_leave_no_pixel_empty() -> None:
    random = np.random.default_rng(1)
    time, value = np.sort(random.uniform(0, 100, 200_000)), random.uniform(0, 50, 200_000)
    rows = thinning.marks(time, value, 0, 100, 100)

    def pixels(at: Any) -> set[tuple[int, int]]:
        up = (value[at] - value.min()) / (value.max() - value.min()) * (thinning.ROWS - 1)
        return set(zip(np.clip(time[at], 0, 99.999).astype(int).tolist(), up.astype(int).tolist(), strict=True))

    assert pixels(rows) == pixels(slice(None))
    assert len(rows) == len(pixels(rows))
    assert len(thinning.marks(time, value, 40, 40.01, 100)) < 40


def test_delivery_rates_are_zero_where_nothing_comes() -> None:
    rate = delivery_rate(np.array([1.0, 1.1, 5.0]), np.array([1000.0, 1000.0, 1000.0]), 0.5)
    assert rate["time"].tolist() == pytest.approx([1.0, 1.1, 1.6, 5.0, 5.5])
    assert rate["value"].tolist() == pytest.approx([16_000, 32_000, 0, 16_000, 0])


# ---- The command, the server and the page ----


def get(server: Server, path: str, host: str = "127.0.0.1") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.putrequest("GET", path, skip_host=True)
    connection.putheader("Host", f"{host}:{server.server_port}")
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_the_server_answers_only_its_token_and_its_files(traces: Path) -> None:
    with served(traces) as server, served(traces) as other:
        assert server.server_address[0] == "127.0.0.1"
        assert server.token != other.token
        base = f"/{server.token}/"
        assert get(server, base)[0] == 200
        wrong = [
            "/",
            f"/{other.token}/",
            base + "../server.py",
            base + "..%2Fserver.py",
            base + "/etc/passwd",
            base + "nothing",
        ]
        assert [get(server, path)[0] for path in wrong] == [404] * len(wrong)
        assert get(server, base, host="example.com")[0] == 404
        bad = ["data?source=99&columns=10", "data?source=-1&columns=10", "data?columns=10", "under?source=0"]
        assert [get(server, base + path)[0] for path in bad] == [400] * len(bad)


def test_data_is_a_header_and_columns_of_floats(traces: Path) -> None:
    with (
        served(traces) as server,
        urllib.request.urlopen(f"{server.url}data?source=0&from=0&to=4&columns=100") as answer,
    ):
        body = answer.read()
    (length,) = struct.unpack_from("<I", body)
    header = json.loads(body[4 : 4 + length])
    counts = [series["count"] * series["columns"] for panel in header["panels"] for series in panel["series"]]
    floats = np.frombuffer(body, dtype="<f8", offset=4 + length)
    assert len(floats) == sum(counts)
    assert header["span"] == pytest.approx([0.01, 3.019])


def test_the_pointer_finds_the_exact_packet(traces: Path) -> None:
    shown = find([traces])[0].shown()
    text, at = hover.under(shown, "sequence", hover.Pointer(0.0111, 1400.0, 1e-4, 50.0))
    assert text[0] == "Packet 1 left at 0.011000 s"
    assert at == (0.011, 1500.0)
    assert hover.under(shown, "sequence", hover.Pointer(0.0111, 90_000.0, 1e-4, 50.0)) == ([], None)
    text, _ = hover.under(shown, "window", hover.Pointer(0.0111, 0.0, 1e-4, 50.0))
    assert {"window: 12 kB", "in flight: 1.05 kB", "Packet 1 left at 0.011000 s"} <= set(text)


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("missing", None, "missing: does not exist; `rampmeter run FILE --trace DIR` writes traces"),
        ("x.qlog", "\x1e{}\n\x1e{broken}\n\x1e{}\n", "x.qlog:2: not JSON"),
        ("x.txt", "words\n", "x.txt:1: not JSON"),
        ("x.pcapng", "", "x.pcapng: neither qlog nor pcap"),
        ("random.pcapng", "\x07words\x1e", "random.pcapng: neither qlog nor pcap"),
        ("cut.pcapng", link_capture()[:20], "cut.pcapng: cut at byte 20, within its header"),
        (
            "t.qlog",
            '\x1e{}\n\x1e{"time":"x","name":"a","data":{}}\n',
            't.qlog:2: not an event of qlog: the time "x" is not a number',
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    name: str, content: str | bytes | None, error: str, tmp_path: Path
) -> None:
    path = tmp_path / name if content is None else written(tmp_path, name, content)
    command = [sys.executable, "-m", "rampmeter.view", "--no-browser", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 2
    assert result.stderr.startswith(f"rampmeter: {tmp_path}/{error}")
    assert result.stderr.count("\n") == 1


def is_browser_of(command: Path, directory: Path) -> bool:
    """Whether a process has its profile in a directory."""
    try:
        return f"--user-data-dir={directory}/".encode() in command.read_bytes()
    except OSError:  # it has ended
        return False


@pytest.mark.alone  # beside others the browser may need more than its minute
def test_a_picture_has_the_panels_of_both_runs(browser: str, traces: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rampmeter.view", "--picture", str(tmp_path / "two.svg")]
    paths, here = map(str, sorted(traces.iterdir())), os.environ | {"TMPDIR": str(tmp_path)}
    subprocess.run([*command, *paths], check=True, timeout=180, env=here)
    text = (tmp_path / "two.svg").read_text(encoding="utf-8")
    assert text.count("Stream offset (MB)") == 2
    assert text.count("Link slow: queue (packets)") == 2
    assert "slow_start" in text
    deadline = time.monotonic() + 20
    while remaining := [each for each in Path("/proc").glob("[0-9]*/cmdline") if is_browser_of(each, tmp_path)]:
        assert time.monotonic() < deadline, remaining
        time.sleep(0.1)


def test_the_page_opens_zooms_and_exports(browser: str, traces: Path, tmp_path: Path) -> None:
    with served(traces) as server, opened_page(browser) as page:

        def view() -> list[float]:
            page.wait_for_selector("body[data-ready=true]")
            return list(page.evaluate("[rampmeterView.view.from, rampmeterView.view.to]"))

        page.goto(server.url)
        whole = view()
        assert whole == pytest.approx([-0.02, 3.05], abs=0.03)
        plot = page.locator('section[aria-label="Stream offset"] .u-over')
        box = plot.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 20)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20, steps=5)
        page.mouse.up()
        page.wait_for_url("**/#t=*")
        zoomed = view()
        assert zoomed[1] - zoomed[0] == pytest.approx((whole[1] - whole[0]) / 4, rel=0.05)
        page.keyboard.press("+")
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(300)
        assert view()[1] - view()[0] == pytest.approx((zoomed[1] - zoomed[0]) / 2, rel=0.01)
        page.click("text=Round-trip time")
        page.click("text=Compare")
        page.wait_for_function("document.querySelectorAll('.column').length === 2")
        page.wait_for_timeout(500)
        before, address = view(), page.url

        again = page.context.browser.new_page(viewport={"width": 1300, "height": 900})
        again.goto(address)
        again.wait_for_selector("body[data-ready=true]")
        assert again.evaluate("[rampmeterView.view.from, rampmeterView.view.to]") == pytest.approx(before)
        assert again.locator(".column").count() == 2
        assert again.locator('section[aria-label="Round-trip time"]').count() == 0
        again.close()

        with page.expect_download() as download:
            page.click("text=Save SVG")
        assert Path(download.value.path()).read_text(encoding="utf-8").count("Stream offset") == 2
        page.keyboard.press("0")
        page.wait_for_timeout(300)
        assert view() == pytest.approx(whole, abs=0.01)
        page.keyboard.press("?")
        assert page.locator("dialog[open]").count() == 1
