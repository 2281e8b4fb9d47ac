"""Measure the memory of a file server for each download.

    make memory
    make memory MEMORY="--downloads 20"

The downloads are of a large file, by one process each, as fast as all of them can. The figures are differences of the
server's resident memory, divided by their number.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from command import table
from processes import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTLE = 3.0  # seconds


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure a server's memory for each connection.")
    parser.add_argument("rampmeter", type=Path, help="the command")
    parser.add_argument("--downloads", type=int, default=100, help="downloads at once (%(default)s)")
    arguments = parser.parse_args()
    with TemporaryDirectory() as home, ExitStack() as stack:
        files = Path(home, "files")
        files.mkdir()
        (files / "large").touch()
        os.truncate(files / "large", 100 << 30)  # it takes no space
        server = Server(arguments.rampmeter, files, Path(home), arguments.downloads * 2)
        stack.callback(server.kill)
        # The first downloads also allocate what all of them share.
        with downloads(arguments.rampmeter, server, Path(home), 10):
            time.sleep(SETTLE)
        before = server.memory()
        with downloads(arguments.rampmeter, server, Path(home), arguments.downloads):
            time.sleep(SETTLE)
            after = server.memory()
    each = (after - before) / arguments.downloads / 1e3
    row = [str(arguments.downloads), f"{before / 1e6:.1f}", f"{after / 1e6:.1f}", f"{each:.1f}"]
    print(table(["downloads", "MB before", "MB with them", "kB each"], [row]))
    return 0


@contextmanager
def downloads(rampmeter: Path, server: Server, home: Path, count: int) -> Iterator[None]:
    """Run this many downloads."""
    environment = {**os.environ, "XDG_CONFIG_HOME": str(home)}
    command = [str(rampmeter), "get", f"127.0.0.1:{server.port}/large?key={server.key}", "--out", "/dev/null"]
    none = subprocess.DEVNULL
    processes = []
    for _ in range(count):
        processes.append(subprocess.Popen(command, stdout=none, stderr=none, env=environment))
    time.sleep(count * 0.05)
    try:
        yield
        if any(process.poll() is not None for process in processes):
            raise RuntimeError("a client ended before the measurement")
    finally:
        for process in processes:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
