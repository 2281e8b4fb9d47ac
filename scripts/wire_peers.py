"""The programs that bench_wire.py and bench_paths.py compare: how their servers and clients are started.

To add a peer, write a program in bench/wire/src/bin (or a directory in bench/wire/go) and a line in `PEERS`. Its
arguments are those of bench/wire/src/lib.rs, and its client prints an object with the time in `seconds`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from wire_network import Network

ROOT = Path(__file__).parents[1]
NAME = "wire.test"  # in the certificate
PORT = 4433


class PeerError(Exception):
    """A peer failed, with this message."""


@dataclass(frozen=True)
class Tools:
    """Where programs and files are."""

    rampmeter: Path
    programs: Path
    files: Path

    def file(self, size: int) -> Path:
        """Return a file of this size; it takes no space."""
        path = self.files / f"{size}.bin"
        if not path.exists():
            path.touch()
            os.truncate(path, size)
        return path

    @property
    def certificate(self) -> Path:
        """The certificate of all servers."""
        return self.files / "certificate.pem"


@dataclass(frozen=True)
class Peer:
    """A server and its client."""

    name: str
    packet: int  # the maximum size of its packets, with the IP header, on links that carry it
    serve: Callable[[Tools, str], list[str]]  # from the address to listen at
    get: Callable[[Tools, str, int], list[str]]  # from the server's address and the number of bytes
    missing: Callable[[Tools], str | None] = lambda _: None  # why it cannot run here
    kernel_controller: str | None = None
    wants_rate: bool = False  # whether its client's last argument is the rate of the path, in Mb/s


def ours(controller: str) -> Peer:
    """Return our own file transfer. All of its command line is here."""

    def command(tools: Tools, *words: str) -> list[str]:
        # The server's key and the client's list of known servers are beside the files, not the user's own.
        return ["env", f"XDG_CONFIG_HOME={tools.files}", str(tools.rampmeter), *words]

    def serve(tools: Tools, address: str) -> list[str]:
        return command(tools, "serve", str(tools.files), "--listen", address, "--controller", controller)

    def get(tools: Tools, address: str, size: int) -> list[str]:
        return command(tools, "get", f"{address}/{tools.file(size).name}", "--out", "/dev/null", "--json")

    return Peer(f"rampmeter {controller}", 9000, serve, get)


def built(name: str, packet: int, *, wants_rate: bool = False) -> Peer:
    """Return a peer that is a program of bench/wire; what follows a space in its name is not in the program's."""
    program = name.split()[0].replace("-", "_")

    def serve(tools: Tools, address: str) -> list[str]:
        return [str(tools.programs / program), "serve", address, str(tools.files)]

    def get(tools: Tools, address: str, size: int) -> list[str]:
        return [str(tools.programs / program), "get", address, str(tools.files), str(size)]

    def missing(tools: Tools) -> str | None:
        return None if (tools.programs / program).exists() else "it is not built; peers in Go need `go`"

    return Peer(name, packet, serve, get, missing, wants_rate=wants_rate)


NGINX = """
daemon off;
master_process off;
pid {files}/nginx.pid;
events {{}}
http {{
    access_log off;
    client_body_temp_path {files}/body;
    proxy_temp_path {files}/proxy;
    fastcgi_temp_path {files}/fastcgi;
    uwsgi_temp_path {files}/uwsgi;
    scgi_temp_path {files}/scgi;
    server {{
        listen {address} ssl;
        ssl_certificate {files}/certificate.pem;
        ssl_certificate_key {files}/key.pem;
        ssl_protocols TLSv1.3;
        root {files};
    }}
}}
"""


def kernel(controller: str) -> Peer:
    """Return the kernel's TCP with TLS 1.3, between nginx and curl."""

    def serve(tools: Tools, address: str) -> list[str]:
        settings = tools.files / "nginx.conf"
        settings.write_text(NGINX.format(files=tools.files, address=address))
        return ["nginx", "-e", "stderr", "-p", str(tools.files), "-c", str(settings)]

    def get(tools: Tools, address: str, size: int) -> list[str]:
        host, port = address.split(":")
        url = f"https://{NAME}:{port}/{tools.file(size).name}"
        options = ["--silent", "--show-error", "--fail", "--http1.1", "--cacert", str(tools.certificate)]
        resolve = ["--resolve", f"{NAME}:{port}:{host}", "--noproxy", "*"]
        return ["curl", *options, *resolve, "--output", "/dev/null", "--write-out", '{"seconds": %{time_total}}', url]

    def missing(_: Tools) -> str | None:
        for program in ("nginx", "curl"):
            if shutil.which(program) is None:
                return f"{program} is not installed"
        known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
        return None if controller in known else f"this kernel has no tcp_{controller}"

    return Peer(f"TCP {controller}", 65_536, serve, get, missing, controller)


