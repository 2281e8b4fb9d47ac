"""Running scenarios: a file and values for its axes in, Arrow tables out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

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


class Machine(TypedDict):
    """The machine of a run."""

    system: str
    processor: str
    cores: int


class About(TypedDict):
    """Description of a run: `run.json` of the run directory."""

    title: str
    scenario: str
    scenario_sha256: str
    world: str
    version: str
    build: str
    date: str
    machine: Machine
    axes: dict[str, list[Value]]
    schemes: dict[str, dict[str, Any]]
    points: int
    finished: int
    skipped: list[Skipped]
    failed: list[Skipped]
    degraded: list[Degraded]


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
    scenario: str | os.PathLike[str] | Mapping[str, Any],
    /,
    world: str = "simulated",
    *,
    axes: Mapping[str, Value | Iterable[Value]] | None = None,
    out: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    trace: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    cluster: Client | None = None,
    crate: str | os.PathLike[str] | None = None,
    **more_axes: Value | Iterable[Value],
) -> Run:
    """Run every point of a scenario, `simulated` or `emulated`, `jobs` in parallel (one per core).

    The scenario is the path of a file, or its text (of several lines), or the same as a mapping:
    `{"duration": "10 s", "link": [{"name": "bottleneck", ...}], ...}`. Files that a text or a mapping names have
    absolute paths.

    Emulated runs carry real packets between network namespaces, by default one run at a time, in real time; parallel
    runs share the machine, and `host_jitter_p99_s` shows the resulting delay. They need root or user namespaces, and a
    `/dev/net/tun` that is open to the user. `rampmeter probe` says what is missing.

    Keywords replace the values of the file's axes: `load=[0.3, 0.6]`, `scheme="pcp"`. So does `axes={"load": 0.3}`, for
    axes whose names are chosen at run time, are not Python identifiers or are parameters of this function.
    `axes={"link.bottleneck.rate": ["10 Mb/s", "20 Mb/s"], "seed": "1..9"}` sets keys of the file, too, as `--set`.

    With `out` the run directory is kept there. A later run keeps the points that are finished there, also those of
    other versions of the scenario, unless it is `fresh`. Points of another build of this package are never kept. A
    terminal or a notebook shows the progress.

    With `trace`, a directory, what each flow and link did is written there (docs/traces.md), and finished points run
    again.

    With `crate`, the directory of a Rust crate with controllers or routers of its own, that crate's command is built
    and runs the scenario.

    With `cluster`, a client of Dask (`distributed.Client`), its workers run the points. The tables are the same.

    Raises:
        ScenarioError: the file or a value is invalid; the message says what, where, and what to write instead.
        WorldError: the world cannot run the points, and the message says what this machine lacks; or runs failed, and
            it has a line for each. The results of the others are in `out`, for `Run.read`.

    """
    if twice := sorted(more_axes.keys() & (axes or {}).keys()):
        raise ScenarioError(f"{twice[0]}: given twice; give it in axes={{...}} or as a keyword, not in both")
    if cluster is not None and world != "simulated":
        raise ScenarioError("cluster: only simulated runs can be on other machines; leave out one of the two")
    traces = None if trace is None else os.fspath(trace)
    values = [(axis, _listed(axis, given)) for axis, given in {**(axes or {}), **more_axes}.items()]
    with (
        _file(scenario) as path,
        nullcontext(out) if out is not None else TemporaryDirectory(prefix="rampmeter-") as directory,
    ):
        if crate is not None:
            _run_crate(crate, path, world, values, jobs, directory, fresh=fresh, trace=traces)
        elif world == "emulated":
            emulation.run(_engine, path, values, jobs, os.fspath(directory), fresh, traces, _show)
        else:
            carry = None
            if cluster is not None:
                from rampmeter import cluster as workers

                carry = partial(workers.carry, cluster)
            _engine.run(path, world, values, jobs, directory, fresh, traces, _engine.__file__, _show, carry)
        return Run.read(directory)


@contextmanager
def _file(scenario: str | os.PathLike[str] | Mapping[str, Any]) -> Iterator[str]:
    """Yield the path of the scenario's file, for a text or a mapping that of a temporary one."""
    text = _toml_lines(scenario) if isinstance(scenario, Mapping) else scenario
    if not isinstance(text, str) or "\n" not in text:
        yield os.fspath(text)
        return
    with TemporaryDirectory(prefix="rampmeter-") as directory:
        file = Path(directory) / "scenario.toml"
        file.write_text(text, encoding="utf-8")
        yield str(file)


def _toml_lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{json.dumps(key)} = {_toml(value)}\n" for key, value in table.items()) + "\n"


def _toml(value: Any) -> str:
    """Write a value in TOML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


def _run_crate(
    crate: str | os.PathLike[str],
    path: str,
    world: str,
    axes: list[tuple[str, list[Value]]],
    jobs: int | None,
    out: str | os.PathLike[str],
    *,
    fresh: bool,
    trace: str | None,
) -> None:
    """Run the scenario by the command of a crate, which cargo builds; its progress is on standard error."""
    command = ["cargo", "run", "--release", "--quiet", "--manifest-path", os.fspath(Path(crate) / "Cargo.toml"), "--"]
    command += ["run", path, "--world", world, "--out", os.fspath(out), "--json"]
    for axis, values in axes:
        command += [
            "--set",
            f"{axis}={','.join(value if isinstance(value, str) else json.dumps(value) for value in values)}",
        ]
    command += [
        *(["--jobs", str(jobs)] if jobs else []),
        *(["--fresh"] if fresh else []),
        *(["--trace", trace] if trace else []),
    ]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ScenarioError(f"crate={crate}: cargo cannot be run: {error.strerror}; install Rust") from None
    if ran.returncode != 0:
        reason = ran.stderr.strip().removeprefix("rampmeter: ") or f"exit code {ran.returncode}"
        raise (ScenarioError if ran.returncode == 2 else _engine.WorldError)(reason)


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
    """Write the progress of a run over the last line, on a terminal or in a notebook."""
    if not (sys.stderr.isatty() or "ipykernel" in sys.modules):
        return
    text = f"{done} of {total} runs" + ("" if left is None else f", {left:.0f} s left")
    print(f"\r{text:40}", end="\n" if done == total else "", file=sys.stderr, flush=True)
