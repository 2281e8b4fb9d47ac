"""Running scenarios: a file and values for its axes in, Arrow tables out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from rampmeter import _engine, emulation
from rampmeter._engine import ScenarioError

Value: TypeAlias = str | int | float | bool
"""A value of an axis."""


@dataclass(frozen=True)
class Run:
    """What a scenario's runs yielded. Every table begins with a column for each axis of the sweep.

    `.to_pandas()` of a table gives a data frame where pandas is installed.
    """

    runs: pa.Table
    """One row a run: flow completion times and goodputs of its measured flows."""
    links: pa.Table
    """One row a run and measured link: utilization, queue, drops and marks."""
    flows: pa.Table
    """One row a run and flow: start, flow completion time, bytes and packets."""
    link_series: pa.Table | None
    """Queues over time, if the scenario asks for them."""
    flow_series: pa.Table | None
    """Windows and rates over time, if the scenario asks for them."""
    skipped: list[str]
    """Points that the world cannot run, with what it lacks."""
    about: dict[str, Any]
    """What ran, as in `run.json`: title, scenario and its SHA-256, world, version, axes."""

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Run:
        """Read a run folder, of this package or of the `rampmeter` command."""
        folder = Path(folder)

        def table(name: str) -> pa.Table | None:
            path = folder / f"{name}.parquet"
            return pq.read_table(path) if path.exists() else None

        about = json.loads((folder / "run.json").read_text())
        return cls(
            runs=pq.read_table(folder / "runs.parquet"),
            links=pq.read_table(folder / "links.parquet"),
            flows=pq.read_table(folder / "flows.parquet"),
            link_series=table("link_series"),
            flow_series=table("flow_series"),
            skipped=[f"{left['point']}: {left['reason']}" for left in about["skipped"]],
            about=about,
        )


def run(
    path: str | os.PathLike[str],
    /,
    world: str = "simulated",
    *,
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    **axes: Value | Iterable[Value],
) -> Run:
    """Run every point of the scenario at `path`, `simulated` or `emulated`: `jobs` at once, by default one a core.

    Emulated runs carry real packets between network namespaces, by default one run at a time, for as long as they say;
    several share the machine, and `host_jitter_p99_s` says how well they did. They need root or user namespaces, and a
    `/dev/net/tun` that is open to the user. `rampmeter probe` says what is missing.

    Keywords replace the values of the file's axes: `load=[0.3, 0.6]`, `scheme="pcp"`. With `out` the run folder stays
    there, and a run that was interrupted goes on from it. A terminal and a notebook show how far it is.

    Raises:
        ScenarioError: the file or a value is wrong; the message says what, where, and what would be right.
        WorldError: the runs could not be done; the message says what this machine would need.

    """
    values = [(axis, _listed(axis, given)) for axis, given in axes.items()]
    with nullcontext(out) if out is not None else TemporaryDirectory(prefix="rampmeter-") as folder:
        if world == "emulated":
            emulation.run(_engine, os.fspath(path), values, jobs, os.fspath(folder), _show)
        else:
            _engine.run(path, world, values, jobs, folder, _engine.__file__, _show)
        return Run.read(folder)


def _listed(axis: str, given: Value | Iterable[Value]) -> list[Value]:
    if isinstance(given, str | int | float):
        return [given]
    if isinstance(given, Iterable):
        return list(given)
    raise ScenarioError(f"{axis}={given}: give a value, or a list of them, for example {axis}=[1, 2]")


def _show(done: int, total: int, left: float | None) -> None:
    """Write how far a run is over what was written last, where somebody looks."""
    if not (sys.stderr.isatty() or "ipykernel" in sys.modules):
        return
    text = f"{done} of {total} runs" + ("" if left is None else f", {left:.0f} s left")
    print(f"\r{text:40}", end="\n" if done == total else "", file=sys.stderr, flush=True)
