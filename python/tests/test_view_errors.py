"""What is wrong with a view, and with files of a view."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from traces import OURS, lines, link_capture, written

from rampmeter.view import __main__ as command
from rampmeter.view import find
from rampmeter.view.model import TraceError
from rampmeter.view.panels import duration


def made(directory: Path) -> Path:
    """A run with a link, an empty and a broken flow, and one that is well."""
    run = directory / "traces" / "seed=1"
    run.mkdir(parents=True)
    written(run, "0-bulk.client.qlog", "")
    written(run, "1-bulk.client.qlog", "no JSON\n")
    written(run, "2-bulk.client.qlog", lines(*OURS))
    written(run, "empty.pcapng", "")
    written(run, "slow.pcapng", link_capture())
    return directory / "traces"


@pytest.mark.parametrize(
    ("view", "problem"),
    [
        ("hidden=rtt", "there is no key `hidden`; write t=FROM,TO, c=FLOW|LINK|..., hide=PANEL, off=PANEL:SERIES"),
        ("rtt", "there is no key `rtt`; write"),
        ("#t=1&hide=rtt", "`t=1` has no two times; write for example t=2.6,2.7"),
        ("t=300,200", "`t=300,200` ends before it begins; write t=200,300"),
        ("c=nope|slow", "`c=nope|slow`: there is no flow `nope`; there are seed=1/0-bulk.client, "),
        (
            "c=seed=1/2-bulk.client|slow",
            "`c=seed=1/2-bulk.client|slow`: there is no link `slow`; there are seed=1/slow",
        ),
        ("hide=nonsense", "`hide=nonsense`: there is no such panel; there are events, network, own, "),
        ("off=lost", "`off=lost`: write PANEL:SERIES with a panel of events, "),
        ("t=1%2C2&off=sequence:lost&c=seed=1/2-bulk.client|seed=1/slow&hide=slow:rate&hide=own_bps", ""),
    ],
)
def test_an_unknown_key_or_name_of_a_view_is_one_line(
    view: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "draw", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["view", str(made(tmp_path)), "--show", view, "--picture", "view.svg"])
    code = command.main()
    said = capsys.readouterr().err
    assert said.startswith(f"rampmeter: --show: {problem}" if problem else ""), said
    assert (code, said.count("\n")) == ((2, 1) if problem else (0, 0))


def test_unreadable_files_do_not_hide_the_rest_of_a_directory(tmp_path: Path) -> None:
    sources = find([made(tmp_path)])
    assert [source.name for source in sources] == [
        *("2-bulk.client", "slow"),
        *("0-bulk.client", "1-bulk.client", "empty"),
    ]
    problems = []
    for source in sources:
        try:
            source.shown()
        except TraceError as error:
            problems.append(str(error).rpartition("/")[2])
    assert [problem.partition(":")[0] for problem in problems] == [
        *("0-bulk.client.qlog", "1-bulk.client.qlog", "empty.pcapng"),
    ]


def test_the_name_of_a_picture_is_checked_before_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["view", "missing", "--picture", "view.gif"])
    with pytest.raises(SystemExit, match="2"):
        command.main()


@pytest.mark.alone  # beside others the browser may need more than its minute
def test_a_picture_with_a_broken_file_says_why(
    browser: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    traces = made(tmp_path)
    broken = bytearray(link_capture())
    broken[-4 - int.from_bytes(broken[-4:], "little") + 8] = 7  # the length of the last block
    written(traces / "seed=1", "slow.pcapng", bytes(broken))
    monkeypatch.setattr(sys, "argv", ["view", str(traces), "--picture", str(tmp_path / "view.svg")])
    begin = time.monotonic()
    assert command.main() == 2
    assert "slow.pcapng: packet " in capsys.readouterr().err
    assert time.monotonic() - begin < 50


def test_intervals_of_rates_have_a_suitable_unit() -> None:
    assert [duration(seconds) for seconds in (0.05, 0.99961, 1.15)] == ["50 ms", "1 s", "1.15 s"]
