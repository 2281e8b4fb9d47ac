"""Running scenarios from Python."""

from __future__ import annotations

import re
import sys
from itertools import groupby
from pathlib import Path

import pytest

import rampmeter
from rampmeter.figures.figure import studies


def test_every_point_is_a_row_in_the_order_of_the_sweep(quick_start: Path) -> None:
    result = rampmeter.run(quick_start, scheme=["tcp", "pcp"], seed=[1, 2])
    rows = result.runs.select(["scheme", "seed"]).to_pylist()
    assert rows == [{"scheme": scheme, "seed": seed} for scheme in ["tcp", "pcp"] for seed in [1, 2]]
    assert set(result.links["link"].to_pylist()) == {"bottleneck"}


def test_the_tables_agree_with_each_other(quick_start: Path) -> None:
    result = rampmeter.run(quick_start, scheme="tcp")
    fcts = [flow["fct_s"] for flow in result.flows.to_pylist() if flow["start_s"] >= 2]
    [row] = result.runs.to_pylist()
    assert row["completed"] == len(fcts)
    assert row["fct_mean_s"] == pytest.approx(sum(fcts) / len(fcts))


def test_threads_change_nothing(quick_start: Path) -> None:
    one, two = (rampmeter.run(quick_start, scheme=["tcp", "pcp"], jobs=jobs) for jobs in [1, 2])
    assert (one.runs, one.links, one.flows) == (two.runs, two.links, two.flows)


