"""Soak file transfers: many clients over a bad path, kills of both ends, new addresses, and every byte compared.

    make soak
    make soak SOAK="--minutes 2 --clients 20"

Clients fetch files from two servers, again and again. The path loses, reorders and duplicates packets and gives
clients new addresses (bad_path.py). Some clients are killed and run again, as one server is. The other server is never
killed: its memory must not grow and its descriptors must all be closed at the end. A file that differs, a file that
does not arrive, or a client that waits too long is a failure.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from bad_path import BadPath, Faults
from command import table

SIZES = [0, 1, 1_000, 30_000, 30_000, 300_000, 300_000, 3_000_000]
MAX_WAIT = 120.0  # seconds in which each file must arrive, with kills and restarts
LIMIT_GROWTH = 1.2  # of the steady server's memory, from its first half to the second ...
LIMIT_BYTES = 8 << 20  # ... with this much more for what the allocator keeps


@dataclass
class Tally:
    """What happened to the files, in sum."""

    files: int = 0
    bytes: int = 0
    wrong: int = 0
    unfinished: int = 0
    failed_commands: int = 0
    client_kills: int = 0
    server_kills: int = 0
    waits_s: list[float] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)  # of the failed commands, without their numbers


def free_port() -> int:
    """Return a port that no other socket gets while the server is killed: below those that the kernel assigns."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.sample(range(lowest // 2, lowest), 100):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError(f"no port below {lowest} is free")


