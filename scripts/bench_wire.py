"""Measure how fast a file moves between two processes of this machine, by Rampmeter and by other programs.

    make bench-wire
    make bench-wire WIRE="--repeats 9 --megabytes 1000"

Each side has one core. The programs take turns, so that other work on the machine affects all of them. In its turn a
server sends the same file twice. As root, they are in two network namespaces with a link of Ethernet's MTU; without
root, on the loopback device. bench/wire/README.md says what is compared, and where the comparison is unfair.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import closing
from pathlib import Path
from statistics import median

from command import table
from wire_network import Loopback, Network, NetworkError, Pair
from wire_peers import Peer, PeerError, Tools, chosen, fetch, prepare, progress, serving, stop_on_signals

REFERENCE = "s2n-quic"
ROWS = "rampmeter newreno,rampmeter cubic,rampmeter pcp,s2n-quic,quinn,noq,quic-go,TCP cubic"
LIMIT = 60.0  # seconds of one transfer


def main() -> int:
    """Measure, and print a table or an object."""
    parser = argparse.ArgumentParser(description="Compare the speed of file transfers, one core for each side.")
    parser.add_argument("rampmeter", type=Path, help="the command")
    parser.add_argument("--peers", default=ROWS, help="names, with commas between them (%(default)s)")
    parser.add_argument("--megabytes", type=int, default=400, help="the size of a transfer (%(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="turns of each peer, of two transfers (%(default)s)")
    parser.add_argument("--mtu", type=int, default=1500, help="the link's, as root (%(default)s)")
    parser.add_argument("--loopback", action="store_true", help="use the loopback device, also as root")
    parser.add_argument("--json", action="store_true", help="print one object with every transfer instead of a table")
    arguments = parser.parse_args()
    stop_on_signals()
    tools = prepare(arguments.rampmeter)
    peers = chosen(arguments.peers, tools)
    with closing(create_network(arguments)) as network:
        size = arguments.megabytes * 1_000_000
        tools.file(size)
        rows = measure(peers, tools, network, size, arguments.repeats)
    if arguments.json:
        print(json.dumps({"bytes": size, "peers": rows}))
    else:
        head = ["peer", "packet", "first Gb/s", f"of {REFERENCE}", "again Gb/s", "lowest", "highest"]
        head += [f"of {REFERENCE}", "server s/GB", "client s/GB"]
        print(f"\n{arguments.megabytes} MB, one core for each side, medians of {arguments.repeats} turns. All columns")
        print("after the first rate and its ratio are of the second transfer that a server makes of the file.\n")
        print(table(head, [line(row, rows) for row in rows]))
    return 0


def create_network(arguments: argparse.Namespace) -> Network:
    """Return where to measure."""
    if arguments.loopback:
        return Loopback()
    if os.geteuid() == 0:
        return Pair(arguments.mtu)
    progress("not root: measuring on the loopback device, whose MTU favours TCP (65536 bytes)")
    return Loopback()


def cores() -> tuple[str, str]:
    """Return the cores of the server and of the client."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) == 1:
        progress("this machine has one core: both sides share it")
    return str(usable[0]), str(usable[-1])


def measure(peers: list[Peer], tools: Tools, network: Network, size: int, repeats: int) -> list[dict[str, object]]:
    """Run all peers `repeats` times, in turns."""
    ours, theirs = cores()
    first: dict[str, list[float]] = {peer.name: [] for peer in peers}
    rates: dict[str, list[float]] = {peer.name: [] for peer in peers}
    costs: dict[str, list[tuple[float, float]]] = {peer.name: [] for peer in peers}
    for turn in range(repeats):
        for peer in peers:
            try:
                with serving(peer, tools, network, ("taskset", "--cpu-list", ours)) as server:
                    unknown = fetch(peer, tools, network, size, LIMIT, prefix=("taskset", "--cpu-list", theirs))
                    before = processor_seconds(server)
                    known = fetch(peer, tools, network, size, LIMIT, prefix=("taskset", "--cpu-list", theirs))
                    after = processor_seconds(server)
            except PeerError as error:
                progress(str(error))
                unknown = known = None
            if unknown is None or known is None:
                progress(f"{turn + 1} of {repeats}, {peer.name}: unfinished")
                continue
            first[peer.name].append(8 * size / unknown.seconds)
            rates[peer.name].append(8 * size / known.seconds)
            costs[peer.name].append((1e9 * (after - before) / size, 1e9 * known.processor_seconds / size))
            both = f"{first[peer.name][-1] / 1e9:.2f}, then {rates[peer.name][-1] / 1e9:.2f} Gb/s"
            progress(f"{turn + 1} of {repeats}, {peer.name}: {both}")
    return [
        {
            "peer": peer.name,
            "packet": min(peer.packet, network.mtu),
            "first_bits_per_second": first[peer.name],
            "bits_per_second": rates[peer.name],
            "server_seconds_per_gigabyte": [server for server, _ in costs[peer.name]],
            "client_seconds_per_gigabyte": [client for _, client in costs[peer.name]],
            "unfinished": repeats - len(rates[peer.name]),
        }
        for peer in peers
    ]


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def line(row: dict[str, object], rows: list[dict[str, object]]) -> list[str]:
    """Write one line of the table."""
    rates = numbers(row, "bits_per_second")
    head = [str(row["peer"]), f"{row['packet']} B"]
    if not rates:
        return [*head, *["unfinished"] * 8]
    first = numbers(row, "first_bits_per_second")
    gigabits = [f"{rate / 1e9:.2f}" for rate in (median(first), median(rates), min(rates), max(rates))]
    reference = next((one for one in rows if one["peer"] == REFERENCE and numbers(one, "bits_per_second")), None)
    ratios = ["", ""]
    if reference:
        columns = [("first_bits_per_second", first), ("bits_per_second", rates)]
        ratios = [f"{median(own) / median(numbers(reference, column)):.2f}" for column, own in columns]
    costs = [f"{median(numbers(row, f'{side}_seconds_per_gigabyte')):.2f}" for side in ("server", "client")]
    return [*head, gigabits[0], ratios[0], *gigabits[1:], ratios[1], *costs]


def numbers(row: dict[str, object], column: str) -> list[float]:
    """Return the values of all transfers."""
    values = row[column]
    return values if isinstance(values, list) else []


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (PeerError, NetworkError) as error:
        sys.exit(f"bench_wire: {error}")
