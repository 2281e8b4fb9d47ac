"""Processes that other scripts start, kill, start again and measure: file servers, and both ends of a tunnel."""

from __future__ import annotations

import os
import random
import re
import socket
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path

START_LIMIT = 10.0  # seconds within which a process must print that it is ready


def free_port() -> int:
    """Return a port, of UDP and TCP, that no other socket gets in a restart: below those that the kernel assigns."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.sample(range(lowest // 2, lowest), 100):
        with ExitStack() as probes, suppress(OSError):
            for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                probes.enter_context(socket.socket(socket.AF_INET, kind)).bind(("127.0.0.1", port))
            return port
    raise RuntimeError(f"no port below {lowest} is free")


class Process:
    """A process that prints a line when it is ready, and can be killed and started again."""

    def __init__(self, command: list[str], log: Path, ready: str) -> None:
        """Start it, and wait until its output matches `ready`."""
        self._command, self._ready = command, ready
        self.log = log
        self.kills = 0  # counted before the process is killed
        self.start()

    def start(self) -> re.Match[str]:
        """Start the process and wait until it is ready; return the match."""
        with self.log.open("a") as log:
            log_start = log.tell()
            self.process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT)
        deadline, output = time.monotonic() + START_LIMIT, ""
        while time.monotonic() < deadline and self.is_running():
            output = self.log.read_text()[log_start:]
            if found := re.search(self._ready, output):
                return found
            time.sleep(0.05)
        raise RuntimeError(
            f"this process does not start: {' '.join(self._command)}: {self.log.read_text()[log_start:]}"
        )

    def kill(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        """Kill the process, and start it again half a second later."""
        self.kills += 1
        self.kill()
        time.sleep(0.5)
        self.start()

    def stop(self) -> None:
        """Ask the process to end."""
        self.process.terminate()
        self.process.wait(timeout=20)

    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self.process.poll() is None

    def memory(self) -> int:
        """Return the resident bytes."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self) -> int:
        """Return the number of open descriptors."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def panics(self) -> int:
        """Return the number of panics that it printed, since its first start."""
        return self.log.read_text().count("panicked at")


class Server(Process):
    """A `rampmeter serve` process."""

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
        self.port, self.key = free_port(), ""
        command = [*enter, str(program), "serve", str(directory), "--listen", f"{host}:{self.port}"]
        command += ["--identity", str(home / "server-key"), "--clients", str(clients), *options]
        super().__init__(command, home / f"server-{self.port}.log", r"key=([\w-]+)")

    def start(self) -> re.Match[str]:
        """Start the process, and read its public key."""
        found = super().start()
        self.key = found.group(1)
        return found


class TunnelServer(Process):
    """The server's end of `rampmeter tunnel`, which connects to one port of this machine."""

    def __init__(self, program: Path, home: Path, destination: int, connections: int) -> None:
        """Start it on a free port, with a key that its clients share."""
        self.port, self.key, self.client_key = free_port(), "", home / "tunnel-client-key"
        public = subprocess.run([program, "key", self.client_key], check=True, capture_output=True, text=True).stdout
        (home / "tunnel-clients").write_text(public)
        command = [str(program), "tunnel", "--listen", f"127.0.0.1:{self.port}"]
        command += ["--authorized", str(home / "tunnel-clients"), "--allow", f"127.0.0.1:{destination}"]
        command += ["--connections", str(connections), "--identity", str(home / "server-key")]
        super().__init__(command, home / f"tunnel-server-{self.port}.log", r"key=([\w-]+)")

    def start(self) -> re.Match[str]:
        """Start the process, and read its public key."""
        found = super().start()
        self.key = found.group(1)
        return found


class TunnelClient(Process):
    """The client's end of `rampmeter tunnel`, which forwards a port of this machine to `destination`."""

    def __init__(self, program: Path, home: Path, server: str, client_key: Path, destination: int) -> None:
        """Start it, on a free port."""
        self.port = free_port()
        self.is_up = True  # so that programs can connect
        command = [str(program), "tunnel", server, "--identity", str(client_key)]
        command += ["-L", f"{self.port}:127.0.0.1:{destination}"]
        super().__init__(command, home / f"tunnel-client-{self.port}.log", r"listening on")

    def restart(self) -> None:
        """Kill the process and start it again, and say that its connections may end."""
        self.is_up = False
        super().restart()
        self.is_up = True
