"""Traces that are being written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from traces import OURS, lines, link_capture, opened_page, sent, written

from rampmeter.view import Server, sources
from rampmeter.view.link import LinkReader
from rampmeter.view.live import Live
from rampmeter.view.model import Flow
from rampmeter.view.qlog import LineReader


@contextmanager
def running(*words: str, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is called as the command is."""
    code = "import time; print('ready', flush=True); time.sleep(60)"
    command = ["rampmeter", "-c", code, "run", "x.toml", *words]
    with subprocess.Popen(command, executable=sys.executable, cwd=directory, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def test_a_growing_qlog_is_read_only_where_it_is_new(tmp_path: Path) -> None:
    text = lines(*OURS[:8]) + lines(*(sent(20 + n, 3 + n) for n in range(50)), *OURS[8:])
    whole = LineReader(written(tmp_path, "whole.qlog", text))
    whole.advance()
    growing = LineReader(written(tmp_path, "growing.qlog", ""))
    for end in (300, 1000, 1001, 5000, len(text)):
        growing.path.write_text("#" * growing.offset + text[growing.offset : end])  # what was read is destroyed
        growing.advance()
        assert growing.offset == text.rfind("\n", 0, end) + 1
        flow = growing.result(may_grow=True) if growing.reader else None
    assert flow is not None
    assert flow.sent["number"].tolist() == whole.result().sent["number"].tolist()
    assert flow.acked["time"].tolist() == whole.result().acked["time"].tolist()
    assert flow.remarks == ["0.061000 s: the trace ends here"]


def test_a_growing_capture_is_read_only_where_it_is_new(tmp_path: Path) -> None:
    data = link_capture()
    reader = LinkReader(written(tmp_path, "slow.pcapng", b""))
    for end in range(0, len(data) + 1, 37):
        reader.capture.path.write_bytes(bytes(reader.offset) + data[reader.offset : end])
        reader.advance()
        assert reader.result(may_grow=True).remarks == []
    reader.capture.path.write_bytes(data)
    reader.advance()
    assert reader.offset == len(data)
    assert reader.result().offered["queued"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("words", [["--trace", "traces"], ["--trace=traces"], ["--trace", "../{name}/traces"]])
def test_a_run_is_known_by_the_directory_that_it_writes(words: list[str], tmp_path: Path) -> None:
    words = [word.format(name=tmp_path.name) for word in words]
    traces = tmp_path / "traces"
    live = Live([traces])
    assert live.look() == "waiting"
    with running(*words, directory=tmp_path):
        assert live.look() == "running"
        (traces / "seed=1").mkdir(parents=True)
        written(traces / "seed=1", "0-bulk.client.qlog", "")
        assert live.look() == "running"
        assert live.sources == []
        written(traces / "seed=1", "0-bulk.client.qlog", lines(*OURS))
        assert Live([traces / "seed=1"]).look() == "running"
        assert Live([tmp_path / "others"]).look() == "waiting"
        assert live.look() == "running"
        assert [source.name for source in live.sources] == ["0-bulk.client"]
    assert live.look() == "ended"


def test_a_long_file_is_shown_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "PIECE", 10_000)
    monkeypatch.setattr(sources, "PAUSE", 0)
    path = written(tmp_path, "0-bulk.client.qlog", lines(OURS[0], *(sent(n, n) for n in range(300))))
    live = Live([tmp_path])
    live.look()
    [source] = live.sources
    ends = [source.shown().span[1]]
    while source.shown().size < path.stat().st_size:
        ends.append(source.shown().span[1])
    assert len(ends) > 2
    assert ends == sorted(ends)
    assert source.shown().span == pytest.approx((0.0, 0.299))


def test_a_run_that_starts_again_is_read_from_its_start(tmp_path: Path) -> None:
    written(tmp_path, "0-bulk.client.qlog", lines(*OURS))
    live = Live([tmp_path])
    live.look()
    [source] = live.sources
    assert isinstance(source.shown().source, Flow)
    written(tmp_path, "0-bulk.client.qlog", lines(OURS[0], sent(1, 7)))
    source.kept_until = 0.0
    flow = source.shown().source
    assert isinstance(flow, Flow)
    assert flow.sent["number"].tolist() == [7]


def test_the_page_shows_what_is_new_and_that_the_run_has_ended(browser: str, tmp_path: Path) -> None:
    server = Server(Live([tmp_path / "traces"]))
    Thread(target=server.serve_forever, daemon=True).start()
    with opened_page(browser) as page:
        page.goto(server.url)

        def wait_for_state(state: str) -> None:
            page.wait_for_function(f"() => document.getElementById('state').textContent === '{state}'", timeout=20_000)

        wait_for_state("waiting for events")
        with running("--trace", str(tmp_path / "traces"), directory=tmp_path):
            (tmp_path / "traces").mkdir()
            path = written(tmp_path / "traces", "0-bulk.client.qlog", lines(*OURS))
            wait_for_state("live")
            page.wait_for_function("() => rampmeterView.view.to < 0.1 && rampmeterView.view.to > 0.06", timeout=20_000)
            with path.open("a") as file:
                file.write(lines(*(sent(1000 + n, 3 + n) for n in range(500))))
            page.wait_for_function("() => rampmeterView.view.to > 1.4", timeout=20_000)
            page.keyboard.press("+")
            for _ in range(4):
                page.keyboard.press("ArrowRight")
            page.wait_for_selector("body[data-ready=true]")
            before = page.evaluate("({ ...rampmeterView.view })")
            with path.open("a") as file:
                file.write(lines(sent(2499, 503)))
            page.wait_for_function(f"() => rampmeterView.view.to > {before['to'] + 0.9}", timeout=20_000)
            after = page.evaluate("({ ...rampmeterView.view })")
            assert after["to"] - after["from"] == pytest.approx(before["to"] - before["from"])
        wait_for_state("the run has ended")
    server.shutdown()
    server.server_close()
