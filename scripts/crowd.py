"""Let many clients fetch one large file at the same time: each must get all of it.

    make crowd
    make crowd CROWD="--clients 400 --megabytes 5"
    make crowd CROWD="--clients 2 --addresses 2 --threads 2 --megabytes 200"

Clients come from 127.0.0.1, so one thread of the server has all of them. With `--addresses`, as root, all processes are
in a network namespace with so many addresses, and clients use them in turn.

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
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from command import table
from processes import Server
from wire_network import Namespace, NetworkError


def crowd(arguments: argparse.Namespace, home: Path, network: Namespace) -> dict[str, float]:
    """Run all clients at once; return what happened."""
    program, clients, megabytes = arguments.rampmeter, arguments.clients, arguments.megabytes
    (home / "files").mkdir()
    content = random.Random(1).randbytes(megabytes * 1_000_000)
    (home / "files/large").write_bytes(content)
    options: list[str] = ["--threads", str(arguments.threads)] if arguments.threads else []
    addresses = [f"10.80.0.{number + 1}" for number in range(arguments.addresses)]
    for address in addresses:
        network.run("ip", "address", "add", f"{address}/32", "dev", "lo")
    host = "0.0.0.0" if addresses else "127.0.0.1"
    server = Server(program, home / "files", home, 256, tuple(options), host, tuple(network.command()))
    started_at = time.monotonic()
    processes: list[subprocess.Popen[str]] = []
    for number in range(clients):
        # The kernel gives a client the address that it connects to.
        address = addresses[number % len(addresses)] if addresses else "127.0.0.1"
        url = f"{address}:{server.port}/large?key={server.key}"
        command = network.command(program, "get", url, "--json", "--out", home / f"{number}.bin")
        # Clients have machines of their own elsewhere: here they must not take the processor from the server.
        command = ["nice", "-n", "10", *command]
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
    used = thread_seconds(server.process.pid)
    server.stop()
    return {
        "clients": clients,
        "megabytes": megabytes,
        "complete": complete,
        "wrong": wrong,
        "first_s": min(waits),
        "last_s": max(waits),
        "mb_per_s": complete * megabytes / max(waits),
        "server_memory_mb": memory / 1e6,
        **{f"thread_{number}_s": seconds for number, seconds in enumerate(used)},
    }


def thread_seconds(pid: int) -> list[float]:
    """Return the processor time of each thread of a server that sends and receives."""
    used = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        name, _, fields = (task / "stat").read_text().partition("(")[2].rpartition(")")
        if name == "rampmeter" or name.removeprefix("rampmeter-").isdigit():
            user, system = fields.split()[11:13]
            used[int(task.name)] = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return [used[number] for number in sorted(used)]


def main() -> int:
    """Run a crowd, and print what happened."""
    parser = argparse.ArgumentParser(description="Many clients fetch one large file at the same time.")
    parser.add_argument("rampmeter", type=Path, help="the command")
    parser.add_argument("--clients", type=int, default=200, help="(%(default)s)")
    parser.add_argument("--megabytes", type=int, default=20, help="the size of the file (%(default)s)")
    parser.add_argument("--threads", type=int, help="threads of the server (as many as there are cores)")
    parser.add_argument(
        "--addresses", type=int, default=0, help="addresses of clients, at most 250, as root (127.0.0.1)"
    )
    parser.add_argument("--json", action="store_true", help="print one object instead of a table")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="crowd-") as place:
        os.environ["XDG_CONFIG_HOME"] = place
        with closing(Namespace(own=not arguments.addresses)) as network:
            measured = crowd(arguments, Path(place), network)
    if arguments.json:
        print(json.dumps(measured))
    else:
        print(table(["what", "", "value"], [[name, "", f"{value:.6g}"] for name, value in measured.items()]))
    return 0 if measured["complete"] == arguments.clients and not measured["wrong"] else 1


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        try:
            sys.exit(main())
        except NetworkError as error:
            sys.exit(f"crowd: {error}")
    sys.exit(130)
