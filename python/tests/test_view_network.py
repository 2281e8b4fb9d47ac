"""The network as captures of links show it."""

from __future__ import annotations

import json
import struct
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from traces import block, event, header, interfaces, lines, opened_page, read_link, sent, served, written

from rampmeter.view import find, network
from rampmeter.view.network import Edge, Node, Opening

MS = 1_000_000
SYN, DATA = 1, 3


def link(name: str, *crossings: tuple[int, int, bytes, bool]) -> bytes:
    """Packets of 1250 bytes: when each enters and leaves, in ms, its header, and whether it arrives."""
    events = []
    for enters, leaves, packet, arrives in crossings:
        events.append((enters, 0, packet))
        events.append((leaves, 1 if arrives else 2, packet))
    parts = interfaces(name)
    for ms, interface, packet in sorted(events, key=lambda each: each[:2]):
        at = MS * ms
        parts += block(6, struct.pack("<IIIII", interface, at >> 32, at & 0xFFFFFFFF, len(packet), 1250) + packet)
    return parts


def lot(directory: Path) -> Path:
    """Two links in a row: flow 0 crosses both, flow 1 only the second one; the last packet is dropped."""
    long, short = header(3, 8, 0, SYN), header(5, 9, 1, SYN)
    data = header(3, 8, 0, DATA)
    written(directory, "first.pcapng", link("first", (10, 12, long, True), (20, 22, data, True)))
    second = [(12, 15, long, True), (16, 19, short, True), (22, 25, data, True), (30, 30, data, False)]
    written(directory, "second.pcapng", link("second", *second))
    for flow, title, begin in ((0, "long 0: source.0 > sink.0", 9.0), (1, "short 1: middle.0 > sink.1", 15.0)):
        head = {"title": title, "qlog_format": "JSON-SEQ", "trace": {"title": title}}
        written(
            directory,
            f"{flow}-bulk.client.qlog",
            lines(head, sent(begin, 0), event(40.0, "quic:packets_acked", packet_numbers=[0])),
        )
    return directory


def test_links_meet_where_packets_pass_at_the_same_time(tmp_path: Path) -> None:
    lot(tmp_path)
    links = {number: read_link(tmp_path / f"{name}.pcapng") for number, name in enumerate(("first", "second"))}
    openings = {0: Opening("source.0", "sink.0", 0.009), 1: Opening("middle.0", "sink.1", 0.015)}
    nodes, edges = network.network(links, openings)
    names = [node.name for node in nodes]
    assert names == ["source.0", "", "", "", "sink (2)", "middle.0"]
    assert [node.layer for node in nodes] == [0, 1, 2, 3, 4, 1]
    ends = {(edge.source, edge.near, edge.far) for edge in edges}
    assert ends == {(0, 1, 2), (1, 2, 3), (None, 0, 1), (None, 3, 4), (None, 2, 5)}


def test_both_directions_of_a_link_are_beside_each_other(tmp_path: Path) -> None:
    there, back = header(3, 8, 0, SYN), header(8, 3, 0, 2)
    written(tmp_path, "slow.pcapng", link("slow", (10, 12, there, True)))
    written(tmp_path, "slow.reverse.pcapng", link("slow.reverse", (20, 22, back, True)))
    links = {number: read_link(tmp_path / f"slow{way}.pcapng") for number, way in enumerate(("", ".reverse"))}
    nodes, edges = network.network(links, {})
    assert nodes == [Node("10.0.0.3", 0), Node("", 1), Node("", 2), Node("10.0.0.8", 3)]
    assert {(edge.near, edge.far) for edge in edges if edge.source is not None} == {(1, 2), (2, 1)}
    assert [edge for edge in edges if edge.source is None] in (
        [Edge(None, 0, 1), Edge(None, 2, 3)],
        [Edge(None, 2, 3), Edge(None, 0, 1)],
    )


def test_a_name_of_another_flow_with_the_same_port_is_not_used(tmp_path: Path) -> None:
    written(tmp_path, "slow.pcapng", link("slow", (9000, 9002, header(3, 8, 0, SYN), True)))
    nodes, _ = network.network({0: read_link(tmp_path / "slow.pcapng")}, {0: Opening("source.0", "sink.0", 0.009)})
    assert [node.name for node in nodes] == ["10.0.0.3", "", "", "10.0.0.8"]


def test_a_link_says_its_rate_queue_and_drops_at_a_time(tmp_path: Path) -> None:
    lot(tmp_path)
    second = read_link(tmp_path / "second.pcapng")
    assert network.state(second, 0.0)["rate"] == 0
    rate = 8 * 3 * 1250 / second.over
    assert network.state(second, 0.026) == {
        "rate": pytest.approx(rate),
        "queue": 0,
        "drops": 0,
        "all_drops": 0,
        "marks": 0,
    }
    assert network.state(second, 0.0305)["all_drops"] == 1
    assert network.state(second, 0.0305)["drops"] == 1


def test_the_page_shows_links_at_the_time_under_the_pointer(browser: str, tmp_path: Path) -> None:
    with served(lot(tmp_path)) as server, opened_page(browser) as page:
        page.goto(server.url)
        graph = page.locator('section[aria-label="Network"] [role=img]')

        def words() -> Any:
            page.wait_for_timeout(400)
            return graph.get_attribute("aria-label")

        page.wait_for_selector("body[data-ready=true]")
        assert words().endswith("1 dropped, 1 so far")
        assert graph.locator("text=sink (2)").count() == 1
        box = page.locator('section[aria-label="Stream offset"] .u-over').bounding_box()
        page.mouse.move(box["x"] + 2, box["y"] + 20)
        assert "0 dropped, 0 so far" in words()
        page.click("text=Network >> nth=0")
        page.wait_for_timeout(300)
        assert not graph.is_visible()
    with served(tmp_path) as server, urllib.request.urlopen(f"{server.url}network?source=0") as answer:
        assert len(json.load(answer)["nodes"]) == 6


def test_each_link_of_a_directory_without_flows_is_shown_once(browser: str, tmp_path: Path) -> None:
    for way, packet in (("", header(3, 8, 0, SYN)), (".reverse", header(8, 3, 0, 2))):
        written(tmp_path, f"slow{way}.pcapng", link(f"slow{way}", (10, 12, packet, True)))
    with served(tmp_path) as server, opened_page(browser) as page:
        page.goto(server.url)
        page.wait_for_selector("body[data-ready=true]")
        titles = [title.partition(" (")[0] for title in page.locator(".stack h2").all_inner_texts()]
        assert titles == [f"Link slow{way}: {what}" for way in ("", ".reverse") for what in ("rate", "queue")]
        assert page.locator('section[aria-label="Network"]').is_visible()


def test_flows_given_as_files_keep_the_links_of_their_directory(tmp_path: Path) -> None:
    lot(tmp_path)
    files = [tmp_path / f"{flow}-bulk.client.qlog" for flow in (0, 1)]
    sources = find(files)
    assert [(each.run, each.name, each.is_link) for each in sources] == [
        (0, "0-bulk.client", False),
        (1, "1-bulk.client", False),
        (0, "first", True),
        (0, "second", True),
    ]
    for index in (0, 1):
        assert [link.name for link in network.links_beside(sources, index).values()] == ["first", "second"]
    assert [each.name for each in find([tmp_path, files[1]]) if each.is_link] == ["first", "second"]
