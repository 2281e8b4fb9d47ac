"""Compare the throughput of a Dask cluster on this machine with that of threads: `make bench-cluster`.

The same sweep runs with one thread for each core, and on one Dask worker for each core, in turns. The ratio of their
times is what the cluster costs: serialization, Dask's scheduler, the journal.
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from distributed import Client, LocalCluster

import rampmeter

SCENARIO = Path(__file__).parents[1] / "studies/rivals/buffers.toml"


def seconds(points: int, client: Client | None) -> float:
    """Return how long the sweep takes."""
    with TemporaryDirectory() as out:
        start = time.monotonic()
        rampmeter.run(
            SCENARIO,
            scheme=["cubic"],
            flows=[4],
            buffer=["shallow"],
            seed=list(range(1, points + 1)),
            out=out,
            jobs=os.cpu_count(),
            cluster=client,
        )
        return time.monotonic() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=100, help="the points of the sweep (default: 100)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured (default: 5)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    cores = os.cpu_count() or 1
    with (
        LocalCluster(n_workers=cores, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(cores)
        rounds = [(seconds(args.points, None), seconds(args.points, client)) for _ in range(args.rounds)]
    here, there = (statistics.median(times) for times in zip(*rounds, strict=True))
    ratio = statistics.median(here / there for here, there in rounds)
    if args.json:
        print(json.dumps({"points": args.points, "threads_s": here, "cluster_s": there, "throughput_ratio": ratio}))
    else:
        print(f"{args.points} points, {cores} cores, median of {args.rounds}: threads {here:.2f} s, Dask {there:.2f} s")
        print(f"throughput on the cluster relative to threads: {ratio:.2f}")


if __name__ == "__main__":
    main()
