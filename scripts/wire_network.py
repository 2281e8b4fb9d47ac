"""Network namespaces for file transfers, and what connects them.

The namespaces have no names. Each belongs to a process that sleeps, and the kernel kills that process, like all others
that start here, when this program ends, however it ends. So nothing is left over, and several runs can be active.

A `Pair` is a server and a client with a link. An `Emulated` path has two routers in between:

    server ── veth ── near ── bottleneck ── delay line ── far ── veth ── client

The bottleneck is the kernel's: tbf with a FIFO, at the output of the near router. The delay line
(bench/wire/src/bin/delay_line.rs) delays both directions and loses packets on the way to the client.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryFile
from typing import Any

MTU = 1500
SERVER, NEAR, FAR, CLIENT = "10.77.1.2", "10.77.1.1", "10.77.2.1", "10.77.2.2"
WIDE = "wide"  # the device between the routers


class NetworkError(Exception):
    """The network cannot be built, for this reason."""


class Namespace:
    """A network namespace that ends with this program, or this one's own."""

    def __init__(self, *, own: bool = False) -> None:
        """Create a namespace, or represent that of this program."""
        self.holder = None if own else subprocess.Popen(killed_with_us(["unshare", "--net", "sleep", "infinity"]))
        deadline = time.monotonic() + 10
        while self.holder and network_of(self.holder.pid) in (None, network_of(os.getpid())):
            if self.holder.poll() is not None or time.monotonic() > deadline:
                raise NetworkError("no network namespace could be created")
            time.sleep(0.005)
        if self.holder:
            self.sysctl("ipv6.conf.default.disable_ipv6=1")  # its own packets would disturb measurements
            self.run("ip", "link", "set", "lo", "up")

    def command(self, *words: str | Path) -> list[str]:
        """Return the command that runs `words` here."""
        enter = ["nsenter", "--target", str(self.holder.pid), "--net"] if self.holder else []
        return killed_with_us([*enter, *map(str, words)])

    def run(self, *words: str) -> str:
        """Run a command here and return its output."""
        result = subprocess.run(self.command(*words), capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise NetworkError(f"{' '.join(words)}: {result.stderr.strip()}")
        return result.stdout

    def sysctl(self, *settings: str) -> None:
        """Change settings of `net`."""
        self.run("sysctl", "--quiet", "--write", *(f"net.{setting}" for setting in settings))

    def close(self) -> None:
        """End it."""
        if self.holder:
            self.holder.kill()
            self.holder.wait()


def killed_with_us(command: list[str]) -> list[str]:
    """Return a command that the kernel kills when this program ends."""
    return ["setpriv", "--pdeathsig", "KILL", *command]


def network_of(pid: int) -> Path | None:
    """Return which network namespace a process has."""
    try:
        return Path(f"/proc/{pid}/ns/net").readlink()
    except OSError:
        return None


def connect(one: Namespace, other: Namespace, addresses: tuple[str, str], mtu: int = MTU) -> None:
    """Connect two namespaces by a link; each end is called `eth` and knows the other one's Ethernet address."""
    ends = list(zip((one, other), addresses, ("02:00:00:00:00:01", "02:00:00:00:00:02"), strict=True))
    pids = [str(end.holder.pid) for end in (one, other) if end.holder]
    create = "ip link add eth netns {} address {} type veth peer name eth netns {} address {}"
    one.run(*create.format(pids[0], ends[0][2], pids[1], ends[1][2]).split())
    for (here, address, _), (_, remote, ethernet) in (ends, ends[::-1]):
        here.run("ip", "link", "set", "eth", "mtu", str(mtu), "up")
        here.run("ip", "address", "add", f"{address}/24", "dev", "eth")
        here.run("ip", "neighbour", "add", remote, "lladdr", ethernet, "dev", "eth", "nud", "permanent")


class Network:
    """A server and a client."""

    server: Namespace
    client: Namespace
    address: str
    mtu = MTU
    mbps: float | None = None  # the rate of the path, if it is limited

    def __init__(self) -> None:
        """Own nothing yet."""
        self.stack = ExitStack()

    def namespace(self) -> Namespace:
        """Create a namespace that ends with the network."""
        created = Namespace()
        self.stack.callback(created.close)
        return created

    def set_kernel_controller(self, name: str) -> None:
        """Choose the congestion controller of the kernel's next connections from the server."""
        raise NotImplementedError

    def close(self) -> None:
        """End all processes of it."""
        self.stack.close()


class Loopback(Network):
    """The loopback device of this machine: it needs no permissions, and its MTU is what it is."""

    def __init__(self) -> None:
        """Use the namespace of this program."""
        super().__init__()
        self.server = self.client = Namespace(own=True)
        self.address, self.mtu = "127.0.0.1", 65_536

    def set_kernel_controller(self, name: str) -> None:
        """Do nothing: the controller of this machine's connections stays its default."""


class Pair(Network):
    """Two namespaces with a link, without limits of rate or delay."""

    def __init__(self, mtu: int = MTU) -> None:
        """Create both."""
        super().__init__()
        self.address, self.mtu = SERVER, mtu
        try:
            self.server, self.client = self.namespace(), self.namespace()
            connect(self.server, self.client, (SERVER, NEAR), mtu)
        except BaseException:
            self.close()
            raise

    def set_kernel_controller(self, name: str) -> None:
        """Set it for the route to the client."""
        self.server.run("ip", "route", "replace", NEAR, "dev", "eth", "congctl", name)


@dataclass(frozen=True)
class PathSettings:
    """What is emulated."""

    name: str
    mbps: float
    rtt_ms: float
    buffer: float  # of the bottleneck, in round trips at its rate
    loss: float  # the fraction of packets to the client that the delay line loses

    @property
    def buffer_packets(self) -> int:
        """The bottleneck's buffer, in packets of the MTU's size."""
        return max(2, round(self.buffer * self.mbps * 1e3 * self.rtt_ms / 8 / MTU))

    def __str__(self) -> str:
        """Describe it in a line."""
        buffer = f"buffer {self.buffer:g} round trips ({self.buffer_packets} packets)"
        return f"{self.name}: {self.mbps:g} Mb/s, {self.rtt_ms:g} ms, {buffer}, loss {100 * self.loss:g}%"


@dataclass
class LineReport:
    """How exact the delay line was."""

    late_p50_s: float  # of packets, when they left it
    late_p99_s: float
    dropped: int  # packets for which it had no room

    def __str__(self) -> str:
        """Describe it in a line."""
        late = f"{1e3 * self.late_p50_s:.2f} ms (median) and {1e3 * self.late_p99_s:.2f} ms (99%)"
        return f"packets left the delay line late by {late}, and it had no room for {self.dropped}"


class Emulated(Network):
    """A path with a bottleneck, a delay and random losses."""

    def __init__(self, path: PathSettings, delay_line: Path, seed: int) -> None:
        """Create its namespaces and start its delay line."""
        super().__init__()
        self.path = path
        self.address, self.mbps = SERVER, path.mbps
        try:
            self.server, self.near, self.far, self.client = (self.namespace() for _ in range(4))
            self.create_hosts()
            self.create_line(delay_line, seed)
            self.create_bottleneck()
        except BaseException:
            self.close()
            raise

    def create_hosts(self) -> None:
        """Connect each host to its router."""
        connect(self.server, self.near, (SERVER, NEAR))
        connect(self.client, self.far, (CLIENT, FAR))
        # One packet, one frame: a queue of packets that the kernel has yet to segment would not be one of a network.
        self.server.run("ip", "link", "set", "eth", "gso_max_segs", "1")
        self.client.run("ip", "link", "set", "eth", "gso_max_segs", "1")
        self.client.run("ip", "route", "add", "default", "via", FAR)
        self.server.run("ip", "route", "add", "default", "via", NEAR)
        for host in (self.server, self.client):
            # Buffers of the largest bandwidth-delay product; no memory of earlier connections.
            host.sysctl("ipv4.tcp_rmem=4096 131072 67108864", "ipv4.tcp_wmem=4096 16384 67108864")
            host.sysctl("ipv4.tcp_no_metrics_save=1")

    def create_line(self, delay_line: Path, seed: int) -> None:
        """Connect the routers."""
        pids = [str(router.holder.pid) for router in (self.near, self.far) if router.holder]
        words = [str(delay_line), WIDE, *pids, str(self.path.rtt_ms / 2), str(self.path.loss), str(seed)]
        line = subprocess.Popen(
            killed_with_us([*real_time(20), *words]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.line = line
        self.stack.callback(line.wait)
        self.stack.callback(line.kill)
        if not line.stdout or line.stdout.readline() != "ready\n":
            raise NetworkError("the delay line did not start; it needs /dev/net/tun")
        for router, network in ((self.near, CLIENT), (self.far, SERVER)):
            router.run("ip", "link", "set", WIDE, "mtu", str(MTU), "txqueuelen", "10000", "up")
            router.run("ip", "route", "add", network, "dev", WIDE)
            router.sysctl("ipv4.ip_forward=1")

    def create_bottleneck(self) -> None:
        """Limit the rate of the near router's output."""
        burst = max(2 * MTU, round(self.path.mbps * 1e6 / 8 * 100e-6))
        tbf = f"tc qdisc add dev {WIDE} root handle 1: tbf rate {self.path.mbps}mbit burst {burst} limit {100 * MTU}"
        self.near.run(*tbf.split())
        self.near.run(*f"tc qdisc add dev {WIDE} parent 1: pfifo limit {self.path.buffer_packets}".split())

    def set_kernel_controller(self, name: str) -> None:
        """Set it for the server's route."""
        self.server.run("ip", "route", "replace", "default", "via", NEAR, "congctl", name)

    def drain(self) -> None:
        """Wait until no packet of earlier transfers is left."""
        if self.line.poll() is not None:
            raise NetworkError("the delay line ended; its message is above")
        deadline = time.monotonic() + 10
        while self.backlog() > 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(self.path.rtt_ms / 1e3)

    def backlog(self) -> int:
        """Return the bytes in the bottleneck's queue."""
        [state] = states(self.near.run("tc", "-s", "-j", "qdisc", "show", "dev", WIDE))
        return int(state["backlog"])

    def finish(self) -> LineReport:
        """Stop the delay line, and return how exact it was."""
        [device] = json.loads(self.near.run("ip", "-s", "-j", "link", "show", WIDE))
        output, _ = self.line.communicate(timeout=10)
        late = json.loads(output)
        return LineReport(late["late_p50_s"], late["late_p99_s"], device["stats64"]["tx"]["dropped"])


def real_time(priority: int) -> tuple[str, ...]:
    """Return what a command begins with to run before others; nothing where this is not allowed."""
    words = ("chrt", "--fifo", str(priority))
    allowed = subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    return words if allowed else ()


def states(output: str) -> list[dict[str, Any]]:
    """Return the states of the bottleneck that `tc` printed."""
    lines = (json.loads(line) for line in output.splitlines())
    return [qdisc for line in lines for qdisc in line if qdisc["kind"] == "tbf"]


@dataclass
class QueueReport:
    """What happened in the bottleneck's queue during a transfer."""

    mean_s: float  # queueing delay
    p95_s: float
    loss: float  # the fraction of packets that found no place in it


class QueueMeter:
    """The state of a bottleneck over time: one `tc` prints it whenever it gets a line."""

    def __init__(self, network: Emulated) -> None:
        """Start."""
        self.rate = network.path.mbps * 1e6
        self.output = TemporaryFile("w+")  # noqa: SIM115
        command = network.near.command("tc", "-s", "-j", "-batch", "-")
        self.tc = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=self.output, text=True)
        self.sample()

    def sample(self) -> None:
        """Take a sample."""
        if self.tc.stdin:
            self.tc.stdin.write(f"qdisc show dev {WIDE}\n")
            self.tc.stdin.flush()

    def finish(self) -> QueueReport:
        """Stop, and return what the samples say."""
        self.tc.communicate(timeout=10)
        self.output.seek(0)
        samples = states(self.output.read())
        self.output.close()
        if not samples:
            raise NetworkError("tc printed no state of the bottleneck")
        delays = sorted(8 * sample["backlog"] / self.rate for sample in samples)
        dropped, sent = (samples[-1][count] - samples[0][count] for count in ("drops", "packets"))
        return QueueReport(fmean(delays), delays[int(0.95 * len(delays))], dropped / max(1, dropped + sent))
