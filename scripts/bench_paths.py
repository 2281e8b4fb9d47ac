"""Measure file transfers over emulated paths with a bottleneck: completion times, queueing delay and loss.

    make bench-paths
    make bench-paths PATHS="--paths lossy,shallow --peers 'rampmeter pcp,TCP bbr' --repeats 1"

Every peer sends each size over each path, in turns, one transfer at a time. The queue and its losses are those of the
largest size. It needs root. bench/wire/README.md says what is compared, and where the comparison is unfair.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean

from wire_network import Emulated, LineReport, NetworkError, PathSettings, QueueMeter, QueueReport, real_time
from wire_peers import Peer, PeerError, Tools, chosen, fetch, prepare, progress, serving, stop_on_signals

PATHS = [
    PathSettings("cable", mbps=50, rtt_ms=30, buffer=1, loss=0),
    PathSettings("deep", mbps=20, rtt_ms=40, buffer=4, loss=0),
    PathSettings("shallow", mbps=100, rtt_ms=60, buffer=0.2, loss=0),
    PathSettings("lossy", mbps=40, rtt_ms=50, buffer=1, loss=0.01),
    PathSettings("fibre", mbps=500, rtt_ms=10, buffer=1, loss=0),
    PathSettings("satellite", mbps=100, rtt_ms=300, buffer=0.5, loss=0.001),
]
ROWS = "rampmeter pcp,rampmeter cubic,rampmeter bbr,TCP cubic,TCP bbr,quic-go,hysteria bbr"
SIZES = [30_000, 1_000_000, 50_000_000]


@dataclass
class Row:
    """The transfers of one peer over one path."""

    peer: str
    seconds: dict[int, list[float]]  # of completed transfers, by size
    unfinished: dict[int, int]
    queue: list[QueueReport] = field(default_factory=list)  # of each transfer of the largest size


def main() -> int:
    """Measure, and print tables or an object."""
    parser = argparse.ArgumentParser(description="Compare file transfers over emulated paths.")
    parser.add_argument("rampmeter", type=Path, help="the command")
    parser.add_argument("--peers", default=ROWS, help="names, with commas between them (%(default)s)")
    parser.add_argument("--paths", default=",".join(path.name for path in PATHS), help="the same (%(default)s)")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="bytes, the same (%(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="transfers of the largest size; others: thrice as many")
    parser.add_argument(
        "--slack", type=float, default=5, help="a transfer ends unfinished after so many times the ideal time"
    )
    parser.add_argument("--json", action="store_true", help="print one object with every transfer instead of tables")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("SKIPPED, not root: network namespaces with routers need it")
        return 0
    stop_on_signals()
    known = {path.name: path for path in PATHS}
    unknown = [name for name in arguments.paths.split(",") if name not in known]
    if unknown:
        parser.error(f"no path is called {unknown[0]!r}; there are: {', '.join(known)}")
    sizes = sorted(int(size) for size in arguments.sizes.split(","))
    tools = prepare(arguments.rampmeter)
    peers = chosen(arguments.peers, tools)
    results = []
    for path in (known[name] for name in arguments.paths.split(",")):
        rows, line = measure(path, peers, tools, sizes, arguments.repeats, arguments.slack)
        results.append({"path": asdict(path), "peers": [asdict(row) for row in rows], "delay_line": asdict(line)})
        if not arguments.json:
            print(markdown(path, rows, sizes, line), flush=True)
    if arguments.json:
        print(json.dumps({"paths": results}))
    return 0


def measure(
    path: PathSettings, peers: list[Peer], tools: Tools, sizes: list[int], repeats: int, slack: float
) -> tuple[list[Row], LineReport]:
    """Run all peers over one path, in turns."""
    rows = [Row(peer.name, {size: [] for size in sizes}, dict.fromkeys(sizes, 0)) for peer in peers]
    limits = {size: 5 + slack * (8 * size / path.mbps / 1e6 + 4 * path.rtt_ms / 1e3) for size in sizes}
    turns = [(turn, size) for size in sizes for turn in range(repeats if size == sizes[-1] else 3 * repeats)]
    longest = len(peers) * sum(limits[size] for _, size in turns)
    progress(f"\n{path}: at most {longest / 60:.0f} minutes")
    with closing(Emulated(path, tools.programs / "delay_line", seed=1)) as network:
        for turn, size in turns:
            for peer, row in zip(peers, rows, strict=True):
                seconds, report = transfer(peer, tools, network, size, limits[size])
                if seconds is None:
                    row.unfinished[size] += 1
                else:
                    row.seconds[size].append(seconds)
                if size == sizes[-1]:
                    row.queue.append(report)
                text = "unfinished" if seconds is None else f"{seconds:.3f} s"
                progress(f"{path.name}, {amount(size)}, {turn + 1}, {peer.name}: {text}")
        line = network.finish()
    if line.late_p99_s > min(2e-3, path.rtt_ms / 1e4) or line.dropped:
        progress(f"{path.name}: the machine is too busy or too slow: {line}")
    return rows, line


def transfer(peer: Peer, tools: Tools, network: Emulated, size: int, limit: float) -> tuple[float | None, QueueReport]:
    """Run one transfer; return its completion time, if it completed in time, and what happened in the queue."""
    network.drain()
    meter = QueueMeter(network)
    result = None
    try:
        with serving(peer, tools, network, real_time(10)):
            result = fetch(peer, tools, network, size, limit, prefix=real_time(10), every=meter.sample)
    except PeerError as error:
        progress(str(error))
    meter.sample()
    return result.seconds if result else None, meter.finish()


def markdown(path: PathSettings, rows: list[Row], sizes: list[int], line: LineReport) -> str:
    """Return the table of one path."""
    head = ["peer", *(amount(size) for size in sizes), "queue, mean", "queue, p95", "loss by the queue"]
    lines = [f"\n### {path}\n", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        cells = [row.peer, *(times(row, size) for size in sizes)]
        cells.append(f"{1e3 * fmean(report.mean_s for report in row.queue):.1f} ms")
        cells.append(f"{1e3 * fmean(report.p95_s for report in row.queue):.1f} ms")
        cells.append(f"{100 * fmean(report.loss for report in row.queue):.2f}%")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, f"\nOf this machine: {line}."])


def amount(size: int) -> str:
    """Write a number of bytes."""
    return f"{size / 1e6:g} MB" if size >= 1_000_000 else f"{size / 1e3:g} kB"


def times(row: Row, size: int) -> str:
    """Write the mean completion time, and how many transfers did not complete."""
    seconds, unfinished = row.seconds[size], row.unfinished[size]
    mean = f"{fmean(seconds):.3f} s" if seconds else ""
    missing = f"{unfinished} of {unfinished + len(seconds)} unfinished" if unfinished else ""
    return ", ".join(text for text in (mean, missing) if text)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (PeerError, NetworkError) as error:
        sys.exit(f"bench_paths: {error}")
