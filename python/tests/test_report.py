"""Reports of run directories."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from matplotlib import rc_context

from rampmeter import report, run
from rampmeter.figures.style import RULES
from rampmeter.report import charts
from rampmeter.tables import with_shares


@pytest.fixture
def directory(quick_start: Path, tmp_path: Path) -> Path:
    scenario = tmp_path / "watched.toml"
    text = quick_start.read_text().replace('title = "The same transfers,', 'title = "Light & <shade>:')
    scenario.write_text(re.sub('duration = ".*"', 'duration = "6 s"', text) + '\n[meters]\nseries = "200 ms"\n')
    run(scenario, scheme=["pcp", "tcp", "linux-cubic"], seed=[1, 2], out=tmp_path / "kept")
    return tmp_path / "kept"


def test_a_report_is_one_self_contained_page(directory: Path) -> None:
    page = report.write(directory).read_text()
    assert "Light &amp; &lt;shade&gt;" in page
    for heading in ["Over the sweep", "Flow completion times", "Links over time", "Flows", "Link bottleneck"]:
        assert f"<h2>{heading}</h2>" in page
    assert re.search(r"Not run:.*linux-cubic.*--world emulated", page)
    assert all(address.startswith("data:") for address in re.findall(r'(?:src|href)="([^"]*)', page))


def test_a_report_repeats_byte_for_byte(directory: Path, tmp_path: Path) -> None:
    first, second = (report.write(directory, tmp_path / name).read_bytes() for name in ["a.html", "b.html"])
    assert first == second


def test_legends_and_titles_are_inside_their_chart() -> None:
    names = [f"a scheme with a long name, {n}" for n in range(24)]
    lines = dict(zip(names, charts.OTHERS * 3, strict=True))

    def draw(axes: Any) -> None:
        axes.barh(names, 1)

    panels: list[charts.Panel] = [(title, draw) for title, _, _ in charts.RUN_PANELS]
    with rc_context(RULES):
        figure = charts.arrange(panels, lines, 2.9, marked=True)
        figure.draw_without_rendering()
    texts = [axes.get_title(loc="left") for axes in figure.axes]
    assert [text.replace("\n", " ") for text in texts] == [title for title, _, _ in charts.RUN_PANELS]
    titles = [
        child for axes in figure.axes for child in axes.get_children() if getattr(child, "get_text", str)() in texts
    ]
    boxes = [inside.get_window_extent() for inside in [*figure.legends, *titles]]
    assert len(boxes) == 5
    for box in boxes:
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1


def test_lines_of_one_color_have_different_dashes() -> None:
    lines = dict(enumerate(charts.OTHERS * 3))
    assert len(lines) == charts.MAX_LINES
    kinds = charts.dashes(lines)
    assert len({(lines[name], str(kinds[name])) for name in lines}) == len(lines)


def test_marks_are_a_share_of_the_packets_with_payload() -> None:
    row = {"dropped_packets": 1, "marked_packets": 2, "offered_packets": 20, "offered_data_packets": 10}
    assert with_shares([dict(row)]) == [{**row, "dropped": 0.05, "marked": 0.2}]


def test_a_directory_without_a_run_is_refused_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rampmeter.report", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    advice = "the last line of `rampmeter run` names the directory of its tables"
    assert result.stderr == f"rampmeter: {tmp_path}: not a run directory; {advice}\n"
