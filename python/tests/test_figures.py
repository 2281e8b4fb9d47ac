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
from rampmeter.figures.traces import Trace


def shortened(scenario: Path, folder: Path) -> Path:
    """Write the scenario without the time that statistics take; those of `cm` take little, and begin late."""
    times = {"duration": "12 s", "warmup": "2 s", "drain": "20 s"}
    text = scenario.read_text()
    for key, value in times.items() if scenario.parent.name != "cm" else ():
        text = re.sub(rf'^{key} = "[^"$]*"', f'{key} = "{value}"', text, flags=re.MULTILINE)
    short = folder / scenario.name
    short.write_text(text)
    return short


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_repeats_byte_for_byte(name: str, tmp_path: Path) -> None:
    figure = FIGURES[name]
    axes: dict[str, Any] = {"others": "tcp"} if name == "pcp.2" else {}  # the simulator has no kernel
    results = [run(shortened(studies() / scenario, tmp_path), seed=[1], **axes) for scenario in figure.scenarios]
    first, second = (style.save(figure.draw(*results), tmp_path / folder, name) for folder in ["a", "b"])
    assert [path.suffix for path in first] == [".png", ".svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_figure_4_says_what_it_is_of_and_its_axes_have_plain_numbers(tmp_path: Path) -> None:
    figure = FIGURES["pcp.4"]
    drawn = figure.draw(run(shortened(studies() / figure.scenarios[0], tmp_path), load=[0.15, 0.9], seed=[1]))
    caption = drawn.get_supxlabel()
    assert "one run a point" in caption
    assert "initial window of one packet" in caption
    assert "200 ms" in caption
    drawn.canvas.draw()
    for axes in drawn.axes:
        labels = [label.get_text() for label in axes.yaxis.get_ticklabels(which="both") if label.get_text()]
        assert len(labels) >= 2, labels
        assert all(label.replace(",", "").replace(".", "").isdigit() for label in labels), labels


def test_figure_14_says_how_far_apart_connections_are() -> None:
    drawn = FIGURES["cm.14"].draw(run(studies() / "cm/web.toml", seed=[1]))
    newreno, together, _ = [axes.get_title(loc="left") for axes in drawn.axes]
    apart = [float(re.findall(r"best ([\d.]+) x worst, Jain [\d.]+$", title)[0]) for title in [newreno, together]]
    assert apart[0] > 1.1 > 1.05 > apart[1], apart
    assert all(len(axes.get_lines()) == 4 for axes in drawn.axes)


def test_figure_9_has_reductions_that_are_undone_only_without_numbers() -> None:
    numbered, counted = FIGURES["cm.9"].draw(run(studies() / "cm/reordering.toml")).axes
    assert not numbered.texts
    assert counted.texts
    assert all("undone after" in text.get_text() for text in counted.texts)


def test_the_rates_of_a_trace_are_those_between_its_samples() -> None:
    trace = Trace("transfer", 1, times=[0.5, 1.0, 1.5, 2.0, 2.5], delivered=[0, 0, 1000, 2000, 2000])
    assert trace.rates(1.0) == ([1.0, 2.0], [8000.0, 8000.0])


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
    scenario = tmp_path / "theirs" / figure.scenarios[0]
    scenario.parent.mkdir(parents=True)
    shortened(studies() / figure.scenarios[0], scenario.parent)
    command = [sys.executable, "-m", "rampmeter.figures", "pcp.4", "--seeds", "1", "--studies", "theirs"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.stdout.splitlines() == ["runs/figures/pcp.4.png", "runs/figures/pcp.4.svg"], result.stderr

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(figures, "__file__", str(tmp_path / "a/b/c/figure.py"))
    with pytest.raises(FileNotFoundError, match="--studies DIR"):
        studies()
