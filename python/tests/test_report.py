"""Reports of run directories."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from matplotlib import rc_context

from rampmeter import report, run
from rampmeter.figures.style import RULES
from rampmeter.report import charts, metrics, over_time
from rampmeter.report.__main__ import main
from rampmeter.report.sweep import Scale, Sweep
from rampmeter.report.traces import FLOW_PANELS, Traces, rates
from rampmeter.running import Run, Value
from rampmeter.tables import Row, half_interval, student


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
    for heading in ["Over time", "Over the sweep", "Flow completion times", "Flows", "Link bottleneck"]:
        assert f"<h2>{heading}</h2>" in page
    assert re.search(r"Not run:.*linux-cubic.*--world emulated", page)
    assert "<script" not in page
    assert all(address.startswith("data:") for address in re.findall(r'(?:src|href)="([^"]*)', page))


def test_a_report_repeats_byte_for_byte(directory: Path, tmp_path: Path) -> None:
    first, second = (report.write(directory, tmp_path / name).read_bytes() for name in ["a.html", "b.html"])
    assert first == second


def test_legends_and_titles_are_inside_their_chart() -> None:
    names = [f"a scheme with a long name, {n}" for n in range(24)]
    lines = dict(zip(names, charts.OTHERS * 3, strict=True))

    def draw(axes: Any) -> None:
        axes.barh(names, 1)

    panels: list[charts.Panel] = [(title, draw) for title, _, _ in metrics.RUNS]
    with rc_context(RULES):
        figure = charts.arrange(panels, lines, 2.9, marked=True)
        figure.draw_without_rendering()
    texts = [axes.get_title(loc="left") for axes in figure.axes]
    assert [text.replace("\n", " ") for text in texts] == [title for title, _, _ in metrics.RUNS]
    titles = [
        child for axes in figure.axes for child in axes.get_children() if getattr(child, "get_text", str)() in texts
    ]
    boxes = [inside.get_window_extent() for inside in [*figure.legends, *titles]]
    assert len(boxes) == 5
    for box in boxes:
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1


def test_charts_over_time_show_all_that_was_measured() -> None:
    def samples(seconds: int, **values: float | None) -> dict[str, list[Row]]:
        empty = dict.fromkeys(column for _, column, _ in FLOW_PANELS)
        return {"flow": [{**empty, "lost": 0, "timed_out": 0, **values, "time_s": float(at)} for at in range(seconds)]}

    flows = {"window": samples(2, window_bytes=1e3), "rate": samples(60, window_bytes=9e6, rate_bps=5e6)}
    figure = over_time.arrange(Traces(flows, {}, {"flow": "bulk"}, "here", 1.0), list(flows))
    for axes in figure.axes:
        assert axes.get_xlim()[1] >= 59
        highest = max(np.max(np.asarray(line.get_ydata(), dtype=float), initial=0) for line in axes.lines)
        assert axes.get_ylim()[1] >= highest


def test_many_flows_have_a_band_for_each_traffic() -> None:
    def samples(kind: int, number: int) -> list[Row]:
        window = 1e6 * (kind + 1) + 1e4 * number
        empty = dict.fromkeys(column for _, column, _ in FLOW_PANELS)
        of_time = {"lost": 0, "timed_out": 0, "window_bytes": window, "delivered_bytes": number}
        return [{**empty, **of_time, "time_s": float(at)} for at in range(3)]

    flows = {f"{traffic} {n}": samples(kind, n) for kind, traffic in enumerate(("bulk", "web")) for n in range(5)}
    traffic = {name: name.split()[0] for name in flows}
    figure = over_time.arrange(Traces({"": flows}, {}, traffic, "here", 1.0), [""])
    window = figure.axes[0]
    assert [np.asarray(line.get_ydata(), dtype=float)[0] for line in window.lines] == [1020.0, 2020.0]
    assert len(window.collections) == 2
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["bulk", "web"]
    one = over_time.arrange(Traces({"": flows}, {}, dict.fromkeys(flows, "all"), "here", 1.0), [""])
    assert (len(one.axes[0].collections), len(one.axes[0].lines), one.legends) == (1, 4, [])


def test_what_was_asked_for_is_the_first_chart(directory: Path) -> None:
    for y, first in [([], "Over time"), (["fct_mean_s"], "Over the sweep")]:
        page = report.write(directory, y=y).read_text()
        assert re.findall("<h2>(Over [^<]*)", page)[0] == first


def test_lines_of_one_color_have_different_dashes() -> None:
    lines = dict(enumerate(charts.OTHERS * 3))
    assert len(lines) == charts.MAX_LINES
    kinds = charts.dashes(lines)
    assert len({(lines[name], str(kinds[name])) for name in lines}) == len(lines)


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(1, 12.706), (2, 4.303), (4, 2.776), (5, 2.571), (9, 2.262), (10, 2.228), (30, 2.042), (120, 1.980)],
)
def test_quantiles_of_student_are_those_of_tables(degrees: int, quantile: float) -> None:
    assert student(degrees) == pytest.approx(quantile, rel=0.0015)


def test_the_interval_of_a_mean_is_that_of_a_worked_example() -> None:
    # Mean 3, standard deviation sqrt(2.5), five values: 3 +- 2.776 * 0.7071.
    rows = [{"value": value} for value in [1, 2, 3, 4, 5, None]]
    assert half_interval(rows, "value") == pytest.approx(1.9632, rel=1e-4)


@pytest.mark.parametrize(
    ("values", "places", "label"),
    [
        (["1280 ms", "160 ms", "20 ms"], [1280, 160, 20], "buffer (ms, logarithmic)"),
        (["1 s", "500 ms"], [1000, 500], "buffer (ms)"),
        (["100ms", "5ms", "20ms"], [100, 5, 20], "buffer (ms, logarithmic)"),  # names of tables
        (["500 kb/s", "2 Mb/s", "40 Mb/s"], [500, 2000, 40000], "buffer (kb/s, logarithmic)"),
        (["500kbit/s", "2Mbit/s"], [500, 2000], "buffer (kbit/s)"),
        ([0.01, 1, 10], [0.01, 1, 10], "buffer (logarithmic)"),
        ([1, 50, 100], [1, 50, 100], "buffer"),
        ([0, 10, 1000], [0, 10, 1000], "buffer"),
        (["none", "3 MB"], [0, 1], "buffer"),
        (["3 MB", "10 ms"], [0, 1], "buffer"),
    ],
)
def test_quantities_are_at_their_size_on_an_axis(values: list[Value], places: list[float], label: str) -> None:
    scale = Scale("buffer", values)
    assert [scale.place(value) for value in values] == places
    assert scale.label == label


def test_a_rate_is_averaged_over_the_last_seconds() -> None:
    # 1 kB every 0.1 s, and none from 1 s on: the mean of 0.5 s falls to zero in 0.5 s.
    samples = [{"time_s": 0.1 * n, "bytes": 1000 * min(n, 10)} for n in range(21)]
    found = rates(samples, "bytes", 0.5)
    assert found[0] is None
    assert found[1:11] == pytest.approx([80e3] * 10)
    assert found[11:16] == pytest.approx([64e3, 48e3, 32e3, 16e3, 0])


def test_chosen_values_are_the_means_of_the_tables(directory: Path) -> None:
    result = Run.read(directory)
    sweep = Sweep(result, "scheme", [], "run.json")
    (goodput,) = metrics.chosen_metrics(sweep, "goodput_mean", directory)
    goodputs: dict[str, list[float]] = {row["scheme"]: [] for row in result.runs.to_pylist()}
    for row in result.runs.to_pylist():
        goodputs[row["scheme"]].append(1e-6 * row["goodput_mean_bps"])
    estimates = charts.estimates(sweep, goodput)["all"]
    assert [value for _, value, _ in estimates] == pytest.approx([sum(two) / 2 for two in goodputs.values()])
    # The 97.5% quantile for two seeds, and the standard deviation of two values over the root of two.
    halves = [12.7062 * abs(two[0] - two[1]) / 2 for two in goodputs.values()]
    assert [half for _, _, half in estimates] == pytest.approx(halves)


def test_a_share_is_a_part_of_the_goodput_of_each_run() -> None:
    columns = {"traffic": ["web", "bulk"] * 2, "flow_scheme": ["bbr", "cubic"] * 2, "goodput_bps": [3.0, 1.0, 1.0, 1.0]}
    flows = pa.table({"scheme": ["bbr"] * 4, "seed": [1, 1, 2, 2], **columns})
    about: Any = {"axes": {"scheme": ["bbr"], "seed": [1, 2]}}
    sweep = Sweep(Run(flows, flows, flows, None, None, [], about), None, None, "run.json")
    for name in ["web", "bbr"]:
        (share,) = metrics.chosen_metrics(sweep, f"share({name})", Path())
        (found,) = charts.estimates(sweep, share)["bbr"]
        assert found == pytest.approx((0, (75 + 50) / 2, 12.7062 * 12.5))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--x", "lod"], r"run.json: there is no axis `lod`; write one of: .*scheme"),
        (["--y", "fct"], r"runs.parquet: there is no column of numbers `fct`; write one of: .*fct_mean_s"),
        (["--y", "share(bbr)"], r"flows.parquet: there is no traffic or scheme `bbr`; write one of: .*pcp"),
        (["--y", "links.left.drop_rate"], r"links.parquet: there is no link `left`; write one of: \*, bottleneck"),
    ],
)
def test_an_unknown_name_is_refused_with_those_that_exist(
    directory: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(directory), *arguments]) == 2
    assert re.fullmatch(rf"rampmeter: {directory}/{message}.*\n", capsys.readouterr().err)


def test_a_directory_without_a_run_is_refused_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rampmeter.report", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    advice = "the last line of `rampmeter run` names the directory of its tables"
    assert result.stderr == f"rampmeter: {tmp_path}: not a run directory; {advice}\n"
