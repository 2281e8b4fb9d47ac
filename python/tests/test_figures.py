"""Drawing figures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rampmeter import run
from rampmeter.figures import FIGURES, style
from rampmeter.figures import figure as figures
from rampmeter.figures.figure import studies


def shortened(scenario: Path, folder: Path) -> Path:
    """Write the scenario without the time that statistics take."""
    times = {"duration": "12 s", "warmup": "2 s", "drain": "20 s"}
    text = scenario.read_text()
    for key, value in times.items():
        text = re.sub(rf'^{key} = "[^"$]*"', f'{key} = "{value}"', text, flags=re.MULTILINE)
    short = folder / scenario.name
    short.write_text(text)
    return short


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_repeats_byte_for_byte(name: str, tmp_path: Path) -> None:
    figure = FIGURES[name]
    axes: dict[str, Any] = {"others": "tcp"} if name == "pcp.2" else {}  # the simulator has no kernel
    result = run(shortened(studies() / figure.scenario, tmp_path), seed=[1], **axes)
    first, second = (style.save(figure.draw(result), tmp_path / folder, name) for folder in ["a", "b"])
    assert [path.suffix for path in first] == [".png", ".svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_figure_4_says_what_it_is_of_and_its_axes_have_plain_numbers(tmp_path: Path) -> None:
    figure = FIGURES["pcp.4"]
    drawn = figure.draw(run(shortened(studies() / figure.scenario, tmp_path), load=[0.15, 0.9], seed=[1]))
    caption = drawn.get_supxlabel()
    assert "one run a point" in caption
    assert "initial window of one packet" in caption
    assert "200 ms" in caption
    drawn.canvas.draw()
    for axes in drawn.axes:
        labels = [label.get_text() for label in axes.yaxis.get_ticklabels(which="both") if label.get_text()]
        assert len(labels) >= 2, labels
        assert all(label.replace(",", "").replace(".", "").isdigit() for label in labels), labels


def test_no_two_schemes_have_the_same_marker() -> None:
    names = ["mine", "pcp", "tcp", "fq", "pcp-fifo", "reno", "linux-cubic", "linux-bbr", "yours"]
    assert len(set(style.markers(names).values())) == len(names)


def test_an_unknown_figure_is_refused_with_the_names_there_are() -> None:
    command = [sys.executable, "-m", "rampmeter.figures", "pcp.44"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "pcp.4" in result.stderr


def test_the_studies_may_be_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = FIGURES["pcp.4"]
    scenario = tmp_path / "theirs" / figure.scenario
    scenario.parent.mkdir(parents=True)
    shortened(studies() / figure.scenario, scenario.parent)
    command = [sys.executable, "-m", "rampmeter.figures", "pcp.4", "--seeds", "1", "--studies", "theirs"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.stdout.splitlines() == ["runs/figures/pcp.4.png", "runs/figures/pcp.4.svg"], result.stderr

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(figures, "__file__", str(tmp_path / "a/b/c/figure.py"))
    with pytest.raises(FileNotFoundError, match="--studies DIR"):
        studies()
