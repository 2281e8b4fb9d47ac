"""The values of charts over a sweep, by the names that claims use, or of one kind of traffic or scheme.

`flows.COLUMN` or `COLUMN` is a column of `runs`, `links.LINK.COLUMN` one of `links` (`links.*` of every link), and
`COLUMN(NAME)` the mean of a column of `flows` over the flows of the traffic or scheme NAME. `share(NAME)` is the
goodput of these flows divided by that of all. The unit at the end of a column's name may be left out: `goodput(bbr)`.
"""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import pyarrow as pa

from rampmeter.report.sweep import Sweep, UnknownNameError
from rampmeter.tables import Row, grouped


class Metric(NamedTuple):
    """A column of rows, and how charts show it."""

    title: str
    rows: list[Row]
    column: str
    factor: float
    """From the file's unit to the shown unit."""


RUNS = [
    ("Mean flow completion time (ms)", "fct_mean_s", 1e3),
    ("99th percentile of the completion time (ms)", "fct_p99_s", 1e3),
    ("Mean goodput (Mb/s)", "goodput_mean_bps", 1e-6),
    ("Jain's index of goodputs", "goodput_jain", 1.0),
]
"""Title, column and factor."""

LINKS = [
    ("utilization (%)", "utilization", 1e2),
    ("mean queue (packets)", "queue_mean_packets", 1.0),
    ("99% wait at most (ms)", "delay_p99_s", 1e3),
    ("packets dropped (%)", "drop_rate", 1e2),
    ("packets marked (%)", "data_mark_rate", 1e2),
]

UNITS = {"_s": (" (ms)", 1e3), "_bps": (" (Mb/s)", 1e-6), "_bytes": (" (kB)", 1e-3), "_packets": (" (packets)", 1.0)}
"""What a column's name ends with, and the unit that charts use."""


def main_metrics(sweep: Sweep) -> list[Metric]:
    """Return the metrics of a report by default, without those that are zero in all runs (no marks, no drops)."""
    rows = sweep.run.runs.to_pylist()
    found = [Metric(title, rows, column, factor) for title, column, factor in RUNS]
    for link in sweep.links():
        found += [Metric(f"{link}: {title}", sweep.link(link), column, factor) for title, column, factor in LINKS]
    return [metric for metric in found if any(row[metric.column] for row in metric.rows)]


def chosen_metrics(sweep: Sweep, name: str, directory: Path) -> list[Metric]:
    """Return the metrics that a user called `name`."""
    if of_some := re.fullmatch(r"(\w+)\((.*)\)", name):
        return [_of_flows(sweep, name, of_some[1], of_some[2], directory / "flows.parquet")]
    if of_link := re.fullmatch(r"links\.(.*)\.(\w+)", name):
        file, known = f"{directory / 'links.parquet'}", sweep.links()
        column = _column(file, sweep.run.links, of_link[2])
        if of_link[1] not in ["*", *known]:
            raise UnknownNameError(file, "link", of_link[1], ["*", *known])
        links = known if of_link[1] == "*" else [of_link[1]]
        return [_metric(f"{link}: {of_link[2]}", sweep.link(link), column) for link in links]
    column = _column(f"{directory / 'runs.parquet'}", sweep.run.runs, name.removeprefix("flows."))
    return [_metric(name, sweep.run.runs.to_pylist(), column)]


def _metric(title: str, rows: list[Row], column: str) -> Metric:
    shown, factor = next((unit for end, unit in UNITS.items() if column.endswith(end)), ("", 1.0))
    return Metric(title + shown, rows, column, factor)


def _column(file: str, table: pa.Table, name: str) -> str:
    """Return the column of numbers that `name` is, with or without its unit."""
    numbers: list[str] = [
        field.name
        for field in table.schema
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_boolean(field.type)
    ]
    for known in [name, f"metrics.{name}"]:
        for column in numbers:
            if column in [known, *(known + end for end in UNITS)]:
                return column
    raise UnknownNameError(file, "column of numbers", name, numbers)


def _of_flows(sweep: Sweep, name: str, column: str, part: str, file: Path) -> Metric:
    """Return the mean of a column, or the share of the goodput, of the flows that have a traffic or scheme `part`."""
    is_share = column == "share"
    column = _column(f"{file}", sweep.run.flows, "goodput" if is_share else column)
    flows = sweep.run.flows.to_pylist()
    own = ["its_traffic" if "traffic" in sweep.axes else "traffic", "flow_scheme"]
    known = sorted({row[key] for row in flows for key in own})
    if part not in known:
        raise UnknownNameError(f"{file}", "traffic or scheme", part, known)
    rows = []
    for run in grouped(flows, lambda row: tuple(row[axis] for axis in [*sweep.axes, "seed"])).values():
        every = [row[column] for row in run if row[column] is not None]
        some = [row[column] for row in run if row[column] is not None and part in [row[key] for key in own]]
        value = (fmean(some) if not is_share else sum(some) / sum(every) if any(every) else None) if some else None
        rows.append({**run[0], name: value})
    if is_share:
        return Metric(f"{name}, of all goodput (%)", rows, name, 1e2)
    return _metric(name, rows, column)._replace(column=name)
