"""The examples in docs/python.md run as they are there, apart from addresses and keys."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from net import OTHER_KEY, SECONDS, noise, served

PAGE = Path(__file__).parents[2] / "docs/python.md"
BLOCKS: list[str] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
FILES = [block for block in BLOCKS if ":7267/" in block]
SERVERS = [block for block in BLOCKS if block.startswith("# server.py")]
CLIENTS = [block for block in BLOCKS if block.startswith("# client.py")]
RUNS = [block for block in BLOCKS if "rampmeter.run(" in block]
ERRORS = [block for block in BLOCKS if "WRONG" in block]


def run(block: str, directory: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=directory, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def running(server: str) -> Iterator[str]:
    """Run the example of a server; yield what its clients connect to."""
    server = server.replace("0.0.0.0:7268", "127.0.0.1:0")
    with subprocess.Popen([sys.executable, "-c", server], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield process.stdout.readline().split()[-1]
        finally:
            process.kill()


def test_each_example_is_run() -> None:
    assert (len(RUNS), len(FILES), len(SERVERS), len(CLIENTS), len(ERRORS)) == (1, 2, 2, 2, 1)
    assert len(BLOCKS) == 8


def test_the_example_of_a_run(quick_start: Path, tmp_path: Path) -> None:
    (block,) = RUNS
    text = run(block.replace("studies/pcp/quick_start.toml", str(quick_start)), tmp_path)
    assert re.search(r"scheme +.*FCT", text), text
    assert "fct_mean_s" in text
    assert (tmp_path / "runs/mine/run.json").is_file()


def test_the_examples_of_files(rampmeter_command: Path, tmp_path: Path, keys: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/data.bin").write_bytes(noise(50_000))
    (tmp_path / "there/other.bin").write_bytes(noise(10))
    with served(rampmeter_command, tmp_path / "there") as server:
        address, key = server.split("/NAME?key=")
        texts = [run(block.replace("192.0.2.7:7267", address).replace("KEY", key), tmp_path) for block in FILES]
    assert "/data.bin 50000 bytes, " in texts[0]
    assert texts[1].rstrip().endswith("10 of 10 bytes")
    assert (tmp_path / "other.bin").read_bytes() == noise(10)


@pytest.mark.parametrize("example", range(2))
def test_the_examples_of_streams(example: int, tmp_path: Path, keys: Path) -> None:
    with running(SERVERS[example]) as url:
        client = CLIENTS[example].replace("192.0.2.7:7268?key=KEY", url)
        assert run(client, tmp_path) == "to and fro\n"
        if example > 0:
            return
        wrong = ERRORS[0].replace("192.0.2.7:7268?key=WRONG", f"{url.split('=')[0]}={OTHER_KEY}")
        assert OTHER_KEY in run(wrong, tmp_path)
