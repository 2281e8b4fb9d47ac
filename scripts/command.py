"""The `rampmeter` command, as the other scripts call it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class CommandError(Exception):
    """The command failed, with this message."""


def run(program: Path, scenario: Path | str, *, world: str = "simulated", **axes: str) -> list[dict[str, Any]]:
    """Return the runs of `rampmeter run SCENARIO --world WORLD --set AXIS=VALUES ... --json`."""
    command = [str(program), "run", str(scenario), "--world", world, "--json"]
    for axis, values in axes.items():
        command += ["--set", f"{axis}={values}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise CommandError(result.stderr.strip() or f"exit code {result.returncode}")
    runs: list[dict[str, Any]] = json.loads(result.stdout)["runs"]
    return runs


@contextmanager
def serve(program: Path, directory: Path, controller: str, identity: Path) -> Iterator[str]:
    """Serve `directory` on a free port of this machine with the key in `identity`; return its URL, with NAME in it."""
    command = [str(program), "serve", str(directory), "--listen", "127.0.0.1:0", "--controller", controller]
    command += ["--identity", str(identity)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            lines = []
            for line in server.stdout or []:
                lines.append(line.strip())
                if url := re.search(r"'(127\.0\.0\.1:\d+/NAME\?key=.*)'", line):
                    break
            else:
                raise CommandError(" ".join(lines) or "rampmeter serve ended without output")
            yield url.group(1)
        finally:
            server.terminate()


def table(head: list[str], rows: list[list[str]]) -> str:
    """Format `rows` under `head`, with numbers aligned right."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    texts = []
    for line in lines:
        cells = [
            cell.ljust(width) if n < 2 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        texts.append("  ".join(cells).rstrip())
    return "\n".join([texts[0], "  ".join("─" * width for width in widths), *texts[1:]])