PEERS = [
    ours("newreno"),
    ours("cubic"),
    ours("pcp"),
    ours("bbr"),
    built("s2n-quic", 1500),
    built("quinn", 1480),
    built("noq", 1480),
    built("quic-go", 1480),
    built("hysteria bbr", 1480),
    built("hysteria brutal", 1480, wants_rate=True),
    kernel("cubic"),
    kernel("bbr"),
]


def stop_on_signals() -> None:
    """End by an exception on signals, so that everything is closed."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda caught, _: sys.exit(128 + caught))


def progress(text: str) -> None:
    """Report what is being done."""
    print(text, file=sys.stderr, flush=True)


def prepare(rampmeter: Path) -> Tools:
    """Build what bench/wire has, and make the certificate; all is below target/wire."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "wire"
    progress("building bench/wire: some minutes the first time")
    subprocess.run([ROOT / "bench/wire/build", target], check=True, stdout=sys.stderr)
    tools = Tools(rampmeter.resolve(), target / "release", target / "files")
    tools.files.mkdir(exist_ok=True)
    subprocess.run([tools.programs / "certificate", tools.files], check=True)
    return tools


def chosen(names: str, tools: Tools) -> list[Peer]:
    """Return the peers of a list of names; report those that cannot run here."""
    known = {peer.name: peer for peer in PEERS}
    peers = []
    for name in names.split(","):
        if name not in known:
            raise PeerError(f"no peer is called {name!r}; there are: {', '.join(known)}")
        reason = known[name].missing(tools)
        if reason:
            progress(f"SKIPPED, {name}: {reason}")
        else:
            peers.append(known[name])
    return peers


@contextmanager
def serving(peer: Peer, tools: Tools, network: Network, prefix: tuple[str, ...] = ()) -> Iterator[int]:
    """Run the server of a peer, and return its process id when it listens."""
    address = f"{network.address}:{PORT}"
    if peer.kernel_controller:
        network.set_kernel_controller(peer.kernel_controller)
    command = network.server.command(*prefix, *peer.serve(tools, address))
    with TemporaryFile("w+") as errors:
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, text=True)
        try:
            deadline = time.monotonic() + 10
            while not listens(server.pid):
                if server.poll() is not None or time.monotonic() > deadline:
                    raise PeerError(f"the server of {peer.name} does not listen: {read(errors)}")
                time.sleep(0.005)
            yield server.pid
        finally:
            server.kill()
            server.wait()


def listens(pid: int) -> bool:
    """Return whether a socket in the namespace of a process awaits clients at our port."""
    try:
        tables = [Path(f"/proc/{pid}/net/{kind}").read_text() for kind in ("tcp", "udp")]
    except OSError:
        return False
    sockets = [line.split() for table in tables for line in table.splitlines()[1:]]
    states = ("0A", "07")  # a listening TCP socket, and any of UDP: TCP's closed connections stay in the table
    return any(socket[1].endswith(f":{PORT:04X}") and socket[3] in states for socket in sockets)


def read(file: IO[str]) -> str:
    """Return the end of what a program wrote."""
    file.seek(0)
    return " ".join(file.read().split())[-500:] or "it printed nothing"


@dataclass
class Result:
    """What a client reported, and the processor time that it used."""

    seconds: float
    processor_seconds: float


def fetch(
    peer: Peer,
    tools: Tools,
    network: Network,
    size: int,
    limit: float,
    *,
    prefix: tuple[str, ...] = (),
    every: Callable[[], None] = lambda: None,
) -> Result | None:
    """Run the client of a peer; return nothing if it takes longer than `limit` seconds.

    `every` is called once in ten milliseconds.
    """
    tools.file(size)
    words = peer.get(tools, f"{network.address}:{PORT}", size)
    if peer.wants_rate:
        if network.mbps is None:
            raise PeerError(f"{peer.name} sends at the rate of the path, and this network has none")
        words.append(str(network.mbps))
    command = network.client.command(*prefix, *words)
    with TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
        client = subprocess.Popen(command, stdout=output, stderr=errors, text=True)
        try:
            deadline = time.monotonic() + limit
            tick = time.monotonic()
            while True:
                pid, status, usage = os.wait4(client.pid, os.WNOHANG)
                if pid:
                    client.returncode = os.waitstatus_to_exitcode(status)
                    break
                if time.monotonic() > deadline:
                    return None
                every()
                now = time.monotonic()
                tick = max(tick + 0.01, now)
                time.sleep(tick - now)
        finally:
            if client.returncode is None:
                client.kill()
                client.wait()
        if client.returncode != 0:
            raise PeerError(f"the client of {peer.name} ended with {client.returncode}: {read(errors)}")
        output.seek(0)
        return Result(json.loads(output.read())["seconds"], usage.ru_utime + usage.ru_stime)
