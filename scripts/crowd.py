"""Let many clients fetch one large file at the same time: each must get all of it.

    make crowd
    make crowd CROWD="--clients 400 --megabytes 5"

There is no limit on the time, because that depends on the machine: a client may take as long as its bytes keep coming.
Any client that fails, or that gets other bytes, is a failure.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from command import table
from soak import Server


def crowd(program: Path, home: Path, clients: int, megabytes: int) -> dict[str, float]:
    """Run all clients at once; return what happened."""
    (home / "files").mkdir()
    content = random.Random(1).randbytes(megabytes * 1_000_000)
    (home / "files/large").write_bytes(content)
    server = Server(program, home / "files", home, 256)
    url = f"127.0.0.1:{server.port}/large?key={server.key}"
    started_at = time.monotonic()
    processes: list[subprocess.Popen[str]] = []
    for number in range(clients):
        command = [str(program), "get", url, "--json", "--out", str(home / f"{number}.bin")]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sys.stderr, text=True))
    memory = complete = wrong = 0
    waits: list[float] = []
    running = dict(enumerate(processes))
    while running:
        time.sleep(0.1)
        memory = max(memory, server.memory())
        for number in [number for number, process in running.items() if process.poll() is not None]:
            report, _ = running.pop(number).communicate()
            waits.append(time.monotonic() - started_at)
            if report:
                complete += 1
                out = home / f"{number}.bin"
                found = hashlib.sha256(out.read_bytes()).digest()
                wrong += json.loads(report)["complete"] != 1 or found != hashlib.sha256(content).digest()
                out.unlink()  # so that all of them need no space at once
        if sys.stderr.isatty():
            print(f"\r{complete} of {clients} complete", end="", file=sys.stderr, flush=True)
    server.stop()
    return {
        "clients": clients,
        "megabytes": megabytes,
        "complete": complete,
        "wrong": wrong,
        "first_s": min(waits),
        "last_s": max(waits),
        "server_memory_mb": memory / 1e6,
    }


def main() -> int:
    """Run a crowd, and print what happened."""
    parser = argparse.ArgumentParser(description="Many clients fetch one large file at the same time.")
    parser.add_argument("rampmeter", type=Path, help="the command")
    parser.add_argument("--clients", type=int, default=200, help="(%(default)s)")
    parser.add_argument("--megabytes", type=int, default=20, help="the size of the file (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print one object instead of a table")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="crowd-") as place:
        os.environ["XDG_CONFIG_HOME"] = place
        measured = crowd(arguments.rampmeter, Path(place), arguments.clients, arguments.megabytes)
    if arguments.json:
        print(json.dumps(measured))
    else:
        print(table(["what", "", "value"], [[name, "", f"{value:.6g}"] for name, value in measured.items()]))
    return 0 if measured["complete"] == arguments.clients and not measured["wrong"] else 1


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
