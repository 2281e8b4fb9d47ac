"""Measure programs over emulated paths: directly, with the kernel's TCP, and through `rampmeter tunnel`.

    make bench-tunnel
    make bench-tunnel TUNNEL="--paths lossy --ways 'direct cubic,tunnel pcp' --loads small,iperf --repeats 1"

Each way runs all loads once in every turn, one after the other, from a server on the one side to a client on the other.
A tunnel is started for each turn and carries all of its loads, as for a user; so the first load meets an unknown path,
and later ones do not. `direct cubic` is the kernel's TCP with that controller at the servers. `port pcp` is the tunnel
without its SOCKS port, for browsers, too. `stdio pcp` starts a tunnel for each connection of ssh, as its
`ProxyCommand`. `busy cubic` is `direct cubic` on a machine whose processor is as busy as
with a tunnel: whether programs are slower only because both ends of the tunnel run beside them. It needs root.
scripts/tunnel_loads.py has the loads.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from tunnel_loads import (
    BY_SSH,
    HTTP,
    LOADS,
    PORTS,
    REALTIME,
    Files,
    Load,
    Way,
    run,
    running,
    serving,
)
from wire_network import SERVER, Emulated, LineReport, NetworkError, PathSettings, killed_with_us
from wire_peers import PeerError, prepare, progress, stop_on_signals

PATHS = [
    PathSettings("clean", mbps=100, rtt_ms=10, buffer=1, loss=0),
    PathSettings("lossy", mbps=100, rtt_ms=150, buffer=0.5, loss=0.01),
    PathSettings("shallow", mbps=100, rtt_ms=100, buffer=0.1, loss=0),
    PathSettings("bloated", mbps=20, rtt_ms=20, buffer=20, loss=0),
    PathSettings("far", mbps=50, rtt_ms=300, buffer=1, loss=0.0001),
]
# Seconds: a program uses each core, and leaves it to others. Both ends of a tunnel use 0.2 of two cores while a page
# loads: 110 ms in 270 (their `schedstat`).
BUSY = (50e-6, 150e-6)
WAYS = "direct cubic,direct bbr,tunnel cubic,tunnel newreno,tunnel pcp"
PATHS_BY_DEFAULT = "clean,lossy,shallow,bloated"
LOADS_BY_DEFAULT = "small,medium,large,page,objects,git,rsync,iperf"
TUNNEL, SOCKS = 7268, 1080


@dataclass
class Row:
    """The results of a load, by way."""

    load: str
    unit: str
    results: dict[str, list[float]] = field(default_factory=dict)


def main() -> int:
    """Measure, and print tables or an object."""
    parser = argparse.ArgumentParser(description="Compare direct TCP with the tunnel over emulated paths.")
    parser.add_argument("rampmeter", type=Path, help="the command")
    parser.add_argument(
        "--ways",
        default=WAYS,
        help="`direct`, `busy`, `tunnel`, `port` or `stdio CONTROLLER`, with commas (%(default)s)",
    )
    parser.add_argument("--paths", default=PATHS_BY_DEFAULT, help="the same (%(default)s)")
    parser.add_argument("--loads", default=LOADS_BY_DEFAULT, help="the same (%(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="how often each way runs all loads")
    parser.add_argument("--delay-line", type=Path, help="the program; without it, all of bench/wire is built")
    parser.add_argument("--json", action="store_true", help="print one object with every result instead of tables")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("SKIPPED, not root: network namespaces with routers need it")
        return 0
    stop_on_signals()
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    known = {path.name: path for path in PATHS}
    for kind, names, there in (("path", arguments.paths, known), ("load", arguments.loads, LOADS)):
        unknown = [name for name in names.split(",") if name not in there]
        if unknown:
            parser.error(f"no {kind} is called {unknown[0]!r}; there are: {', '.join(there)}")
    loads = installed([LOADS[name] for name in arguments.loads.split(",")])
    ways = available(arguments.ways.split(","))
    if any(way.startswith("stdio") for way in ways) and set(arguments.loads.split(",")) - set(BY_SSH):
        parser.error(f"only loads over ssh can be measured with `stdio`: --loads {','.join(BY_SSH)}")
    line = arguments.delay_line or prepare(arguments.rampmeter).programs / "delay_line"
    programs = (arguments.rampmeter.resolve(), line.resolve())
    results = []
    with TemporaryDirectory(prefix="rampmeter-bench-") as directory:
        files = Files(Path(directory))
        for path in (known[name] for name in arguments.paths.split(",")):
            rows, report = measure(path, ways, loads, files, programs, arguments.repeats)
            results.append({"path": asdict(path), "loads": [asdict(row) for row in rows], "delay_line": asdict(report)})
            if not arguments.json:
                print(markdown(path, ways, rows, report), flush=True)
    if arguments.json:
        print(json.dumps({"paths": results}))
    return 0


def installed(loads: list[Load]) -> list[Load]:
    """Return the loads whose programs are installed, and report the others."""
    found = []
    for load in loads:
        missing = [program for program in load.needs if shutil.which(program) is None]
        if missing:
            progress(f"SKIPPED, {load.name}: {', '.join(missing)} is not installed")
        else:
            found.append(load)
    return found


def available(ways: list[str]) -> list[str]:
    """Return the ways that this kernel has, and report the others."""
    kernel = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    found = []
    for way in ways:
        kind, _, controller = way.partition(" ")
        if kind not in ("direct", "busy", "tunnel", "port", "stdio") or not controller:
            raise PeerError(f"no way is called {way!r}; write direct cubic or, for example, tunnel pcp")
        if kind in ("direct", "busy") and controller not in kernel:
            progress(f"SKIPPED, {way}: this kernel has no tcp_{controller}")
        else:
            found.append(way)
    return found


def measure(
    path: PathSettings, ways: list[str], loads: list[Load], files: Files, programs: tuple[Path, Path], repeats: int
) -> tuple[list[Row], LineReport]:
    """Run all ways over one path, in turns."""
    rampmeter, delay_line = programs
    rows = [Row(load.name, load.unit, {way: [] for way in ways}) for load in loads]
    progress(f"\n{path}")
    with closing(Emulated(path, delay_line, seed=1)) as network, serving(files, network):
        for turn in range(repeats):
            for name in ways:
                with reached(name, files, network, rampmeter) as way:
                    for load, row in zip(loads, rows, strict=True):
                        network.drain()
                        result = load.measure(files, network.client, way)
                        row.results[name].append(result)
                        progress(f"{path.name}, {turn + 1}, {name}, {load.name}: {result:.3f} {load.unit}")
        report = network.finish()
    if report.late_p99_s > min(2e-3, path.rtt_ms / 1e4) or report.dropped:
        progress(f"{path.name}: the machine is too busy or too slow: {report}")
    return rows, report


@contextmanager
def reached(name: str, files: Files, network: Emulated, rampmeter: Path) -> Iterator[Way]:
    """Make the servers reachable for the client."""
    kind, _, controller = name.partition(" ")
    if kind in ("direct", "busy"):
        network.set_kernel_controller(controller)
        with ExitStack() as stack:
            for core in os.sched_getaffinity(0) if kind == "busy" else ():
                stack.enter_context(busy(core))
            yield Way(SERVER)
        return
    at = files.directory
    for key in ("server", "client"):
        (at / f"{key}.pub").write_bytes(run(rampmeter, "key", at / key))
    allowed = [word for host in ("127.0.0.1:*", f"{SERVER}:{HTTP}") for word in ("--allow", host)]
    server: list[str | Path] = ["--listen", f"{SERVER}:{TUNNEL}", "--authorized", at / "client.pub", *allowed]
    address = f"{SERVER}:{TUNNEL}?key={(at / 'server.pub').read_text().strip()}"
    forwards = [word for port in PORTS for word in ("-L", f"{port}:127.0.0.1:{port}")]
    client: list[str | Path] = [address, *forwards, "--socks", str(SOCKS)]
    ends = [("server", network.server, server), ("client", network.client, client)]
    with ExitStack() as stack, (at / "tunnel.log").open("w") as log:
        for end, here, words in ends[: 1 if kind == "stdio" else 2]:
            options: list[str | Path] = ["--identity", at / end, "--controller", controller]
            command = here.command(*REALTIME, rampmeter, "tunnel", *words, *options)
            stack.enter_context(running(command, log))
        if kind == "stdio":
            options = ["--identity", at / "client", "--controller", controller]
            await_line(at / "tunnel.log", "tunnel")
            words = [rampmeter, "tunnel", address, "--stdio", "%h:%p", *options]
            yield Way("127.0.0.1", command=shlex.join(map(str, words)))
            return
        await_line(at / "tunnel.log", "connected to")
        yield Way("127.0.0.1", proxy=None if kind == "port" else f"127.0.0.1:{SOCKS}", server=SERVER)


@contextmanager
def busy(core: int) -> Iterator[None]:
    """Keep a core busy for a part of the time, at the priority of all programs but browsers and the delay line."""
    used, left = BUSY
    code = f"""import time
