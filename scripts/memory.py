"""Measure the memory of a file server for each idle and for each busy connection.

    make memory
    make memory MEMORY="--idle 200 --busy 20"

The idle connections are in sessions of their own and send keep-alives. The busy ones are downloads of a large file by
one process each, as fast as all of them can. The figures are differences of the server's
resident memory, divided by the number of connections.
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
    parser.add_argument("idle_connections", type=Path, help="the program of crates/files/examples")
    parser.add_argument("--idle", type=int, default=1000, help="idle connections (%(default)s)")
    parser.add_argument("--busy", type=int, default=100, help="busy connections (%(default)s)")
    arguments = parser.parse_args()
    rows = []
    with TemporaryDirectory() as home, ExitStack() as stack:
        files = Path(home, "files")
        files.mkdir()
        (files / "large").touch()
        os.truncate(files / "large", 100 << 30)  # it takes no space
        clients = max(arguments.idle, arguments.busy) * 2
        for name, count in (
            ("idle", arguments.idle),
            ("busy", arguments.busy),
        ):
            server = Server(arguments.rampmeter, files, Path(home), clients)
            stack.callback(server.kill)
            # The first connections also allocate what all of them share.
            with opened(name, arguments, server, Path(home), 10):
                time.sleep(SETTLE)
            before = server.memory()
            with opened(name, arguments, server, Path(home), count):
                time.sleep(SETTLE)
                after = server.memory()
            rows.append(
                [name, str(count), f"{before / 1e6:.1f}", f"{after / 1e6:.1f}", f"{(after - before) / count / 1e3:.1f}"]
            )
            server.kill()
    print(table(["connections", "number", "MB before", "MB with them", "kB each"], rows))
    return 0


@contextmanager
def opened(name: str, arguments: argparse.Namespace, server: Server, home: Path, count: int) -> Iterator[None]:
    """Hold this many connections open."""
    address = f"127.0.0.1:{server.port}"
    processes: list[subprocess.Popen[bytes]] = []
    if name == "idle":
        command = [arguments.idle_connections, address, server.key, str(count)]
        processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        output = processes[0].stdout
        if not output or b"open" not in output.readline():
            raise RuntimeError("the idle connections were not opened")
    else:
        environment = {**os.environ, "XDG_CONFIG_HOME": str(home)}
        command = [arguments.rampmeter, "get", f"{address}/large?key={server.key}", "--out", "/dev/null"]
        none = subprocess.DEVNULL
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
