"""Run the same transfers, by the same code, in a simulated network and with real packets.

    make demo

takes two minutes after the build.

1. Runs studies/pcp/quick_start.toml in both worlds and prints one table.
2. Downloads over a simulated LTE network.
3. Fetches a file over UDP on this machine, with PCP and with NewReno, and compares its hash.
4. Draws Figure 4 of the PCP paper from our own runs.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

from command import CommandError, run, serve, table

ROOT = Path(__file__).parents[1]
SCENARIO = ROOT / "studies/pcp/quick_start.toml"
ONE = ["tcp-one", "pcp-one", "pcp-paper"]  # start with one packet, as the paper's TCP and PCP
TEN = ["cubic", "bbr", "tcp", "pcp"]  # start with ten
OURS = ONE + TEN
EMULATED = ["pcp", "linux-cubic"]  # the simulator has no kernel TCP
TODAY = "cubic,bbr,pcp"
DOWNLOADS = {"traffic.flow.size": "3MB", "traffic.flow.arrivals.every": "8s", "duration": "90s", "drain": "60s"}
MEGABYTES = 5


def main() -> int:
    """Show all parts; report and skip those that this machine cannot run."""
    program = Path(sys.argv[1])
    failures = [step(program) for step in (two_worlds, over_lte, a_file, a_figure)]
    return 1 if any(failures) else 0


def two_worlds(program: Path) -> bool:
    """Run the scenario in both worlds."""
    print("Short transfers over a 40 Mb/s path with a round trip of 25 ms\n")
    runs = run(program, SCENARIO, scheme=",".join(OURS))
    try:
        print("(with real packets this takes a minute and a half)\n", flush=True)
        runs += run(program, SCENARIO, world="emulated", scheme=",".join(EMULATED))
    except CommandError as error:
        print(f"  SKIPPED, the emulated world: {error}\n")
    rows = []
    for scheme in [*OURS, "linux-cubic"]:
        simulated, emulated = (
            [one for one in runs if one["point"]["scheme"] == scheme and one["world"] == world]
            for world in ("simulated", "emulated")
        )
        ratio = fct(emulated) / fct(simulated) if simulated and emulated else None
        rows += [row(some, ratio if some is emulated else None) for some in (simulated, emulated) if some]
    head = ["scheme", "world", "transfers", "FCT", "queue", "loss", "emulated / simulated"]
    print(table(head, rows) + "\n")
    print(f"{', '.join(ONE)} start with one packet, as in the paper; the others start with ten.\n")
    return False


def fct(runs: list[dict[str, Any]]) -> float:
    """Return the mean flow completion time of `runs`."""
    return float(mean(one["flows"]["fct_mean_s"] for one in runs))


def completed(runs: list[dict[str, Any]]) -> str:
    """Return the number of completed transfers, and of all if some did not complete."""
    done, failed = (sum(one["flows"][count] for one in runs) for count in ("completed", "unfinished"))
    return f"{done} of {done + failed}" if failed else str(done)


def row(runs: list[dict[str, Any]], ratio: float | None) -> list[str]:
    """Write one line of the table."""
    links = [one["links"]["bottleneck"] for one in runs]
    return [
        runs[0]["point"]["scheme"],
        runs[0]["world"],
        completed(runs),
        f"{1e3 * fct(runs):.0f} ms",
        f"{mean(link['queue_mean_packets'] for link in links):.1f} packets",
        f"{100 * mean(link['drop_rate'] for link in links):.2f}%",
        f"{ratio:.2f}" if ratio else "",
    ]


def over_lte(program: Path) -> bool:
    """Download one object after the other over the condition `lte-walking`."""
    print("Downloads of 3 MB over LTE, one every 8 s, ten seeds\n")
    runs = run(program, "lte-walking", scheme=TODAY, seed="1..10", **DOWNLOADS)
    by_scheme = [[one for one in runs if one["point"]["scheme"] == scheme] for scheme in TODAY.split(",")]
    rows = [
        [
            some[0]["point"]["scheme"],
            some[0]["world"],
            completed(some),
            f"{fct(some):.2f} s",
            f"{1e3 * mean(one['links']['bottleneck']['delay_mean_s'] for one in some):.0f} ms",
            f"{100 * mean(one['links']['bottleneck']['drop_rate'] for one in some):.2f}%",
        ]
        for some in sorted(by_scheme, key=fct)
    ]
    print(table(["scheme", "world", "downloads", "FCT", "queue", "loss"], rows) + "\n")
    return False


def a_file(program: Path) -> bool:
    """Fetch a file of random bytes with `rampmeter serve` and `rampmeter get`, as between two machines."""
    failed = False
    with TemporaryDirectory() as temporary:
        shelf, desk = Path(temporary) / "shelf", Path(temporary) / "desk"
        shelf.mkdir()
        desk.mkdir()
        original = shelf / "random.bin"
        original.write_bytes(os.urandom(MEGABYTES * 1_000_000))
        for controller in ["pcp", "newreno"]:
            with serve(program, shelf, controller, Path(temporary) / "key") as url:
                begin = time.monotonic()
                command = [str(program), "get", url.replace("NAME", original.name)]
                subprocess.run(command, cwd=desk, check=True, capture_output=True, text=True)
                seconds = time.monotonic() - begin
            copy = desk / original.name
            same = sha256(copy) == sha256(original)
            copy.unlink()
            failed |= not same
            verdict = "the same SHA-256" if same else "NOT THE SAME SHA-256"
            rate = 8 * MEGABYTES / seconds
            what = f"{MEGABYTES} MB over loopback with {controller}, encrypted"
            print(f"{what}: {seconds:.1f} s, {rate:.0f} Mb/s, {verdict}")
    print()
    return failed


def sha256(path: Path) -> str:
    """Hash a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def a_figure(_program: Path) -> bool:
    """Draw Figure 4 with one seed; `python -m rampmeter.figures pcp.4` draws it with five."""
    command = [sys.executable, "-m", "rampmeter.figures", "pcp.4", "--seeds", "1", "--out", "runs/demo"]
    paths = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.split()
    print("PCP's Figure 4, simulated:", *paths)
    return False


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CommandError as error:
        sys.exit(f"demo: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"demo: {error}\n{error.stderr}")
