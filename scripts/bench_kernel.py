"""Compare controllers under the kernel's TCP with the kernel's own, with real packets: `make bench-kernel`.

Each row is an emulated run of studies/kernel/dumbbell.toml. Rows of Rampmeter's controllers have the share of a core
that their daemon, `rampmeter kernel attach --all`, took.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
SCENARIO = ROOT / "studies/kernel/dumbbell.toml"
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
OF_THE_KERNEL = ("cubic", "bbr")


@contextmanager
def daemon(rampmeter: Path, controller: str) -> Iterator[subprocess.Popen[bytes]]:
    """Give all connections a controller of Rampmeter's."""
    command: list[str | Path] = [rampmeter, "kernel", "attach", "--all", "--controller", controller, "--json"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while "rampmeter" not in AVAILABLE.read_text().split():
        if process.poll() is not None:
            sys.exit("bench_kernel: `rampmeter kernel attach --all` failed; run it to see why")
        time.sleep(0.05)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def processor_seconds(process: subprocess.Popen[bytes]) -> float:
    """Return the processor time that a process has taken."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(rampmeter: Path, scheme: str, rate: str, flows: int, directory: str) -> dict[str, Any]:
    """Return what one emulated run measured."""
    command: list[str | Path] = [rampmeter, "run", SCENARIO, "--world", "emulated", "--json", "--out", directory]
    command += ["--set", f"scheme={scheme}", "--set", f"rate={rate}", "--set", f"flows={flows}"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"bench_kernel: {result.stderr.strip()}")
    return json.loads(result.stdout)["runs"][0]  # type: ignore[no-any-return]


def row(name: str, rate: str, result: dict[str, Any], share: float | None) -> str:
    """Return a row of the table."""
    flows, link = result["flows"], result["links"]["path"]
    goodput = flows["goodput_sum_bps"] / 1e6
    processor = "" if share is None else f"{100 * share:.1f}%"
    words = [name, rate, str(result["point"]["flows"]), f"{goodput:.1f}"]
    words += [f"{1e3 * link['delay_mean_s']:.1f}", f"{100 * link['drop_rate']:.2f}%"]
    words += [f"{flows['goodput_jain']:.3f}", processor]
    return "| " + " | ".join(words) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rampmeter", type=Path, help="the command")
    parser.add_argument("--controllers", default="newreno,cubic,copa,pcp", help="of Rampmeter (%(default)s)")
    parser.add_argument("--rates", default="40 Mb/s,100 Mb/s", help="of the link (%(default)s)")
    parser.add_argument("--flows", default="1,4", help="at the same time (%(default)s)")
    args = parser.parse_args()
    points = [(rate, int(flows)) for rate in args.rates.split(",") for flows in args.flows.split(",")]
    print("| controller | link | flows | goodput, Mb/s | queue, ms | dropped | Jain | a core |")
    print("|---|---|---|---|---|---|---|---|")
    with TemporaryDirectory() as directory:
        for scheme in OF_THE_KERNEL:
            for rate, flows in points:
                result = run(args.rampmeter, scheme, rate, flows, directory)
                print(row(f"Linux {scheme}", rate, result, None), flush=True)
        for controller in args.controllers.split(","):
            for rate, flows in points:
                # A run of the scenario is kept by its content, which does not name the daemon's controller.
                with daemon(args.rampmeter, controller) as process, TemporaryDirectory() as own:
                    began, before = time.monotonic(), processor_seconds(process)
                    result = run(args.rampmeter, "rampmeter", rate, flows, own)
                    share = (processor_seconds(process) - before) / (time.monotonic() - began)
                print(row(controller, rate, result, share), flush=True)


if __name__ == "__main__":
    main()
