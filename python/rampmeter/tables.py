"""Small tables of results: their columns, means over seeds, text and HTML.

A report shows all columns that are listed here, `repr` of a run the main ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from html import escape
from math import sqrt
from statistics import fmean, stdev
from typing import Any, NamedTuple, TypeVar

Row = dict[str, Any]
Key = TypeVar("Key", bound=Hashable)


class Column(NamedTuple):
    """A displayed column of results."""

    heading: str
    name: str
    """The column's name in the Parquet file."""
    unit: float
    """The factor from the file's unit to the displayed unit."""
    digits: int
    """Digits after the decimal point."""
    main: bool = False


RUNS: Sequence[Column] = [
    Column("transfers", "completed", 1, 0, main=True),
    Column("unfinished", "unfinished", 1, 0),
    Column("FCT ms", "fct_mean_s", 1e3, 1, main=True),
    Column("FCT sd ms", "fct_sd_s", 1e3, 1),
    Column("FCT p50 ms", "fct_p50_s", 1e3, 1),
    Column("FCT p99 ms", "fct_p99_s", 1e3, 1, main=True),
    Column("goodput Mb/s", "goodput_mean_bps", 1e-6, 3, main=True),
    Column("Jain", "goodput_jain", 1, 3),
    Column("late %", "late_share", 1e2, 1, main=True),
    Column("frame p50 ms", "frame_delay_p50_mean_s", 1e3, 0),
    Column("frame p99 ms", "frame_delay_p99_mean_s", 1e3, 0),
    Column("host jitter p99 ms", "host_jitter_p99_s", 1e3, 3),
]

LINKS: Sequence[Column] = [
    Column("used %", "utilization", 1e2, 1, main=True),
    Column("queue, mean", "queue_mean_packets", 1, 1, main=True),
    Column("90%", "queue_p90_packets", 1, 0),
    Column("max", "queue_max_packets", 1, 0),
    Column("delay ms", "delay_mean_s", 1e3, 1, main=True),
    Column("delay p99 ms", "delay_p99_s", 1e3, 1, main=True),
    Column("offered packets", "offered_packets", 1, 0),
    Column("dropped %", "drop_rate", 1e2, 3, main=True),
    Column("marked %", "data_mark_rate", 1e2, 3),
]


class Table(NamedTuple):
    """Cells of text: values of axes first, then columns of numbers."""

    axes: list[str]
    headings: list[str]
    body: list[list[str]]

    def text(self) -> str:
        """Format the cells as lines, with numbers aligned right."""
        lines = [[*self.axes, *self.headings], *self.body]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        left = len(self.axes)
        return "\n".join(
            "  ".join(
                cell.ljust(width) if n < left else cell.rjust(width)
                for n, (cell, width) in enumerate(zip(cells, widths, strict=True))
            ).rstrip()
            for cells in lines
        )

    def html(self) -> str:
        """Format an HTML table. Cells that are not numbers have the class `word`."""

        def line(tag: str, cells: Iterable[str]) -> str:
            words = [f'<{tag} class="word">'] * len(self.axes)
            kinds = [*words, *[f"<{tag}>"] * len(self.headings)]
            return "".join(f"{kind}{escape(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))

        head = line("th", [*self.axes, *self.headings])
        body = "".join(f"<tr>{line('td', cells)}</tr>\n" for cells in self.body)
        return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"


def means(axes: Sequence[str], *sources: tuple[Sequence[Column], list[Row]]) -> Table:
    """Return a line for each point of `axes`, with the means of the columns of each source."""
    headings: list[str] = []
    body: dict[tuple[Any, ...], list[str]] = {}
    for columns, rows in sources:
        shown = [column for column in columns if any(row[column.name] is not None for row in rows)]
        headings += [column.heading for column in shown]
        for point, some in grouped(rows, lambda row: tuple(row[axis] for axis in axes)).items():
            body.setdefault(point, list(map(str, point))).extend(_cell(column, some) for column in shown)
    return Table([*axes], headings, [*body.values()])


def grouped(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    """Gather rows by `key(row)`, in the order in which the keys first appear."""
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def mean(rows: Iterable[Row], column: str) -> float | None:
    """Return the mean of a column's values."""
    values = [row[column] for row in rows if row[column] is not None]
    return fmean(values) if values else None


def half_interval(rows: Iterable[Row], column: str) -> float:
    """Return half of the 95% confidence interval of the mean of a column's values; 0 for a single value."""
    values = [row[column] for row in rows if row[column] is not None]
    return student(len(values) - 1) * stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0


def student(degrees: int) -> float:
    """Return the 97.5% quantile of Student's t: a table, then the expansion of Abramowitz and Stegun, 26.7.5."""
    if degrees <= 4:
        return (12.7062, 4.30265, 3.18245, 2.77645)[degrees - 1]
    z, n = 1.959964, degrees
    first, second = (z**3 + z) / (4 * n), (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
    return z + first + second + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)


def _cell(column: Column, rows: list[Row]) -> str:
    """Write a mean, and half of its 95% confidence interval over seeds."""
    value = mean(rows, column.name)
    if value is None:
        return ""
    text = f"{column.unit * value:,.{column.digits}f}"
    return f"{text} ± {column.unit * half_interval(rows, column.name):,.{column.digits}f}" if len(rows) > 1 else text
