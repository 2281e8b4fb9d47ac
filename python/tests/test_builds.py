"""Builds of the same source give the same results."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


def debug_build(release: Path) -> Path:
    """The command that `cargo test` built, if it is up to date."""
    debug, sources = release.parents[1] / "debug" / release.name, release.with_suffix(".d")
    if not debug.exists() or not sources.exists():
        pytest.skip(f"{debug} or {sources} is not there: run `make test-rust build`")
    files = [Path(file) for file in sources.read_text().split(": ", 1)[1].split()]
    if debug.stat().st_mtime < max(file.stat().st_mtime for file in files if file.exists()):
        pytest.skip(f"{debug} is older than its source: run `make test-rust`")
    return debug


def test_debug_and_release_builds_write_the_same_tables(
    rampmeter_command: Path, quick_start: Path, tmp_path: Path
) -> None:
    # Also with one and with two threads, which must not matter.
    axes = ["--set", "scheme=pcp,tcp", "--set", "seed=1,2"]
    for command, jobs in [(debug_build(rampmeter_command), "2"), (rampmeter_command, "1")]:
        out = tmp_path / jobs
        subprocess.run([command, "run", quick_start, *axes, "--jobs", jobs, "--out", out, "--quiet"], check=True)
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / jobs).glob("*.parquet")} for jobs in "12")
    assert len(one) >= 3
    assert [name for name in one if one[name] != two.get(name)] == []
    assert one.keys() == two.keys()