class Server:
    """A `rampmeter serve` process, which can be killed and started again."""

    def __init__(
        self,
        program: Path,
        directory: Path,
        home: Path,
        clients: int,
        options: tuple[str, ...] = (),
        host: str = "127.0.0.1",
        enter: tuple[str, ...] = (),
    ) -> None:
        """Start it on a free port, with the command `enter` before it."""
        self.port = free_port()
        self._command = [*enter, str(program), "serve", str(directory), "--listen", f"{host}:{self.port}"]
        self._command += ["--identity", str(home / "server-key"), "--clients", str(clients), *options]
        self._log = (home / f"server-{self.port}.log").open("w+")
        self.key = ""
        self.start()

    def start(self) -> None:
        """Start the process and wait until it listens."""
        self._log.seek(0)
        self._log.truncate()
        self.process = subprocess.Popen(self._command, stdout=self._log, stderr=subprocess.STDOUT)
        for _ in range(200):
            if found := re.search(r"key=([\w-]+)", Path(self._log.name).read_text()):
                self.key = found.group(1)
                return
            time.sleep(0.05)
        raise RuntimeError(f"the server does not start: {Path(self._log.name).read_text()}")

    def kill(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Ask the process to end."""
        self.process.terminate()
        self.process.wait(timeout=20)
        self._log.close()

    def memory(self) -> int:
        """Return the resident bytes."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self) -> int:
        """Return the number of open descriptors."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))


class Clients:
    """The clients, each in a thread of its own."""

    def __init__(self, program: Path, home: Path, urls: list[str], hashes: dict[str, str]) -> None:
        """Remember where the files are, and what is in them."""
        self.tally, self.stop, self.running = Tally(), threading.Event(), 0
        self._program, self._home, self._urls, self._hashes = program, home, urls, hashes
        self._lock = threading.Lock()
        self._names = sorted(hashes)

    def run(self, number: int) -> None:
        """Fetch one file after the other until `stop` is set."""
        draw = random.Random(number)
        url = self._urls[number % len(self._urls)]
        with self._lock:
            self.running += 1
        while not self.stop.is_set():
            self._fetch(url, draw.choice(self._names), self._home / f"client-{number}.bin", draw)
        with self._lock:
            self.running -= 1

    def _fetch(self, url: str, name: str, out: Path, draw: random.Random) -> None:
        started_at = time.monotonic()
        finished = False
        kills = 0
        reasons: list[str] = []
        while not finished and time.monotonic() - started_at < MAX_WAIT:
            is_killed = draw.random() < 0.1
            code, reason = self._get(url.replace("NAME", name), out, draw.uniform(0.02, 1.0) if is_killed else MAX_WAIT)
            finished = code == 0
            kills += code is None
            if code:
                reasons.append(reason)
                time.sleep(draw.uniform(0.1, 0.5))
        content = out.read_bytes() if finished else b""
        out.unlink(missing_ok=True)
        with self._lock:
            tally = self.tally
            tally.files += 1
            tally.bytes += len(content)
            tally.unfinished += not finished
            tally.wrong += finished and hashlib.sha256(content).hexdigest() != self._hashes[name]
            tally.failed_commands += len(reasons)
            tally.reasons.update(reasons)
            tally.client_kills += kills
            tally.waits_s.append(time.monotonic() - started_at)

    def _get(self, url: str, out: Path, limit: float) -> tuple[int | None, str]:
        """Run one `get`; return its exit code, or None if it was killed after `limit` seconds, and its last line."""
        command = [str(self._program), "get", url, "--out", str(out), "--json"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            try:
                _, errors = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                process.kill()
                return None, ""
        line = (errors.strip().splitlines() or ["no message"])[-1]
        return process.returncode, re.sub(r"\d[\d.:]*", "N", line.replace(str(out), "OUT"))


def make_files(directory: Path, seed: int) -> dict[str, str]:
    """Write files of random bytes; return their hashes by name."""
    draw = random.Random(seed)
    hashes = {}
    for number, size in enumerate(SIZES):
        content = draw.randbytes(size)
        (directory / f"file-{number}").write_bytes(content)
        hashes[f"file-{number}"] = hashlib.sha256(content).hexdigest()
    return hashes


def soak(program: Path, seconds: float, clients: int, seed: int) -> tuple[Tally, dict[str, float], list[str]]:
    """Run everything; return what happened, what was measured, and what failed."""
    with TemporaryDirectory(prefix="soak-") as place:
        home = Path(place)
        os.environ["XDG_CONFIG_HOME"] = str(home)
        (home / "files").mkdir()
        hashes = make_files(home / "files", seed)
        servers = [Server(program, home / "files", home, clients + 16) for _ in range(2)]
        steady, killed = servers
        paths = [BadPath(("127.0.0.1", server.port), Faults(), seed + n) for n, server in enumerate(servers)]
        urls = [f"127.0.0.1:{p.address[1]}/NAME?key={s.key}" for p, s in zip(paths, servers, strict=True)]
        descriptors = steady.descriptors()
        group = Clients(program, home, urls, hashes)
        threads = [threading.Thread(target=group.run, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        memory = []
        started_at = time.monotonic()
        next_kill = started_at + 15
        while (elapsed := time.monotonic() - started_at) < seconds:
            time.sleep(1)
            memory.append(steady.memory())
            if time.monotonic() > next_kill:
                next_kill += 30
                killed.kill()
                group.tally.server_kills += 1
                time.sleep(0.5)
                killed.start()
            progress(group.tally, elapsed, seconds, memory[-1])
        group.stop.set()
        for thread in threads:
            thread.join()
        for path in paths:
            path.close()
        left = steady.descriptors()
        for _ in range(45):  # the last sessions are discarded after half a minute
            if left <= descriptors:
                break
            time.sleep(1)
            left = steady.descriptors()
        for server in servers:
            server.stop()
    half = len(memory) // 2
    before, after = max(memory[: max(half, 1)]), max(memory[half:])
    waits = sorted(group.tally.waits_s)
    measured = {
        "wait_p50_s": waits[len(waits) // 2],
        "wait_p99_s": waits[len(waits) * 99 // 100],
        "wait_max_s": waits[-1],
        "memory_first_half_bytes": before,
        "memory_second_half_bytes": after,
        "descriptors_left": left - descriptors,
        "datagrams": sum(path.counts.datagrams for path in paths),
        "datagrams_lost": sum(path.counts.lost for path in paths),
        "new_addresses": sum(path.counts.moved for path in paths),
    }
    tally, failures = group.tally, []
    if tally.wrong:
        failures.append(f"{tally.wrong} files differ from the server's")
    if tally.unfinished:
        failures.append(f"{tally.unfinished} files did not arrive within {MAX_WAIT:g} s")
    if after > LIMIT_GROWTH * before + LIMIT_BYTES:
        failures.append(f"the server's memory grew from {before >> 10} to {after >> 10} KiB")
    if left > descriptors:
        failures.append(f"the server has {left - descriptors} descriptors more than at its start")
    return tally, measured, failures


def progress(tally: Tally, elapsed: float, seconds: float, memory: int) -> None:
    """Print one line over the last one."""
    if sys.stderr.isatty():
        text = f"{elapsed:.0f} of {seconds:.0f} s: {tally.files} files, {tally.bytes / 1e6:.0f} MB, {memory >> 20} MiB"
        print(f"\r{text}", end="", file=sys.stderr, flush=True)


def main() -> int:
    """Soak, and print what happened."""
    parser = argparse.ArgumentParser(description="Many clients over a bad path, with kills; every byte is compared.")
    parser.add_argument("rampmeter", type=Path, help="the command")
    parser.add_argument("--minutes", type=float, default=20, help="(%(default)s)")
    parser.add_argument("--clients", type=int, default=200, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of files, faults and kills (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print one object instead of a table")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tally, measured, failures = soak(arguments.rampmeter, 60 * arguments.minutes, arguments.clients, arguments.seed)
    counts = {name: value for name, value in asdict(tally).items() if name not in ("waits_s", "reasons")}
    if arguments.json:
        print(json.dumps({**counts, **measured, "reasons": tally.reasons, "failures": failures}))
    else:
        rows = [[name, "", f"{value:g}" if isinstance(value, float) else str(value)] for name, value in counts.items()]
        rows += [[name, "", f"{value:.6g}"] for name, value in measured.items()]
        print(table(["what", "", "value"], rows))
        for number, reason in sorted(((n, text) for text, n in tally.reasons.items()), reverse=True):
            print(f"{number} failed commands: {reason}")
        print("\n".join(failures) or "every file is right; nothing grew")
    return 1 if failures else 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
