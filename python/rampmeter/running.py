"""Running scenarios: a file and values for its axes in, Arrow tables out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeAlias, TypedDict

import pyarrow as pa
import pyarrow.parquet as pq

from rampmeter import _engine, emulation, tables
from rampmeter._engine import ScenarioError

if TYPE_CHECKING:
    from distributed import Client

Value: TypeAlias = str | int | float | bool
"""A value of an axis."""

MAX_LINES = 20
"""Maximum number of table rows in the `repr` of a run."""


class Skipped(TypedDict):
    """A point that the world cannot run, or whose run failed."""

    point: str
    reason: str


class Degraded(TypedDict):
    """Flows of a point that did not work as designed, or that something else than their controller limited."""

    point: str
    scheme: str
    reason: str
    flows: int
    first: str


class Problems(TypedDict, total=False):
    """What `run.json` of earlier versions does not have."""

    failed: list[Skipped]
    degraded: list[Degraded]


class About(Problems):
    """Description of a run: `run.json` of the run directory."""

    title: str
    scenario: str
    scenario_sha256: str
    world: str
    version: str
    axes: dict[str, list[Value]]
    points: int
    finished: int
    skipped: list[Skipped]


@dataclass(frozen=True)
class Run:
    """Results of a scenario's runs. Every table begins with a column for each axis of the sweep.

    `.to_pandas()` of a table gives a data frame where pandas is installed.
    """

    runs: pa.Table
    """One row per run: flow completion times and goodputs of its measured flows."""
    links: pa.Table
    """One row per run and measured link: utilization, queue, drops and marks."""
    flows: pa.Table
    """One row per run and flow: start, flow completion time, bytes and packets."""
    link_series: pa.Table | None
    """Queues over time, if the scenario asks for them."""
    flow_series: pa.Table | None
    """Windows and rates over time, if the scenario asks for them."""
    skipped: list[str]
    """Points that the world cannot run, with the reasons."""
    about: About
    """Title, scenario and its SHA-256, world, version, axes, and the number of finished points."""

    @classmethod
    def read(cls, directory: str | os.PathLike[str]) -> Run:
        """Read a run directory, of this package or of the `rampmeter` command."""
        directory = Path(directory)

        def table(name: str) -> pa.Table | None:
            path = directory / f"{name}.parquet"
            return pq.read_table(path) if path.exists() else None

        about: About = json.loads((directory / "run.json").read_text(encoding="utf-8"))
        return cls(
            runs=pq.read_table(directory / "runs.parquet"),
            links=pq.read_table(directory / "links.parquet"),
            flows=pq.read_table(directory / "flows.parquet"),
            link_series=table("link_series"),
            flow_series=table("flow_series"),
            skipped=[f"{left['point']}: {left['reason']}" for left in about["skipped"]],
            about=about,
        )

    def __repr__(self) -> str:
        """Show the scenario and the main columns of each point."""
        table, hidden = self._overview()
        more = [f"and {hidden} more points"] if hidden else []
        return "\n".join([self.about["title"], *self._facts(), "", table.text(), *more])

    def _repr_html_(self) -> str:
        """Show the same in a notebook."""
        table, hidden = self._overview()
        facts = "<br>".join(map(escape, self._facts()))
        more = f"<p>and {hidden} more points</p>" if hidden else ""
        return f"<p><b>{escape(self.about['title'])}</b><br>{facts}</p>\n{table.html()}{more}"

    def _facts(self) -> list[str]:
        about = self.about
        skipped = f", {len(self.skipped)} skipped (.skipped says why)" if self.skipped else ""
        axes = "; ".join(f"{axis} = {_listing(values)}" for axis, values in about["axes"].items())
        return [f"{about['scenario']}, {about['world']}, {about['finished']} of {about['points']} runs{skipped}", axes]

    def _overview(self) -> tuple[tables.Table, int]:
        """Return means over seeds for the first points, with a measured link, and the number of other points."""
        axes = self.about["axes"]
        varied = [axis for axis in axes if axis != "seed" and len(axes[axis]) > 1] or [
            axis for axis in axes if axis != "seed"
        ]
        sources = [([column for column in tables.RUNS if column.main], self.runs.to_pylist())]
        if len(self.links.column("its_link" if "link" in axes else "link").unique()) == 1:
            sources.append(([column for column in tables.LINKS if column.main], self.links.to_pylist()))
        table = tables.means(varied, *sources)
        return table._replace(body=table.body[:MAX_LINES]), max(0, len(table.body) - MAX_LINES)


def run(
    path: str | os.PathLike[str],
    /,
    world: str = "simulated",
    *,
    axes: Mapping[str, Value | Iterable[Value]] | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool | None = None,
    jobs: int | None = None,
    cluster: Client | None = None,
    **more_axes: Value | Iterable[Value],
) -> Run:
    """Run every point of the scenario at `path`, `simulated` or `emulated`, `jobs` in parallel (one per core).

    Emulated runs carry real packets between network namespaces, by default one run at a time, in real time; parallel
    runs share the machine, and `host_jitter_p99_s` shows the resulting delay. They need root or user namespaces, and a
    `/dev/net/tun` that is open to the user. `rampmeter probe` says what is missing.

    Keywords replace the values of the file's axes: `load=[0.3, 0.6]`, `scheme="pcp"`. So does `axes={"load": 0.3}`, for
    axes whose names are chosen at run time, are not Python identifiers or are parameters of this function.
    `axes={"link.bottleneck.rate": ["10 Mb/s", "20 Mb/s"], "seed": "1..9"}` sets keys of the file, too, as `--set`.

    With `out` the run directory is kept there. A later run of the same scenario and values keeps the finished
    points of an interrupted run, with `resume=True` those of a complete run too, with `resume=False` none. Points
    of another build of this package are never kept. A terminal or a notebook shows the progress.

    With `cluster`, a client of Dask (`distributed.Client`), its workers run the points. The tables are the same.

    Raises:
        ScenarioError: the file or a value is invalid; the message says what, where, and what to write instead.
        WorldError: the world cannot run the points, and the message says what this machine lacks; or runs failed, and
            it has a line for each. The results of the others are in `out`, for `Run.read`.

    """
    if twice := sorted(more_axes.keys() & (axes or {}).keys()):
        raise ScenarioError(f"{twice[0]}: given twice; give it in axes={{...}} or as a keyword, not in both")
    if resume and out is None:
        raise ScenarioError("resume=True: no run directory is given; add out=DIRECTORY")
    if cluster is not None and world != "simulated":
        raise ScenarioError("cluster: only simulated runs can be on other machines; leave out one of the two")
    values = [(axis, _listed(axis, given)) for axis, given in {**(axes or {}), **more_axes}.items()]
    with nullcontext(out) if out is not None else TemporaryDirectory(prefix="rampmeter-") as directory:
        if world == "emulated":
            emulation.run(_engine, os.fspath(path), values, jobs, os.fspath(directory), resume, _show)
        else:
            carry = None
            if cluster is not None:
                from rampmeter import cluster as workers

                carry = partial(workers.carry, cluster)
            _engine.run(path, world, values, jobs, directory, resume, _engine.__file__, _show, carry)
        return Run.read(directory)


def _listed(axis: str, given: Value | Iterable[Value]) -> list[Value]:
    if isinstance(given, str | int | float):
        return [given]
    if isinstance(given, Iterable):
        return list(given)
    raise ScenarioError(f"{axis}={given}: give a value, or a list of them, for example {axis}=[1, 2]")


def _listing(values: list[Value]) -> str:
    """List the values of an axis; of more than eight, the first ones and their number."""
    few = ", ".join(map(str, values[:8]))
    return few if len(values) <= 8 else f"{few}, ... ({len(values)} values)"


def _show(done: int, total: int, left: float | None) -> None:
    """Write the progress of a run over the last line, on a terminal."""
    if not (sys.stderr.isatty() or "ipykernel" in sys.modules):
        return
    text = f"{done} of {total} runs" + ("" if left is None else f", {left:.0f} s left")
    print(f"\r{text:40}", end="\n" if done == total else "", file=sys.stderr, flush=True)
