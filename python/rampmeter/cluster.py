"""Points of a sweep on the workers of a Dask scheduler.

`rampmeter run FILE.toml --cluster tcp://SCHEDULER` starts this module, and `rampmeter.run(..., cluster=client)` calls
it. The Rust engine finds the points that are missing and stores each outcome in its journal. This module sends the
points to workers, in batches because Dask needs about a millisecond for each task, and returns their replies.

Workers need this package in the same build, so that results are equal to the byte; others are refused. If a worker is
lost, Dask gives its batches to the others. If the scheduler is lost, `carry` raises a `ClusterError`.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
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
"""Small batches let all threads end at about the same time."""

MAX_BATCH = 50
"""The maximum number of points in a batch. If a worker is lost, its batch runs again."""

CONNECT_TIMEOUT_S = 5

NO_WORKERS_S = 30
"""The time without workers after which a message says what to do. Clusters that restart workers need less."""

WORKERS_CHECK_S = 1


class ClusterError(RuntimeError):
    """The cluster cannot run the points; the message says why and what to do."""


def carry(client: Client, job: str) -> Iterator[str]:
    """Run the points of `job` on the workers of `client`, and yield each reply as soon as it arrives."""
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
                try:
                    replies = future.result()
                except CancelledError as error:  # Dask cancels all batches when the connection is lost
                    raise ClusterError(
                        "the connection to the Dask scheduler was lost; finished points are kept: start the scheduler "
                        "and its workers again, and give the same command"
                    ) from error
                for index, reply in zip(futures[future], replies, strict=True):
                    yield f'{{"index":{index},"reply":{reply}}}'
                future.release()
    finally:
        client.cancel(list(futures))


@contextmanager
def watched_workers(client: Client) -> Iterator[None]:
    """Print a message on standard error if there are no workers: Dask waits for new ones without a message."""
    is_over = threading.Event()

    def watch() -> None:
        checks = 0
        while not is_over.wait(WORKERS_CHECK_S):
            try:
                checks = 0 if client.nthreads() else checks + 1
            except (OSError, ValueError):  # the scheduler is lost: `carry` raises the error
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
    """Read a job from standard input, and write each reply as a line."""
    address = sys.argv[1]
    # Dask logs a lost scheduler as several tracebacks; the error below says the same in one line.
    logging.disable(logging.CRITICAL)
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