while True:
    until = time.perf_counter() + {used}
    while time.perf_counter() < until:
        pass
    time.sleep({left})"""
    command = ["taskset", "--cpu-list", str(core), *REALTIME, sys.executable, "-c", code]
    with running(killed_with_us(command), None):
        yield


def await_line(log: Path, text: str) -> None:
    """Wait until a program has printed this."""
    deadline = time.monotonic() + 20
    while text not in log.read_text():
        if time.monotonic() > deadline:
            raise PeerError(f"no {text!r} in the tunnel's messages: {log.read_text()}")
        time.sleep(0.02)


def markdown(path: PathSettings, ways: list[str], rows: list[Row], line: LineReport) -> str:
    """Return the table of one path: medians, how many times as fast as the first way, lowest and highest results."""
    lines = [f"\n### {path}\n", "| " + " | ".join(["", *ways]) + " |", "|---" * (len(ways) + 1) + "|"]
    for row in rows:
        cells = [row.load]
        first = median(row.results[ways[0]])
        for way in ways:
            value = median(row.results[way])
            factor = first / value if row.unit == "s" else value / first
            spread = f"{min(row.results[way]):.3g} to {max(row.results[way]):.3g}"
            ratio = f"**{factor:.2f}**, " if way != ways[0] else ""
            cells.append(f"{value:.3g} {row.unit} ({ratio}{spread})")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, f"\nOf this machine: {line}."])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (PeerError, NetworkError, subprocess.TimeoutExpired) as error:
        sys.exit(f"bench_tunnel: {error}")