def test_errors_are_one_line(quick_start: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text(quick_start.read_text().replace('rate = "40 Mb/s"', 'rate = "40 mbps"'))
    for path, axes, words in [
        (tmp_path / "none.toml", {}, "cannot be read"),
        (broken, {}, "broken.toml:15"),
        (quick_start, {"sed": 1}, "did you mean `seed`"),
        (quick_start, {"scheme": "tpc"}, "did you mean `"),
        (quick_start, {"seed": []}, "give it one or more"),
        (quick_start, {"seed": None}, "seed=None: give a value, or a list of them"),
    ]:
        with pytest.raises(rampmeter.ScenarioError) as error:
            rampmeter.run(path, **axes)  # type: ignore[arg-type]
        assert words in str(error.value)
        assert "\n" not in str(error.value)


def test_a_world_reports_what_it_cannot_run(quick_start: Path) -> None:
    result = rampmeter.run(quick_start, scheme=["tcp", "linux-cubic"])
    assert result.runs["scheme"].to_pylist() == ["tcp"]
    [skipped] = result.skipped
    assert "linux-cubic" in skipped
    assert "--world emulated" in skipped
    with pytest.raises(rampmeter.ScenarioError, match="simulated"):
        rampmeter.run(quick_start, "imagined", scheme="tcp")


def test_another_transports_stack_is_a_scheme(quick_start: Path) -> None:
    result = rampmeter.run(quick_start, scheme="quinn:cubic")
    assert result.runs["completed"].to_pylist()[0] > 0


def test_a_run_directory_can_be_kept_and_read_again(quick_start: Path, tmp_path: Path) -> None:
    result = rampmeter.run(quick_start, out=tmp_path / "kept", scheme="tcp")
    assert rampmeter.Run.read(tmp_path / "kept") == result
    again = rampmeter.run(quick_start, out=tmp_path / "kept", scheme="tcp")
    assert again.runs == result.runs
    assert again.flows == result.flows


def test_axes_are_keywords_or_a_mapping(quick_start: Path) -> None:
    by_keyword = rampmeter.run(quick_start, scheme="tcp", seed=[1, 2]).flows
    assert rampmeter.run(quick_start, axes={"scheme": "tcp", "seed": [1, 2]}).flows == by_keyword
    assert rampmeter.run(quick_start, axes={"seed": range(1, 3)}, scheme="tcp").flows == by_keyword
    with pytest.raises(rampmeter.ScenarioError, match="seed: given twice"):
        rampmeter.run(quick_start, axes={"seed": 1}, seed=2)


def test_finished_points_are_kept_unless_fresh(quick_start: Path, tmp_path: Path) -> None:
    short, directory = brief(quick_start, tmp_path), tmp_path / "kept"
    result = rampmeter.run(short, scheme=["tcp", "pcp"], out=directory)
    points = sorted((directory / "points").iterdir())

    def run_again(*, fresh: bool) -> list[bool]:
        before = [point.stat().st_mtime_ns for point in points]
        again = rampmeter.run(short, scheme=["tcp", "pcp"], out=directory, fresh=fresh)
        assert again.runs == result.runs
        return [point.stat().st_mtime_ns == time for point, time in zip(points, before, strict=True)]

    assert run_again(fresh=False) == [True, True]
    points[0].unlink()
    points[0].touch()
    assert run_again(fresh=False) == [False, True]
    assert run_again(fresh=True) == [False, False]


def test_a_text_or_a_mapping_is_a_scenario(quick_start: Path, tmp_path: Path) -> None:
    tomllib = pytest.importorskip("tomllib")
    text = brief(quick_start, tmp_path).read_text()
    by_text = rampmeter.run(text, scheme="tcp")
    by_mapping = rampmeter.run(tomllib.loads(text), scheme="tcp")
    assert by_text.runs == by_mapping.runs
    assert by_text.about["title"] == tomllib.loads(text)["title"]
    with pytest.raises(rampmeter.ScenarioError, match=r"scenario.toml:1: `duration`: `5` is not a length of time"):
        rampmeter.run({"duration": 5, "traffic": []})


def test_a_crate_that_is_none_is_one_message(quick_start: Path, tmp_path: Path) -> None:
    with pytest.raises((rampmeter.ScenarioError, rampmeter.WorldError), match=r"Cargo.toml"):
        rampmeter.run(quick_start, crate=tmp_path)


def test_a_run_shows_its_main_columns(quick_start: Path) -> None:
    result = rampmeter.run(quick_start, scheme=["tcp", "pcp", "linux-cubic"], seed=[1, 2])
    title, facts, axes, blank, head, *body = repr(result).splitlines()
    assert title == result.about["title"]
    assert facts == "quick_start.toml, simulated, 4 of 6 runs, 2 skipped (.skipped says why)"
    assert axes == "scheme = tcp, pcp, linux-cubic; seed = 1, 2"
    assert not blank
    assert head.split()[:2] == ["scheme", "transfers"]
    assert "goodput Mb/s" in head
    assert "queue, mean" in head
    assert [line.split()[0] for line in body] == ["tcp", "pcp"]
    transfers = [row["completed"] for row in result.runs.to_pylist() if row["scheme"] == "tcp"]
    assert body[0].split()[1] == f"{sum(transfers) / 2:.0f}"
    page = result._repr_html_()
    assert page.count("<tr>") == 3
    assert '<td class="word">pcp</td>' in page
    assert "4 of 6 runs" in page


def test_a_long_run_shows_its_first_points(quick_start: Path, tmp_path: Path) -> None:
    text = brief(quick_start, tmp_path).read_text()
    loads = [round(0.01 * n, 2) for n in range(1, 24)]
    text = text.replace("load = 0.30", 'load = "$load"').replace("[axes]", f"[axes]\nload = {loads}")
    (tmp_path / "long.toml").write_text(text.replace("The same transfers", "<b>The same transfers"))
    result = rampmeter.run(tmp_path / "long.toml", scheme="tcp")
    assert repr(result).endswith("\nand 3 more points")
    assert "load = 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, ... (23 values)" in repr(result)
    assert result._repr_html_().count("<tr>") == 21
    assert "&lt;b&gt;The same transfers" in result._repr_html_()


def brief(scenario: Path, directory: Path) -> Path:
    """Write the scenario with a shorter duration."""
    path = directory / "brief.toml"
    text = scenario.read_text()
    for key, value in {"duration": "2 s", "warmup": "0 s", "drain": "3 s"}.items():
        text = re.sub(f"^{key} = .*$", f'{key} = "{value}"', text, flags=re.MULTILINE)
    path.write_text(text)
    return path


@pytest.mark.parametrize("world", ["simulated", "emulated"])
def test_a_terminal_shows_the_progress_of_a_run(
    world: str, quick_start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = brief(quick_start, tmp_path)
    for watched in [False, True]:
        monkeypatch.setattr(sys.stderr, "isatty", lambda watched=watched: watched)
        try:
            rampmeter.run(short, world, scheme="tcp", seed=[1, 2])
        except rampmeter.WorldError as error:
            if "no emulated network here" not in str(error):
                raise
            pytest.skip(str(error))
        said = capsys.readouterr().err
        steps = [step.strip() for step in said.split("\r") if step]
        if watched:
            runs = [
                run for run, _ in groupby(step.split(",")[0] for step in steps)
            ]  # the remaining time is shown in between
            assert runs == ["0 of 2 runs", "1 of 2 runs", "2 of 2 runs"]
            assert said.endswith("\n")
        else:
            assert said == ""


def test_the_emulated_world_runs_in_a_process_of_its_own(quick_start: Path, tmp_path: Path) -> None:
    try:
        result = rampmeter.run(brief(quick_start, tmp_path), "emulated", scheme="tcp", out=tmp_path / "kept")
    except rampmeter.WorldError as error:
        if "no emulated network here" not in str(error):
            raise
        pytest.skip(str(error))
    assert result.runs.select(["scheme", "world"]).to_pylist() == [{"scheme": "tcp", "world": "emulated"}]
    assert result.runs["completed"].to_pylist()[0] > 0
    assert rampmeter.Run.read(tmp_path / "kept") == result


def test_the_other_process_reports_errors(quick_start: Path) -> None:
    with pytest.raises(rampmeter.ScenarioError, match="did you mean `tcp`"):
        rampmeter.run(quick_start, "emulated", scheme="tpc")


def test_an_axis_may_be_called_path() -> None:
    result = rampmeter.run(studies() / "pcp" / "paths.toml", path="p23", others="tcp", sender="pcp")
    assert result.runs["path"].to_pylist() == ["p23"]
