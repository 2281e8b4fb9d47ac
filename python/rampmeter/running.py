"""Running scenarios: a file and values for its axes in, Arrow tables out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from rampmeter import _engine

Value: TypeAlias = str | int | float | bool
"""A value of an axis."""


@dataclass(frozen=True)
class Run:
    """What a scenario's runs yielded. Every table begins with a column for each axis of the sweep.

    `.to_pandas()` of a table gives a data frame where pandas is installed.
    """

    runs: pa.Table
    """One row a run: responses and goodputs of its measured flows."""
    links: pa.Table
    """One row a run and measured link: utilisation, queue, drops and marks."""
    flows: pa.Table
    """One row a flow: start, response, bytes and packets."""


def run(
    path: str | os.PathLike[str],
    world: str = "simulated",
    *,
    jobs: int | None = None,
    **axes: Value | Sequence[Value],
) -> Run:
    """Run every point of the scenario at `path`, on `jobs` threads (by default one a core).

    Keywords replace the values of the file's axes: `load=[0.3, 0.6]`, `scheme="pcp"`.

    Raises:
        ScenarioError: the file or a value is wrong; the message says what, where, and what would be right.
        WorldError: the world cannot run it.

    """
    values = [(axis, [given] if isinstance(given, str | int | float) else list(given)) for axis, given in axes.items()]
    results = [json.loads(text) for text in _engine.run(os.fspath(path), world, values, jobs)]
    return Run(
        runs=_table(_point(result) | _figures(result) for result in results),
        links=_table(
            _point(result) | {"link": name} | link
            for result in results
            for name, link in result["summary"]["links"].items()
        ),
        flows=_table(_point(result) | flow for result in results for flow in result["flows"]),
    )


def _point(result: dict[str, Any]) -> dict[str, Any]:
    return dict(result["summary"]["point"])


def _figures(result: dict[str, Any]) -> dict[str, Any]:
    summary = result["summary"]
    return {"world": summary["world"], **summary["flows"], "data_packets": summary["data_packets"]}


def _table(rows: Iterable[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows))
