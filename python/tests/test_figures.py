"""Drawing figures."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import figure as matplotlib

from rampmeter import figures as package
from rampmeter import run
from rampmeter.figures import FIGURES, comparison, equilibria, fluid_packets, style
from rampmeter.figures import __main__ as command
from rampmeter.figures.along import mbps, number
from rampmeter.figures.figure import Figure, studies
from rampmeter.figures.schemes import bottlenecks
from rampmeter.figures.traces import LinkTrace, Trace, traces
from rampmeter.theory.vcp import Bottleneck
from rampmeter.theory.vcp_saw import Saw

SHORTER: dict[str, dict[str, Any]] = {
    "pcp.4": {"load": [0.15, 0.3]},
    "pcp.5": {"load": [0.15, 0.3]},
    "pcp.6": {"load": [0.15, 0.3]},
    "pcp.8": {"bandwidth": ["1 Mb/s", "10 Mb/s"]},
    "pcp.9": {"rtt": ["25 ms", "100 ms"]},
    "pcp.10": {"packets": [20, 200]},
    "pcp.11": {"loss": [0.0, 0.02]},
    "pcp.access-paths": {"path": ["dsl"], "size": ["30kB", "300kB"], "competing": ["none", "cubic"]},
    "vcp.1": {"scheme": ["vcp"]},
    "vcp.3": {"capacity": ["500 kb/s", "1 Mb/s"]},
    "vcp.4": {"path": ["10ms", "100ms"]},
    "vcp.5": {"flows": [1, 10]},
    "vcp.6": {"web": [10, 20]},
    "vcp.7": {"longest": ["40ms", "330ms"]},
    "vcp.8": {"capacity": ["500 kb/s", "1 Mb/s"]},
    "vcp.9": {"path": ["10ms", "100ms"]},
    "vcp.fluid-packets": {"rate": ["20 Mb/s"]},
    "stable.response": {"flows": [5, 10]},
    "stable.utilization": {"flows": [5, 10]},
    "stable.marking": {"load": [0.2, 0.5]},
    "stable.stability": {"gain": [0.06, 0.4]},
    "stable.range": {"flows": [2, 4]},
}
"""Two points are enough for an axis."""


def shortened(scenario: Path, directory: Path) -> Path:
    """Write the scenario with a shorter duration, except those of `cm` and of links that change.

    Those of `vcp` and `stable` have slower links as well, and keep the time where it is the figure's axis.
    """
    times = {"duration": "7 s", "warmup": "1 s", "drain": "20 s"}
    text = scenario.read_text()
    if scenario.parent.name in ["vcp", "stable"]:
        text = re.sub(r'^rate = "\d{2,3} Mb/s"', 'rate = "2 Mb/s"', text, flags=re.MULTILINE)
        text = re.sub(r'duration = "\d{3} s", warmup = "\d+ s"', 'duration = "12 s", warmup = "2 s"', text)
    text = re.sub(r'warmup = "\d+ s", *duration = "\d+ s"', 'warmup = "2 s", duration = "12 s"', text)
    is_late = scenario.parent.name == "cm" or re.search("^changes =", text, flags=re.MULTILINE)
    for key, value in () if is_late else times.items():
        text = re.sub(rf'^{key} = "[^"$]*"', f'{key} = "{value}"', text, flags=re.MULTILINE)
    for shared in scenario.parent.glob("schemes.toml"):
        shutil.copy(shared, directory)
    short = directory / scenario.name
    short.write_text(text)
    return short


def draw(name: str, directory: Path) -> matplotlib.Figure:
    axes: dict[str, Any] = {"others": "tcp"} if name == "pcp.2" else {}  # the simulator has no kernel
    axes = {**SHORTER.get(name, {}), **axes, "seed": [1]}
    results = [
        run(shortened(studies() / scenario, directory), **{**quick, **axes})
        for scenario, quick in FIGURES[name].sweeps(quick=True)
    ]
    return FIGURES[name].draw(*results)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_drawn(name: str, tmp_path: Path) -> None:
    image, vector = style.save(draw(name, tmp_path), tmp_path, name)
    assert (image.suffix, vector.suffix) == (".png", ".svg")
    assert image.read_bytes().startswith(b"\x89PNG")
    assert vector.read_text().rstrip().endswith("</svg>")


@pytest.mark.parametrize("name", ["pcp.2", "vcp.3", "stable.response"])
def test_a_figure_repeats_byte_for_byte(name: str, tmp_path: Path) -> None:
    first, second = (style.save(draw(name, tmp_path), tmp_path / directory, name) for directory in ["a", "b"])
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_schemes_differ_by_more_than_their_color(tmp_path: Path) -> None:
    figure = FIGURES["vcp.3"]
    drawn = figure.draw(run(shortened(studies() / "vcp/capacity.toml", tmp_path), capacity=["500 kb/s", "1 Mb/s"]))
    assert "standard deviation over 5 seeds" in drawn.get_supxlabel()
    for axes in drawn.axes:
        lines = [line for line in axes.get_lines() if line.get_marker() not in ["None", "_", "|", ""]]
        schemes = [line for line in lines if np.size(line.get_xdata()) == 2 and line.get_linestyle() != "None"]
        assert len(schemes) == 11
        assert len({line.get_marker() for line in schemes}) == 11
        assert [text.get_text() for text in axes.texts] == ["vcp-plus", "vcp", "xcp"] or axes.get_title(loc="left")
    (names,) = drawn.legends
    assert [text.get_text() for text in names.get_texts()][:3] == ["vcp-plus", "vcp", "xcp"]


def test_a_drop_rate_is_the_mean_over_the_links_in_percent(tmp_path: Path) -> None:
    result = run(
        shortened(studies() / "vcp/parking_capacity.toml", tmp_path), scheme=["sack"], capacity=["500 kb/s"], seed=[1]
    )
    ((where, (utilization, queue, dropped)),) = bottlenecks(result)
    assert where == {"scheme": "sack", "capacity": "500 kb/s", "seed": 1}
    links = result.links.to_pylist()
    assert len(links) == 7
    assert dropped == pytest.approx(sum(100 * row["dropped_packets"] / row["offered_packets"] for row in links) / 7)
    assert utilization == pytest.approx(sum(100 * row["utilization"] for row in links) / 7)
    assert 0 < queue <= 100


def test_a_figure_runs_its_points_or_the_whole_file() -> None:
    figure = FIGURES["vcp.8"]
    (here, axes), (there, beyond) = figure.sweeps()
    assert here == there == "vcp/parking_capacity.toml"
    assert axes["seed"] == beyond["seed"] == [1]
    assert not set(axes["capacity"]) & set(beyond["capacity"])
    assert beyond["scheme"] == ["vcp", "xcp"]
    assert [axes["seed"] for _, axes in figure.sweeps(seeds=5)] == [[1, 2, 3, 4, 5]] * 2
    assert len(figure.sweeps(quick=True)) == 1
    assert [axes.keys() for _, axes in figure.sweeps(whole=True)] == [{"scheme"}]
    assert FIGURES["vcp.10"].sweeps(whole=True)[0][1] == {"scheme": ["vcp", "xcp"], "phase": ["late"]}


def test_a_figure_of_several_scenarios_has_points_of_each() -> None:
    figure = FIGURES["vcp.plus"]
    assert len(figure.sweeps()) == 7
    assert all(axes["scheme"] == ["vcp", "vcp-plus", "xcp", "cubic"] for _, axes in figure.sweeps())
    assert dict(figure.sweeps())["vcp/round_trip.toml"]["path"][0] == "1ms"
    assert dict(figure.sweeps(quick=True))["vcp/flows.toml"]["flows"] == [5]


def test_a_link_trace_has_sending_rates() -> None:
    trace = LinkTrace(times=[0.0, 0.25, 0.5, 0.75, 1.0], packets=[0] * 5, transmitted=[0, 0, 1000, 2000, 4000])
    assert trace.rates(0.5) == ([0.25, 0.75], [16000.0, 48000.0])


def test_numbers_are_read_from_quantities_and_names() -> None:
    assert [number("25 ms"), number("1500ms"), number(0.5)] == [25, 1500, 0.5]
    assert [mbps("500 kb/s"), mbps("5 Gb/s")] == [0.5, 5000]
    with pytest.raises(ValueError, match="`fast` must begin with a number"):
        number("fast")


def test_all_figures_of_a_paper_are_drawn_from_kept_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vcp").mkdir()
    shortened(studies() / "vcp/capacity.toml", tmp_path / "vcp")
    draws = Figure(
        title="",
        scenario="vcp/capacity.toml",
        draw=FIGURES["vcp.3"].draw,
        values={"scheme": ["vcp", "sack"], "capacity": ["500 kb/s", "1 Mb/s"], "seed": [1]},
    )
    fails = Figure(title="", scenario="vcp/none.toml", draw=FIGURES["vcp.3"].draw)
    monkeypatch.setattr(package, "FIGURES", {"vcp.a": fails, "vcp.b": draws, "vcp.c": draws, "cm.a": fails})
    assert package.papers() == {"vcp": ["vcp.a", "vcp.b", "vcp.c"], "cm": ["cm.a"]}
    monkeypatch.setattr(command, "FIGURES", package.FIGURES)
    monkeypatch.setattr(sys, "argv", ["figure", "vcp", "--out", str(tmp_path / "out"), "--studies", str(tmp_path)])
    assert command.main() == 2
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *["runs", "vcp.b.png", "vcp.b.svg", "vcp.c.png", "vcp.c.svg"]
    ]
    (kept,) = (tmp_path / "out/runs").iterdir()
    ran = {path: path.stat().st_mtime_ns for path in (kept / "points").iterdir()}
    assert len(ran) == 4
    next(iter(ran)).unlink()
    assert command.main() == 2
    again = {path for path in (kept / "points").iterdir() if path.stat().st_mtime_ns != ran[path]}
    assert again == {next(iter(ran))}


def test_figure_4_has_its_note_and_plain_numbers(tmp_path: Path) -> None:
    figure = FIGURES["pcp.4"]
    drawn = figure.draw(run(shortened(studies() / figure.scenarios[0], tmp_path), load=[0.15, 0.9], seed=[1]))
    caption = drawn.get_supxlabel()
    assert "one run per point" in caption
    assert "One packet" in caption
    assert "200 ms" in caption
    drawn.canvas.draw()
    for axes in drawn.axes:
        labels = [label.get_text() for label in axes.yaxis.get_ticklabels(which="both") if label.get_text()]
        assert len(labels) >= 2, labels
        assert all(label.replace(",", "").replace(".", "").isdigit() for label in labels), labels


def test_pcp_with_history_starts_at_a_third_of_its_rate() -> None:
    result = run(studies() / "pcp/mechanisms.toml", case=["no-history", "history"])
    rates = {}
    for case in ["no-history", "history"]:
        (trace,) = traces(result, case=case)
        # The handshake takes a round trip of 25 ms.
        rates[case] = np.interp(trace.times[0] + 0.045, trace.times, trace.controller_rates)
    assert rates["no-history"] == pytest.approx(10 * 1250 * 8 / 0.025, rel=0.1), "ten packets per round trip"
    assert rates["history"] == pytest.approx(40e6 / 3, rel=0.1)


def test_stable_flows_match_their_response_curve() -> None:
    result = run(studies() / "stable/response.toml", variant=["ours"], path=["10ms", "160ms"], flows=[10], seed=[1])
    for ((marked, rate),) in equilibria.responses_of(result, "stable").values():
        assert rate == pytest.approx(10 * (100 - marked) / marked, rel=0.1)
    near, far = (points[0] for points in equilibria.responses_of(result, "newreno").values())
    assert near[1] > 4 * far[1]


def test_vcp_flows_converge_at_the_rate_of_the_saw_model() -> None:
    # A cut in each cycle reduces differences of windows by an eighth: ln(8/7) / (1 + (P + 2) / 8) per round trip. The
    # fluid model's rate is 1 / (P + 4): 4% more at P = 49, 0.9% less at 98.
    result = run(studies() / "vcp/fluid.toml", rate=["10 Mb/s", "20 Mb/s"], start="unequal", seed=1)
    for rate, share in [("10 Mb/s", 49.0), ("20 Mb/s", 98.0)]:
        laid = fluid_packets.lay(result, rate, "unequal")
        assert laid.share == pytest.approx(share)
        assert laid.shares[:, 0] == pytest.approx([1 / 3, 2 / 3, 1, 4 / 3, 5 / 3], abs=0.1)
        calm, model = laid.between_cuts(), laid.fluid()
        assert calm.decay() == pytest.approx(Saw(share).decay, rel=0.1)
        assert model.decay() == pytest.approx(1 / (share + 4), rel=0.01)
        assert calm.decay() == pytest.approx(model.decay(), rel=0.15)
        # Not only the rate: shares of packets and model differ by at most a tenth of a flow's share at all times.
        along = np.array([np.interp(calm.times, model.times, each) for each in model.shares])
        assert np.abs(calm.shares - along).max() < 0.1


def test_vcp_packets_oscillate_as_in_the_saw_model() -> None:
    result = run(studies() / "vcp/fluid.toml", rate=["5 Mb/s", "20 Mb/s"], start="equal", seed=1)
    for rate in ["5 Mb/s", "20 Mb/s"]:
        laid = fluid_packets.lay(result, rate, "equal")
        late, saw = laid.settled(), Saw(laid.share)
        # The window at a cut varies by one packet in either direction, which is one round trip of the cycle.
        peak, trough = late.saw()
        assert peak == pytest.approx(saw.peak, abs=1)
        assert trough == pytest.approx(saw.trough, abs=1)
        assert late.cycle() == pytest.approx(saw.cycle, abs=0.5)
        assert late.load.mean() * laid.share == pytest.approx(saw.mean, rel=0.01)
        # After two rounds of 6.25% above 80% additive growth alone reaches 100%; the model reaches it sooner.
        packets, model = (float(each.times[np.argmax(each.load >= 1)]) for each in [laid, laid.fluid()])
        assert model < packets < 0.2 * laid.share + 1
        assert laid.fluid().load[-1] * laid.share == pytest.approx(
            Bottleneck(capacity=laid.share / 0.98, rtt=1.0, flows=1).equilibrium, rel=1e-3
        )
        assert late.load.mean() < laid.fluid().load[-1]


def test_the_printed_table_has_the_drawn_numbers(tmp_path: Path) -> None:
    result = run(shortened(studies() / "stable/comparison.toml", tmp_path), scheme=["stable", "newreno"], seed=[1])
    lines = comparison.text(result).splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("Stable TCP, virtual queue")
    _, numbers = comparison.table(result)
    drawn = [text.get_text() for text in comparison.draw(result).axes[0].texts]
    for line, row in zip(lines[1:], numbers, strict=True):
        assert line.split()[-1] in drawn
        assert float(line.split()[-1].replace(",", "")) == pytest.approx(row[-1], abs=0.5)


def test_figure_14_reports_the_spread_of_connections() -> None:
    drawn = FIGURES["cm.14"].draw(run(studies() / "cm/web.toml", seed=[1]))
    newreno, together, _ = [axes.get_title(loc="left") for axes in drawn.axes]
    apart = [float(re.findall(r"fastest / slowest ([\d.]+), Jain [\d.]+$", title)[0]) for title in [newreno, together]]
    assert apart[0] > 1.1 > 1.05 > apart[1], apart
    assert all(len(axes.get_lines()) == 4 for axes in drawn.axes)


def test_figure_9_undoes_reductions_only_without_numbers() -> None:
    numbered, counted = FIGURES["cm.9"].draw(run(studies() / "cm/reordering.toml")).axes
    assert not numbered.texts
    assert counted.texts
    assert all("undone after" in text.get_text() for text in counted.texts)


def test_rates_of_a_trace_are_those_between_its_samples() -> None:
    trace = Trace("transfer", 1, times=[0.5, 1.0, 1.5, 2.0, 2.5], delivered=[0, 0, 1000, 2000, 2000])
    assert trace.rates(1.0) == ([1.0, 2.0], [8000.0, 8000.0])


def test_no_two_schemes_have_the_same_marker() -> None:
    names = ["mine", "pcp", "tcp", "fq", "pcp-fifo", "reno", "linux-cubic", "linux-bbr", "yours"]
    assert len(set(style.markers(names).values())) == len(names)


def test_an_unknown_figure_is_refused_with_near_names() -> None:
    command = [sys.executable, "-m", "rampmeter.figures", "pcp.44"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "no figure is called pcp.44; near it: pcp.4" in result.stderr


def test_the_studies_may_be_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = FIGURES["stable.operation"]
    scenario = tmp_path / "theirs" / figure.scenarios[0]
    scenario.parent.mkdir(parents=True)
    shortened(studies() / figure.scenarios[0], scenario.parent)
    command = [sys.executable, "-m", "rampmeter.figures", "stable.operation", "--seeds", "1", "--studies", "theirs"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    files = [f"runs/figures/stable.operation.{kind}" for kind in ["png", "svg"]]
    assert result.stdout.splitlines() == files, result.stderr

    (tmp_path / "studies" / "pcp").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert studies() == tmp_path / "studies"


def test_the_package_has_the_scenarios_of_all_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert studies() == Path(package.__file__).parents[1] / "studies"
    for figure in FIGURES.values():
        assert all((studies() / scenario).is_file() for scenario in figure.scenarios)
