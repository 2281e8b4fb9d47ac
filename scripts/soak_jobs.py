"""What each client of soak.py does, again and again: it fetches a file, or uses a tunnel.

A job is repeated until it is complete, for `MAX_WAIT` at most. Some of its commands are killed before; then the same
command is run again, and goes on where the last one stopped. What arrives is compared with what was sent.
"""

from __future__ import annotations

import hashlib
import random
import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path

from processes import TunnelClient
from soak_tunnels import End, Service, draw_exchange, is_as_demanded

MAX_WAIT = 120.0  # seconds in which each job must be complete, with kills and restarts
KILLED = 0.1  # the share of commands that are killed
KINDS = {"get": 65, "tunnel": 35}  # and their weights


@dataclass
class Tally:
    """What happened to the jobs of one kind, in sum."""

    jobs: int = 0
    bytes: int = 0
    wrong: int = 0
    unfinished: int = 0
    broken: int = 0  # connections that were not as demanded, though their tunnel was not killed; panics
    failed_commands: int = 0
    client_kills: int = 0
    waits_s: list[float] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)  # of the failed commands, without their numbers

    def counts(self) -> dict[str, int]:
        """Return the counts, without lists."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name not in ("waits_s", "reasons")}

    def add(self, other: Tally) -> None:
        """Add those of `other`."""
        for name, count in other.counts().items():
            setattr(self, name, getattr(self, name) + count)
        self.waits_s += other.waits_s
        self.reasons += other.reasons


@dataclass(frozen=True)
class Site:
    """What all clients use."""

    program: Path
    home: Path
    urls: list[str]  # of the file servers through their paths, with NAME in them
    hashes: dict[str, str]  # of the files to fetch
    service: Service  # behind the tunnels
    tunnels: list[TunnelClient]
    kinds: list[str]  # of jobs


class Clients:
    """The clients, each in a thread of its own."""

    def __init__(self, site: Site, count: int) -> None:
        """Start them."""
        self.tallies = {kind: Tally() for kind in site.kinds}
        self.errors = 0  # clients that ended by an error of these scripts
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._turn = threading.Condition(self._lock)
        self._is_paused, self._idle = False, 0
        self._threads = [threading.Thread(target=self._run, args=(Client(site, n),), daemon=True) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def pause(self) -> None:
        """Let each client complete its job, and wait until all have."""
        with self._turn:
            self._is_paused = True
            self._turn.wait_for(lambda: self._idle + self.errors >= len(self._threads))

    def resume(self) -> None:
        """Let the clients go on."""
        with self._turn:
            self._is_paused = False
            self._turn.notify_all()

    def _wait_while_paused(self) -> None:
        with self._turn:
            self._idle += 1
            self._turn.notify_all()
            self._turn.wait_for(lambda: not self._is_paused)
            self._idle -= 1

    def stop(self) -> None:
        """Let each client complete its job."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def total(self) -> Tally:
        """Return the sum of all kinds."""
        total = Tally()
        with self._lock:
            for tally in self.tallies.values():
                total.add(tally)
        return total

    def _run(self, client: Client) -> None:
        try:
            while not self._stop.is_set():
                self._wait_while_paused()
                if self._stop.is_set():
                    break
                kind, tally = client.run_job()
                with self._lock:
                    self.tallies[kind].add(tally)
        except Exception:
            with self._turn:
                self.errors += 1
                self._turn.notify_all()
            raise


class Client:
    """One client, with a file server and a directory of its own."""

    def __init__(self, site: Site, number: int) -> None:
        """Make its directory."""
        self._site, self._draw = site, random.Random(number)
        self._url = site.urls[number % len(site.urls)]
        self._home = site.home / f"client-{number}"
        self._home.mkdir(parents=True)
        self._deadline = 0.0
        self._tally = Tally()

    def run_job(self) -> tuple[str, Tally]:
        """Draw a job and do it; return its kind and what happened."""
        job = self._draw.choices(self._site.kinds, [KINDS[kind] for kind in self._site.kinds])[0]
        run: dict[str, Callable[[], bool]]
        run = {"get": self._get, "tunnel": self._connect}
        self._tally = Tally(jobs=1)
        started_at = time.monotonic()
        self._deadline = started_at + MAX_WAIT
        self._tally.unfinished = not run[job]()
        self._tally.waits_s.append(time.monotonic() - started_at)
        return job, self._tally

    def _get(self) -> bool:
        name, out = self._draw.choice(sorted(self._site.hashes)), self._home / "download"
        is_complete = self._repeat("get", self._url.replace("NAME", name), "--out", str(out))
        if is_complete:
            self._compare(out, self._site.hashes[name])
        out.unlink(missing_ok=True)
        return is_complete

    def _connect(self) -> bool:
        """Open a connection through a tunnel; if the tunnel is killed meanwhile, open it again."""
        tunnel, exchange = self._draw.choice(self._site.tunnels), draw_exchange(self._draw)
        while time.monotonic() < self._deadline:
            kills = tunnel.kills
            if not tunnel.is_up:
                time.sleep(0.1)
                continue
            client, service = self._site.service.run(tunnel, exchange)
            is_cut = tunnel.kills > kills and client is not End.WRONG
            if is_as_demanded(exchange, client, service):
                self._tally.bytes += len(exchange.client.content) + len(exchange.service.content)
                return True
            if is_cut:
                self._tally.client_kills += 1
            else:
                self._tally.wrong += End.WRONG in (client, service)
                self._tally.broken += End.WRONG not in (client, service)
                self._tally.failed_commands += 1
                self._tally.reasons[f"{exchange.title()}: client: {client.value}; service: {service.value}"] += 1
                time.sleep(0.5)
            exchange = draw_exchange(self._draw)
        return False

    def _compare(self, path: Path, expected: str) -> None:
        content = path.read_bytes() if path.exists() else b""
        self._tally.bytes += len(content)
        self._tally.wrong += hashlib.sha256(content).hexdigest() != expected

    def _repeat(self, *command: str) -> bool:
        """Run a command until it succeeds; return whether it did in time."""
        while (left := self._deadline - time.monotonic()) > 0:
            is_killed = self._draw.random() < KILLED
            if self._run(command, self._draw.uniform(0.02, 1.0) if is_killed else left):
                return True
        return False

    def _run(self, command: tuple[str, ...], limit: float) -> bool:
        """Run a command, and kill it after `limit` seconds; return whether it succeeded."""
        words = [str(self._site.program), *command, "--json"]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            try:
                _, errors = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                process.kill()
                self._tally.client_kills += 1
                return False
        if process.returncode == 0:
            return True
        line = (errors.strip().splitlines() or ["no message"])[-1].replace(str(self._home), "HOME")
        self._tally.failed_commands += 1
        self._tally.broken += "panicked at" in errors or process.returncode < 0
        self._tally.reasons[f"{command[0]}: " + re.sub(r"\d[\d.:]*", "N", line)] += 1
        time.sleep(self._draw.uniform(0.1, 0.5))
        return False
