"""Points of a sweep on the workers of a Dask scheduler.

`rampmeter run FILE.toml --cluster tcp://SCHEDULER` starts this module, and `rampmeter.run(..., cluster=client)` calls
it. The coordinator, in Rust, decides which points are missing and stores each outcome in its journal; this module
carries points to workers, in batches since Dask needs about a millisecond for each task, and their replies back.

Workers need this package in the same build: results are equal to the byte, or refused. If a worker is lost, Dask gives
its batches to the others.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from rampmeter import _engine

try:
    from distributed import Client, as_completed
except ImportError as error:  # pragma: no cover - the message is for users
    raise SystemExit(
        f"rampmeter: a cluster needs the package `distributed` ({error}): pip install 'rampmeter[cluster]'"
    ) from error

Batch: TypeAlias = tuple[int, list[int]]
"""The index of a scenario, and the indices of points of it."""

BATCHES_PER_THREAD = 8
"""Enough that all threads end at about the same time."""

MAX_BATCH = 50
"""Points of a batch at most: those that a lost worker costs."""

CONNECT_TIMEOUT_S = 5

NO_WORKERS_S = 30
"""The time without workers after which a message says what to do. A cluster that restarts them needs less."""

WORKERS_CHECK_S = 1


class ClusterError(RuntimeError):
    """The cluster cannot run the points; the message says why and what to do."""


def carry(client: Client, job: str) -> Iterator[str]:
    """Run the points of `job` on the workers of `client`, and yield each reply when it is there."""
    wanted = json.loads(job)
    check_builds(client, wanted["build"])
    portables = [json.dumps(scenario) for scenario in wanted["scenarios"]]
    points = [json.dumps(place["point"]) for place in wanted["points"]]
    threads = sum(client.nthreads().values())
    batches = list(split([place["scenario"] for place in wanted["points"]], threads))
    futures = {
        client.submit(
            run_batch, wanted["build"], portables[scenario], [points[index] for index in indices], pure=False
        ): indices
        for scenario, indices in batches
    }
    try:
        with watched_workers(client):
            for future in as_completed(futures):
                for index, reply in zip(futures[future], future.result(), strict=True):
                    yield f'{{"index":{index},"reply":{reply}}}'
                future.release()
    finally:
        client.cancel(list(futures))


@contextmanager
def watched_workers(client: Client) -> Iterator[None]:
    """Say on standard error what to do while there are no workers: Dask waits in silence for new ones."""
    is_over = threading.Event()

    def watch() -> None:
        checks = 0
        while not is_over.wait(WORKERS_CHECK_S):
            try:
                checks = 0 if client.nthreads() else checks + 1
            except (OSError, ValueError):  # the scheduler is lost, of which the waiting thread hears
                return
            if checks == round(NO_WORKERS_S / WORKERS_CHECK_S):
                print(
                    f"rampmeter: the cluster has had no workers for {NO_WORKERS_S} s; start some (dask "
                    f"worker {client.scheduler.address}), or interrupt: finished points are kept, and the same command "
                    "resumes",
                    file=sys.stderr,
                    flush=True,
                )

    thread = threading.Thread(target=watch, name="rampmeter-workers", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()


def split(scenarios: list[int], threads: int) -> Iterator[Batch]:
    """Divide points, given by their scenarios, into batches of one scenario each."""
    size = max(1, min(MAX_BATCH, len(scenarios) // (max(1, threads) * BATCHES_PER_THREAD)))
    batch: list[int] = []
    for index, scenario in enumerate(scenarios):
        if batch and (scenario != scenarios[batch[0]] or len(batch) == size):
            yield scenarios[batch[0]], batch
            batch = []
        batch.append(index)
    if batch:
        yield scenarios[batch[0]], batch


def run_batch(build: str, portable: str, points: list[str]) -> list[str]:
    """Run points on a worker. A worker that joined later may have another build."""
    if build != _engine.BUILD:
        raise ClusterError(f"a worker has the build {_engine.BUILD} and not {build}; install the same one everywhere")
    return _engine.run_points(portable, points)


def check_builds(client: Client, build: str) -> None:
    """Refuse a cluster without workers, and workers of another build."""
    builds: dict[str, Any] = client.run(worker_build)
    if not builds:
        raise ClusterError("it has no workers; start some: dask worker tcp://SCHEDULER")
    for worker, other in builds.items():
        if other != build:
            raise ClusterError(
                f"worker {worker} has the build {other} and not {build}; install the same one everywhere"
            )


def worker_build() -> str:
    """Return the build of a worker's engine."""
    return _engine.BUILD


def main() -> int:
    """Read a job from standard input, and write one reply a line."""
    address = sys.argv[1]
    job = sys.stdin.readline()
    try:
        with Client(address, timeout=CONNECT_TIMEOUT_S) as client:
            for reply in carry(client, job):
                print(reply, flush=True)
    except (OSError, TimeoutError, ValueError) as error:
        print(f"rampmeter: no Dask scheduler at {address}: {error}; start one: dask scheduler", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        print(f"rampmeter: cluster {address}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
