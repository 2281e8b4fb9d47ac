"""Reports of run directories."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rampmeter import report, run


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


def test_a_directory_without_a_run_is_refused_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rampmeter.report", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    advice = "the last line of `rampmeter run` names the directory of its tables"
    assert result.stderr == f"rampmeter: {tmp_path}: not a run directory; {advice}\n"
