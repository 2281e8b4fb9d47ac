"""Measure the speed of the simulator, of ns-3 and of ns-2 on the same machine.

    make bench

All simulate the bulk dumbbell of studies/bench/dumbbell.toml: 150 Mb/s, 80 ms, 30 NewReno flows each way. Each runs
alone on one core. A data packet is one with payload that crossed the bottleneck. Peers that are not installed are
skipped by name; `scripts/setup peers` installs them where it may.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from command import table

ROOT = Path(__file__).parents[1]
SCENARIO = ROOT / "studies/bench/dumbbell.toml"
PEERS = ROOT / "bench/peers"


@dataclass
class Measured:
    """The result of one simulator."""

    packets: int
    seconds: float
    megabytes: float
    utilization: float
    queue: float
    drops: float

    @property
    def speed(self) -> float:
        """Data packets per second of real time."""
        return self.packets / self.seconds


def measure(command: list[str]) -> tuple[str, float]:
    """Run `command` on one core; return its output and its peak memory in MB."""
    with TemporaryFile() as output:
        cores = os.sched_getaffinity(0)
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.DEVNULL, preexec_fn=lambda: os.sched_setaffinity(0, {max(cores)})
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise subprocess.CalledProcessError(process.returncode, command)
        output.seek(0)
        return output.read().decode(), usage.ru_maxrss / 1024


def ours(program: str, **axes: str) -> Measured:
    """Simulate the dumbbell with Rampmeter."""
    sets = [word for axis, value in axes.items() for word in ("--set", f"{axis}={value}")]
    text, megabytes = measure([program, "run", str(SCENARIO), "--json", *sets])
    [run] = json.loads(text)["runs"]
    link = run["links"]["bottleneck"]
    return Measured(
        packets=run["data_packets"],
        seconds=run["wall_s"],
        megabytes=megabytes,
        utilization=link["utilization"],
        queue=link["queue_mean_packets"],
        drops=link["drop_rate"],
    )


def theirs(command: list[str]) -> Measured:
    """Simulate the dumbbell with a peer."""
    text, megabytes = measure(command)
    run = json.loads(text)
    return Measured(
        packets=run["data_packets"],
        seconds=run["wall_s"],
        megabytes=megabytes,
        utilization=run["utilization"],
        queue=run["queue_mean_packets"],
        drops=run["drop_rate"],
    )


def ns3() -> Measured | None:
    """Build and run the ns-3 program, if ns-3 is installed."""
    if not Path("/usr/include/ns3").is_dir() or shutil.which("g++") is None:
        return None
    out = ROOT / "target/peers"
    subprocess.run([PEERS / "build", out], check=True)
    return theirs([str(out / "dumbbell"), "--RngRun=1"])


def ns2() -> Measured | None:
    """Run the ns-2 program, if ns-2 is installed."""
    if shutil.which("ns") is None:
        return None
    return theirs(["ns", str(PEERS / "dumbbell.tcl"), "30", "150", "60", "1"])


def main() -> int:
    """Print the tables, and the costs of the Congestion Manager."""
    program = sys.argv[1]
    us = ours(program)
    rows = [row("Rampmeter", us, us)]
    peers: list[tuple[str, Callable[[], Measured | None]]] = [("ns-2", ns2), ("ns-3", ns3)]
    for name, peer in peers:
        them = peer()
        if them is None:
            print(f"SKIPPED, {name}: it is not installed")
        else:
            rows.append(row(name, them, us))
    print("\nBulk dumbbell: 150 Mb/s, 80 ms, 30 + 30 NewReno flows, 60 s simulated, one core\n")
    head = ["simulator", "", "wall", "packets / s", "Rampmeter is", "memory", "utilization", "queue", "drops"]
    print(table(head, rows))

    large = ours(program, flows="1000", rate="5 Gb/s", duration="20 s")
    print("\nThe same at 5 Gb/s with 1,000 + 1,000 flows, 20 s simulated\n")
    print(table(head, [row("Rampmeter", large, us)]))
    print(f"\nTime per packet grows {us.speed / large.speed:.2f} times from 60 flows to 2,000.")

    print("\nThe Congestion Manager: costs of flows and macroflows\n", flush=True)
    footprint = ["cargo", "run", "--quiet", "--release", "--package", "rampmeter-manager", "--example", "footprint"]
    subprocess.run(footprint, check=True)
    return 0


def row(name: str, it: Measured, us: Measured) -> list[str]:
    """Write one line of the table."""
    return [
        name,
        "",
        f"{it.seconds:.2f} s",
        f"{it.speed:,.0f}",
        "" if it is us else f"{us.speed / it.speed:.1f} x",
        f"{it.megabytes:.0f} MB",
        f"{it.utilization:.3f}",
        f"{it.queue:.0f}",
        f"{100 * it.drops:.2f}%",
    ]


if __name__ == "__main__":
    sys.exit(main())
